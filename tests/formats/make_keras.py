"""Keras files in every layout that Keras 1 to 3 and Teachable Machine write, made with h5py alone,
so that neither TensorFlow nor its versions are needed. One head, KERNEL (features x classes) and
BIAS, is in all of them. make(folder) returns {file name: what must become of it}."""
import io
import json
import os
import zipfile

import h5py
import numpy as np

P, K, HIDDEN = (
    16,
    10,
    16,
)  # a hidden layer as wide as the head's input; another as wide as there are classes
rng = np.random.default_rng(7)
KERNEL = rng.standard_normal((P, K)).astype(np.float32)
BIAS = rng.standard_normal(K).astype(np.float32)
M = rng.standard_normal((P, K)).astype(np.float32)
BM = rng.standard_normal(K).astype(np.float32)
H_KERNEL = rng.standard_normal((8, P)).astype(np.float32)
H_BIAS = rng.standard_normal(P).astype(np.float32)


def dense(name, units, activation="linear", use_bias=True, inbound=None, spelling="units"):
    config = {"name": name, "trainable": True, spelling: units, "activation": activation}
    config["use_bias" if spelling == "units" else "bias"] = use_bias
    layer = {"class_name": "Dense", "config": config}
    if inbound is not None:
        layer.update(name=name, inbound_nodes=inbound)
    return layer


def other(class_name, name, inbound=None, **config):
    layer = {"class_name": class_name, "config": dict(config, name=name)}
    if inbound is not None:
        layer.update(name=name, inbound_nodes=inbound)
    return layer


def first(layer):
    """The layer as the first one of a Sequential model, which says what it is given."""
    layer["config"]["batch_input_shape"] = [None, 8]
    return layer


def sequential(name, layers):
    return {"class_name": "Sequential", "config": {"name": name, "layers": layers}}


def old_node(name):  # Keras 2
    return [[[name, 0, 0, {}]]]


def new_node(name, width):  # Keras 3
    return [
        {
            "args": [
                {
                    "class_name": "__keras_tensor__",
                    "config": {
                        "shape": [None, width],
                        "dtype": "float32",
                        "keras_history": [name, 0, 0],
                    },
                }
            ],
            "kwargs": {"training": False},
        }
    ]


def put_layers(top, layers):
    """layers: [(group, [(weight name, array)])] in the order of the model."""
    top.attrs["layer_names"] = [name.encode() for name, _ in layers]
    top.attrs["backend"] = b"tensorflow"
    top.attrs["keras_version"] = b"2.15.0"
    for name, weights in layers:
        group = top.create_group(name)
        if weights and name == "fixed_names":
            group.attrs["weight_names"] = np.array([w.encode() for w, _ in weights])
        else:
            group.attrs["weight_names"] = [w.encode() for w, _ in weights]
        for weight, array in weights:
            group.create_dataset(weight, data=array)


def h5(path, config, layers, moments=(), libver="earliest", training=None):
    with h5py.File(path, "w", libver=libver) as f:
        f.attrs["keras_version"] = b"2.15.0"
        if config is not None:
            f.attrs["model_config"] = json.dumps(config).encode()
            f.attrs["training_config"] = json.dumps(
                training or {"loss": "categorical_crossentropy"}
            ).encode()
            put_layers(f.create_group("model_weights"), layers)
        else:
            put_layers(f, layers)
        if moments:
            group = f.create_group("optimizer_weights")
            group.attrs["weight_names"] = [name.encode() for name, _ in moments]
            for name, array in moments:
                group.create_dataset(name, data=array)


def weights_of(layer, kernel, bias=None, end=":0", prefix=None):
    prefix = layer if prefix is None else prefix
    found = [("%s/kernel%s" % (prefix, end), kernel)]
    return found + ([] if bias is None else [("%s/bias%s" % (prefix, end), bias)])


def keras_zip(path, config, datasets, deflate=False, names=None):
    stream = io.BytesIO()
    with h5py.File(stream, "w") as f:
        for name, array in datasets:
            f.create_dataset(name, data=array)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as z:
        z.writestr("metadata.json", json.dumps({"keras_version": "3.5.0"}))
        z.writestr("config.json", json.dumps(config))
        z.writestr("model.weights.h5", stream.getvalue())
        z.writestr("assets/vocabulary.txt", names or "nothing")


