"""Edited Keras and TensorFlow Lite files, run by TensorFlow.js and by TensorFlow Lite itself (its
WebAssembly build). Both come from npm (node/package-lock.json has their check sums) into the cache
folder, once; OUBLI_TEST_NODE_MODULES names a folder of them instead. Skipped, with the reason,
where node or npm is not installed or nothing can be fetched.

What comes out is compared with NumPy's result for the weights that the same request gives for an
.npz file. Wrong files must fail that comparison, or not load."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.dirname(HERE))

from node_packages import node_modules  # noqa: E402


def skip(why):
    print("skipped: %s: TensorFlow.js and TensorFlow Lite read nothing" % why)
    sys.exit(77)


try:
    import numpy as np
except ImportError as missing:
    skip(missing)
NODE_MODULES = node_modules(os.path.join(HERE, "node"), "node-tensorflow-4.22.0", skip)

import make_keras as keras  # noqa: E402
import make_tflite as tflite  # noqa: E402
from format_case import FormatCase, main  # noqa: E402
from keras_e2e import config_of, datasets_of, hdf5_of, value_at  # noqa: E402

GONE = 3
KEPT = [j for j in range(10) if j != GONE]
# Probabilities and logits in float32: sums of at most 24 products of numbers below 30.
CLOSE = 2e-5


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def in_words_of_keras_2(config):
    """TensorFlow.js knows these alone: shapes of inputs and the layers' connections are said in
    other words since Keras 3; what counts classes is left as it is."""
    layers = config["config"]["layers"]
    for layer in layers:
        if "batch_shape" in layer["config"]:
            layer["config"]["batch_input_shape"] = layer["config"].pop("batch_shape")
        for node in layer.get("inbound_nodes", []):
            if isinstance(node, dict):
                history = node["args"][0]["config"]["keras_history"]
                layer["inbound_nodes"] = [[[*history, {}]]]
    last = config["config"].get("output_layers")
    if last and isinstance(last[0], str):
        config["config"]["output_layers"] = [last]
    return config


class Foreign(FormatCase):
    def run_node(self, script, request):
        with open(self.at("request.json"), "w") as file:
            json.dump(request, file)
        command = ["node", os.path.join(HERE, script), NODE_MODULES, self.at("request.json")]
        return subprocess.run(command, capture_output=True, text=True, errors="replace")

    def outputs(self, ran):
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return np.array(json.loads(ran.stdout)["outputs"])

    def assertClose(self, got, wanted):
        self.assertEqual(got.shape, wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=CLOSE)

    def assertNotClose(self, got, wanted):
        """The comparison can fail: a wrong file is far from what a right one gives."""
        self.assertTrue(got.shape != wanted.shape or np.abs(got - wanted).max() > 100 * CLOSE)

    def request(self, method):
        if method == "naive":
            return ["--class", GONE, "--method", "naive"]
        return ["--class", GONE, "--features", self.at("f.npy"), "--labels", self.at("y.npy")]


class Keras(Foreign):
    # Models that TensorFlow.js can build: Keras 2's and 3's words, nested ones, archives.
    FILES = (
        "keras2.h5",
        "functional_earliest.h5",
        "functional_latest.h5",
        "keras3.h5",
        "teachable.h5",
        "stored.keras",
        "deflated.keras",
        "nested.keras",
    )

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expect = keras.make(cls.folder)
        cls.make_features(keras.KERNEL.T)
        cls.x = np.random.default_rng(2).standard_normal((20, 8))

    def layers(self, name):
        """[(path, array)] in the order of the model: that of the alphabet here, and a kernel comes
        before its bias."""
        with hdf5_of(self.at(name)) as file:
            found = datasets_of(file)
        paths = [path for path in found if not path.startswith("optimizer")]
        paths.sort(key=lambda path: (os.path.dirname(path), "bias" in path, path))
        return [(path, found[path]) for path in paths]

    def run_keras(self, name, units=None, head=None):
        """In TensorFlow.js; `units` and `head` (kernel, bias) in place of the file's."""
        expected = self.expect[self.source]
        config = in_words_of_keras_2(config_of(self.at(name)))
        if units is not None:
            value_at(config, expected["units"][:-1])["units"] = units
        weights = []
        for path, values in self.layers(name):
            if head is not None and path in (expected["kernel"], expected["bias"]):
                values = head[path == expected["bias"]]
            flat = [float(v) for v in values.ravel()]
            weights.append(dict(path=path, shape=values.shape, values=flat))
        request = {"config": config, "weights": weights, "inputs": self.x.tolist()}
        return self.run_node("keras_run.cjs", request)

    def wanted(self, kernel, bias):
        hidden = np.maximum(self.x @ keras.H_KERNEL + keras.H_BIAS, 0)
        if self.source == "teachable.h5":
            hidden = np.maximum(np.maximum(self.x, 0) @ keras.H_KERNEL + keras.H_BIAS, 0)
        if self.source == "nested.keras":
            hidden = np.maximum(self.x, 0) @ keras.H_KERNEL + keras.H_BIAS
        return softmax(hidden @ kernel.astype(float) + (0 if bias is None else bias))

    def test_tensorflow_js_runs_what_is_left(self):
        for name in self.FILES:
            self.source, expected = name, self.expect[name]
            bias = keras.BIAS if expected["bias"] else None
            self.assertClose(self.outputs(self.run_keras(name)), self.wanted(keras.KERNEL, bias))
            for method in ("naive", "normalization"):
                with self.subTest(name, method=method):
                    words = self.request(method)
                    if bias is None and method != "naive":
                        words += ["--solver", "paper"]
                    new = "%s_%s" % (method, name)
                    self.forget(name, *words, out=new)
                    wanted = self.wanted(*self.by_npz(keras.KERNEL, bias, *words))
                    self.assertClose(self.outputs(self.run_keras(new)), wanted)

    def test_wrong_files_fail(self):
        self.source = "keras2.h5"
        naive = self.request("naive")
        self.forget(self.source, *naive, out="right.h5")
        wanted = self.wanted(*self.by_npz(keras.KERNEL, keras.BIAS, *naive))
        self.assertClose(self.outputs(self.run_keras("right.h5")), wanted)
        # The old number of units: not loaded.
        ran = self.run_keras("right.h5", units=keras.K)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("hape", ran.stderr)
        # The file as it was, another class left out, two columns exchanged.
        self.assertNotClose(self.outputs(self.run_keras(self.source)), wanted)
        self.forget(self.source, "--class", GONE + 1, "--method", "naive", out="other.h5")
        self.assertNotClose(self.outputs(self.run_keras("other.h5")), wanted)
        turned = [1, 0, *range(2, keras.K - 1)]
        head = keras.KERNEL[:, KEPT][:, turned], keras.BIAS[KEPT][turned]
        self.assertNotClose(self.outputs(self.run_keras("right.h5", head=head)), wanted)