def make(folder):
    at = lambda name: os.path.join(folder, name)
    hidden = ("dense", weights_of("dense", H_KERNEL, H_BIAS))
    head = ("dense_1", weights_of("dense_1", KERNEL, BIAS))
    plain = sequential(
        "sequential", [first(dense("dense", P, "relu")), dense("dense_1", K, "softmax")]
    )
    expect = {}

    def add(name, kernel, bias=None, moments=(), units=None, shows=False):
        expect[name] = dict(
            kernel=kernel, bias=bias, moments=list(moments), units=units, shows=shows
        )

    top = "model_weights/dense_1/dense_1/"
    h5(
        at("keras2.h5"),
        plain,
        [hidden, head],
        [
            ("Adam/iterations:0", np.int64(5)),
            ("Adam/dense/kernel/m:0", H_KERNEL),
            ("Adam/dense_1/kernel/m:0", M),
            ("Adam/dense_1/bias/m:0", BM),
            ("Adam/dense_1/kernel/v:0", M * M),
            ("Adam/dense_1/bias/v:0", BM * BM),
        ],
    )
    add(
        "keras2.h5",
        top + "kernel:0",
        top + "bias:0",
        [
            "optimizer_weights/Adam/dense_1/%s:0" % w
            for w in ("kernel/m", "bias/m", "kernel/v", "bias/v")
        ],
        ["config", "layers", 1, "config", "units"],
    )
    # Moments under other spellings; the hidden layer's have the same shapes as the head's.
    twin = sequential("sequential", [dense("dense", K, "relu"), dense("my_dense", K, "softmax")])
    twins = [
        ("dense", weights_of("dense", H_KERNEL[:, :K], BIAS)),
        ("my_dense", weights_of("my_dense", KERNEL[:K], BIAS)),
    ]
    for name, spell in (("m_first", "m/%s/%s:0"), ("adam_m", "Adam/m/%s/%s:0")):
        h5(
            at(name + ".h5"),
            plain,
            [hidden, head],
            [(spell % ("dense_1", "kernel"), M), (spell % ("dense_1", "bias"), BM)],
        )
        add(
            name + ".h5",
            top + "kernel:0",
            top + "bias:0",
            ["optimizer_weights/" + spell % ("dense_1", w) for w in ("kernel", "bias")],
            ["config", "layers", 1, "config", "units"],
        )
    flat = [
        ("adam/sequential_%s_%s_%s" % (layer, w, m), a)
        for layer in ("dense", "my_dense")
        for w, a in (("kernel", M[:8] if layer == "dense" else M[:K]), ("bias", BM))
        for m in ("momentum", "velocity")
    ]
    h5(at("keras3_flat.h5"), twin, twins, flat)
    add(
        "keras3_flat.h5",
        "model_weights/my_dense/my_dense/kernel:0",
        "model_weights/my_dense/my_dense/bias:0",
        [
            "optimizer_weights/adam/sequential_my_dense_%s_%s" % (w, m)
            for w in ("kernel", "bias")
            for m in ("momentum", "velocity")
        ],
        ["config", "layers", 1, "config", "units"],
    )

    # Keras 1: the list of layers is the configuration, other words, other names of weights.
    oldest = {
        "class_name": "Sequential",
        "config": [
            dense("dense_1", P, "relu", spelling="output_dim"),
            dense("dense_2", K, "linear", spelling="output_dim"),
            other("Activation", "activation_1", activation="softmax"),
        ],
    }
    h5(
        at("keras1.h5"),
        oldest,
        [
            ("dense_1", [("dense_1_W", H_KERNEL), ("dense_1_b", H_BIAS)]),
            ("dense_2", [("dense_2_W", KERNEL), ("dense_2_b", BIAS)]),
            ("activation_1", []),
        ],
    )
    add(
        "keras1.h5",
        "model_weights/dense_2/dense_2_W",
        "model_weights/dense_2/dense_2_b",
        (),
        ["config", 1, "config", "output_dim"],
    )

    # Functional, Keras 2 and 3, a softmax layer behind, in old and new layouts of HDF5.
    for libver in ("earliest", "v108", "latest"):
        functional = {
            "class_name": "Functional",
            "config": {
                "name": "model",
                "layers": [
                    other("InputLayer", "input_1", [], batch_input_shape=[None, 8]),
                    dense("dense", P, "relu", inbound=old_node("input_1")),
                    dense("dense_1", K, inbound=old_node("dense")),
                    other("Softmax", "softmax", old_node("dense_1"), axis=-1),
                ],
                "input_layers": [["input_1", 0, 0]],
                "output_layers": [["softmax", 0, 0]],
            },
        }
        many = [("layer_%d" % i, []) for i in range(12)]
        h5(
            at("functional_%s.h5" % libver),
            functional,
            many + [("input_1", []), hidden, head, ("softmax", [])],
            libver=libver,
        )
        add(
            "functional_%s.h5" % libver,
            top + "kernel:0",
            top + "bias:0",
            (),
            ["config", "layers", 2, "config", "units"],
        )
    three = {
        "module": "keras",
        "class_name": "Functional",
        "config": {
            "name": "functional",
            "layers": [
                other("InputLayer", "input_1", [], batch_shape=[None, 8]),
                dense("dense", P, "relu", inbound=new_node("input_1", 8)),
                dense("dense_1", K, inbound=new_node("dense", P)),
                dict(
                    other("Activation", "activation", new_node("dense_1", K), activation="softmax"),
                    build_config={"input_shape": [None, K]},
                ),
            ],
            "input_layers": [["input_1", 0, 0]],
            "output_layers": ["activation", 0, 0],
        },
    }
    h5(
        at("keras3.h5"),
        three,
        [
            ("dense", weights_of("dense", H_KERNEL, H_BIAS, "", "functional/dense")),
            ("dense_1", weights_of("dense_1", KERNEL, BIAS, "", "functional/dense_1")),
            ("activation", []),
        ],
    )
    add(
        "keras3.h5",
        "model_weights/dense_1/functional/dense_1/kernel",
        "model_weights/dense_1/functional/dense_1/bias",
        (),
        ["config", "layers", 2, "config", "units"],
    )

    # Teachable Machine: models as layers, and no bias.
    inner = sequential(
        "sequential_3",
        [first(dense("dense_Dense1", P, "relu")), dense("dense_Dense2", K, "softmax", False)],
    )
    features = sequential("sequential_1", [first(dense("features", 8, "relu"))])
    teachable = sequential("sequential_4", [features, inner])
    h5(
        at("teachable.h5"),
        teachable,
        [
            (
                "sequential_1",
                weights_of("features", np.eye(8, dtype=np.float32), np.zeros(8, np.float32)),
            ),
            (
                "sequential_3",
                weights_of("dense_Dense1", H_KERNEL, H_BIAS) + weights_of("dense_Dense2", KERNEL),
            ),
        ],
    )
    add(
        "teachable.h5",
        "model_weights/sequential_3/dense_Dense2/kernel:0",
        None,
        (),
        ["config", "layers", 1, "config", "layers", 1, "config", "units"],
    )

    sigmoid = sequential("s", [dense("dense", P, "relu"), dense("dense_1", K, "sigmoid")])
    h5(at("sigmoid.h5"), sigmoid, [hidden, head])
    add(
        "sigmoid.h5",
        top + "kernel:0",
        top + "bias:0",
        (),
        ["config", "layers", 1, "config", "units"],
        shows=True,
    )

    h5(at("weights_only.h5"), None, [hidden, head])
    add("weights_only.h5", "dense_1/dense_1/kernel:0", "dense_1/dense_1/bias:0")

    # .keras: folders by class, optimizer by number.
    variables = [
        ("optimizer/vars/0", np.int64(3)),
        ("optimizer/vars/1", H_KERNEL),
        ("optimizer/vars/2", H_BIAS),
        ("optimizer/vars/3", M),
        ("optimizer/vars/4", BM),
        ("optimizer/vars/5", M * M),
        ("optimizer/vars/6", BM * BM),
    ]
    layers = [
        ("layers/dense/vars/0", H_KERNEL),
        ("layers/dense/vars/1", H_BIAS),
        ("layers/dense_1/vars/0", KERNEL),
        ("layers/dense_1/vars/1", BIAS),
    ]
    moments = ["optimizer/vars/%d" % i for i in (3, 4, 5, 6)]
    for name, deflate in (("stored.keras", False), ("deflated.keras", True)):
        keras_zip(at(name), three, layers + variables, deflate)
        add(
            name,
            "layers/dense_1/vars/0",
            "layers/dense_1/vars/1",
            moments,
            ["config", "layers", 2, "config", "units"],
        )
    nested = sequential(
        "outer",
        [
            first(dense("dense_7", 8, "relu")),
            sequential("inner", [first(dense("a", P)), dense("b", K)]),
            other("Activation", "act", activation="softmax"),
        ],
    )
    keras_zip(
        at("nested.keras"),
        nested,
        [
            ("layers/dense/vars/0", np.eye(8, dtype=np.float32)),
            ("layers/dense/vars/1", np.zeros(8, np.float32)),
            ("layers/sequential/layers/dense/vars/0", H_KERNEL),
            ("layers/sequential/layers/dense/vars/1", H_BIAS),
            ("layers/sequential/layers/dense_1/vars/0", KERNEL),
            ("layers/sequential/layers/dense_1/vars/1", BIAS),
        ],
    )
    add(
        "nested.keras",
        "layers/sequential/layers/dense_1/vars/0",
        "layers/sequential/layers/dense_1/vars/1",
        (),
        ["config", "layers", 1, "config", "layers", 1, "config", "units"],
    )
    keras_zip(
        at("windows.keras"),
        plain,
        [
            ("layers\\dense/vars/0", H_KERNEL),
            ("layers\\dense/vars/1", H_BIAS),
            ("layers\\dense_1/vars/0", KERNEL),
            ("layers\\dense_1/vars/1", BIAS),
        ],
    )
    add(
        "windows.keras",
        "layers\\dense_1/vars/0",
        "layers\\dense_1/vars/1",
        (),
        ["config", "layers", 1, "config", "units"],
    )
    return expect


def make_refused(folder):
    """{file name: (exit code, words of the message)}"""
    at = lambda name: os.path.join(folder, name)
    hidden = ("dense", weights_of("dense", H_KERNEL, H_BIAS))
    head = ("dense_1", weights_of("dense_1", KERNEL, BIAS))
    plain = [dense("dense", P, "relu"), dense("dense_1", K, "softmax")]
    refused = {}
    h5(
        at("reshape.h5"),
        sequential("s", plain + [other("Reshape", "reshape", target_shape=[5, 2])]),
        [hidden, head],
    )
    refused["reshape.h5"] = (4, "ends in layer 'reshape' (Reshape)")
    two = {
        "class_name": "Functional",
        "config": {"layers": plain, "output_layers": [["dense", 0, 0], ["dense_1", 0, 0]]},
    }
    h5(at("two_outputs.h5"), two, [hidden, head])
    refused["two_outputs.h5"] = (4, "has 2 outputs")
    h5(at("own_class.h5"), {"class_name": "MyModel", "config": {}}, [hidden, head])
    refused["own_class.h5"] = (4, "'MyModel'")
    read_twice = {
        "class_name": "Functional",
        "config": {
            "layers": [
                dense("dense", P, inbound=[]),
                dense("dense_1", K, inbound=old_node("dense")),
                other("Softmax", "softmax", old_node("dense_1")),
                dense("extra", 3, inbound=old_node("dense_1")),
            ],
            "output_layers": [["softmax", 0, 0]],
        },
    }
    h5(at("read_twice.h5"), read_twice, [hidden, head])
    refused["read_twice.h5"] = (4, "read by 'extra', too")
    h5(
        at("wrong_units.h5"),
        sequential("s", [dense("dense", P), dense("dense_1", K + 1)]),
        [hidden, head],
    )
    refused["wrong_units.h5"] = (3, "the configuration says that there are 11 classes")
    h5(at("no_weights.h5"), sequential("s", plain), [hidden])
    refused["no_weights.h5"] = (3, "'dense_1' has no weights in the file")
    h5(
        at("missing_bias.h5"),
        sequential("s", plain),
        [hidden, ("dense_1", weights_of("dense_1", KERNEL))],
    )
    refused["missing_bias.h5"] = (3, "has a bias, the file has none")
    h5(at("linked.h5"), sequential("s", plain), [hidden, head])
    with h5py.File(at("linked.h5"), "a") as f:
        f["again"] = f["model_weights/dense_1/dense_1/kernel:0"]
    refused["linked.h5"] = (4, "2 names in the file")
    h5(at("chunked.h5"), sequential("s", plain), [hidden])
    with h5py.File(at("chunked.h5"), "a") as f:
        f["model_weights"].create_dataset("dense_1/dense_1/kernel:0", data=KERNEL, chunks=(4, 5))
    refused["chunked.h5"] = (3, "h5repack -l CONTI")
    # Two layers of the head's shapes, and moments without names.
    twins = [
        ("dense", weights_of("dense", KERNEL, BIAS)),
        ("dense_1", weights_of("dense_1", KERNEL, BIAS)),
    ]
    h5(
        at("unnamed.h5"),
        sequential("s", [dense("dense", K), dense("dense_1", K)]),
        twins,
        [("training/Adam/Variable:0", M), ("training/Adam/Variable_1:0", BM)],
    )
    refused["unnamed.h5"] = (4, "include_optimizer=False")
    h5(at("not_json.h5"), sequential("s", plain), [hidden, head])
    with h5py.File(at("not_json.h5"), "a") as f:
        f.attrs["model_config"] = b'{"class_name": '
    refused["not_json.h5"] = (3, "not valid JSON")
    with h5py.File(at("no_keras.h5"), "w") as f:
        f["a"] = KERNEL
    refused["no_keras.h5"] = (4, "name it with --weights")
    return refused