K, P = 10, 24
rng = np.random.default_rng(5)
W = (rng.standard_normal((K, P)) / 2).astype(np.float32)
B = rng.standard_normal(K).astype(np.float32)
Q = rng.integers(-127, 128, (K, P)).astype(np.int8)
QB = rng.integers(-5000, 5000, K).astype(np.int32)
PER_CLASS = [0.001 * (j + 1) for j in range(K)]
NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


class Tflite(Foreign):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_features(W)
        cls.x = np.random.default_rng(2).standard_normal((20, P)).astype(np.float32)
        cls.x8 = np.random.default_rng(3).integers(-60, 61, (20, P))

    def write(self, name, content):
        with open(self.at(name), "wb") as file:
            file.write(content)

    def run_tflite(self, name, inputs):
        request = {"model": self.at(name), "inputs": inputs.tolist()}
        return self.run_node("tflite_run.cjs", request)

    def test_float_heads(self):
        half, half_bias = W.astype(np.float16), B.astype(np.float16)
        models = {
            "float": (W, B, tflite.model(W, B)),
            "bare": (W, B, tflite.model(W, B, ())),
            "no_bias": (W, None, tflite.model(W, None)),
            "labels": (W, B, tflite.model(W, B, labels=NAMES)),
            "half": (half, half_bias, tflite.model(half, half_bias, kind=tflite.FLOAT16)),
        }
        for name, (weights, bias, content) in models.items():
            tail = (lambda z: z) if name == "bare" else softmax

            def of(w, b):
                return tail(self.x @ w.astype(float) + (0 if b is None else b.astype(float)))

            self.write(name + ".tflite", content)
            before = self.outputs(self.run_tflite(name + ".tflite", self.x))
            self.assertClose(before, of(weights.T, bias))
            for method in ("naive", "normalization"):
                with self.subTest(name, method=method):
                    words = self.request(method)
                    if bias is None and method != "naive":
                        words += ["--solver", "paper"]
                    new = "%s_%s.tflite" % (method, name)
                    self.forget(name + ".tflite", *words, out=new)
                    wanted = of(*self.by_npz(np.ascontiguousarray(weights.T), bias, *words))
                    self.assertClose(self.outputs(self.run_tflite(new, self.x)), wanted)

    def test_logistic_and_arg_max(self):
        for tail in ((tflite.LOGISTIC,), (tflite.SOFTMAX, tflite.ARG_MAX)):
            self.write("tail.tflite", tflite.model(W, B, tail))
            self.forget("tail.tflite", *self.request("naive"), out="new_%d.tflite" % tail[-1])
            got = self.outputs(self.run_tflite("new_%d.tflite" % tail[-1], self.x))
            z = (self.x @ W.T.astype(float) + B)[:, KEPT]
            if tail[-1] == tflite.ARG_MAX:
                np.testing.assert_array_equal(got, z.argmax(1)[:, None])
            else:
                self.assertClose(got, 1 / (1 + np.exp(-z)))

    def test_heads_of_8_bits(self):
        """Logits of the classes that are left are those of before, to the last bit; probabilities
        are theirs on the grid of 1/256."""
        kinds = {
            "one_scale": (QB, dict(scales=[0.002], logits=tflite.INT8, logit_scale=0.5)),
            "per_class": (QB, dict(scales=PER_CLASS, logits=tflite.INT8, logit_scale=2.0)),
            "dynamic": (B, dict(scales=[0.002])),
        }
        for name, (bias, options) in kinds.items():
            inputs = self.x if name == "dynamic" else self.x8
            for tail in ((), (tflite.SOFTMAX,)):
                with self.subTest(name, tail=tail):
                    content = tflite.model(Q, bias, tail, tflite.INT8, **options)
                    old, new = "%s_%d.tflite" % (name, len(tail)), "new_%s_%d.tflite" % (
                        name,
                        len(tail),
                    )
                    self.write(old, content)
                    self.forget(old, *self.request("naive"), out=new)
                    got = self.outputs(self.run_tflite(new, inputs))
                    if not tail:
                        logits = self.outputs(self.run_tflite(old, inputs))
                        self.assertGreater(len(np.unique(logits)), 20, "all alike")
                        np.testing.assert_array_equal(got, logits[:, KEPT])
                        scale = options.get("logit_scale", 1)
                        left = softmax(scale * logits[:, KEPT])
                    elif name == "dynamic":
                        self.assertClose(got, left)
                    else:
                        np.testing.assert_allclose((got + 128) / 256, left, atol=1 / 256)

    def test_wrong_files_fail(self):
        content = tflite.model(W, B)
        self.write("old.tflite", content)
        naive = self.request("naive")
        self.forget("old.tflite", *naive, out="right.tflite")
        wanted = softmax((self.x @ W.T.astype(float) + B)[:, KEPT])
        right = open(self.at("right.tflite"), "rb").read()
        self.assertClose(self.outputs(self.run_tflite("right.tflite", self.x)), wanted)
        self.assertNotClose(self.outputs(self.run_tflite("old.tflite", self.x)), wanted)
        self.forget("old.tflite", "--class", GONE + 1, "--method", "naive", out="other.tflite")
        self.assertNotClose(self.outputs(self.run_tflite("other.tflite", self.x)), wanted)
        # Rows that have changed places.
        row = W[KEPT[0]].tobytes(), W[KEPT[1]].tobytes()
        turned = right.replace(row[0], b"?" * len(row[0])).replace(row[1], row[0])
        self.write("turned.tflite", turned.replace(b"?" * len(row[0]), row[1]))
        self.assertNotClose(self.outputs(self.run_tflite("turned.tflite", self.x)), wanted)
        # A shape left at K: of the weights, of the bias. TensorFlow Lite does not take it.
        for number, axis in ((1, 0), (2, 0)):
            self.write("left.tflite", tflite.with_extent(right, number, axis, K))
            ran = self.run_tflite("left.tflite", self.x)
            self.assertNotEqual(ran.returncode, 0, ran.stdout)


if __name__ == "__main__":
    main()
