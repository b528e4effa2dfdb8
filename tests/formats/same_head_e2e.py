"""One head in every format, the same requests: the same new weights, bit for bit. Each file is
read by the library it is for, or by a reader that knows nothing of the program."""

import json
import os
import pickle
import sys

try:
    import numpy as np
    import onnx
    import torch
    from sklearn.linear_model import LogisticRegression
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
from onnx import TensorProto, helper, numpy_helper

import make_keras as keras
import make_tflite as tflite
from format_case import FormatCase, main
from huggingface_e2e import read_safetensors, write_safetensors
from keras_e2e import datasets_of, hdf5_of

W, B = np.ascontiguousarray(keras.KERNEL.T), keras.BIAS  # classes x features
K, P = W.shape


def write_onnx(path):
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "W", "b"], ["logits"], transB=1),
            helper.make_node("Softmax", ["logits"], ["p"]),
        ],
        "head",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", P])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", K])],
        [numpy_helper.from_array(W, "W"), numpy_helper.from_array(B, "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


def read_onnx(path):
    arrays = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    return arrays["W"], arrays["b"]


def write_folder(path):
    os.mkdir(path)
    names = {str(j): "name%d" % j for j in range(K)}
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump({"id2label": names, "label2id": {v: int(j) for j, v in names.items()}}, file)
    arrays = {"classifier.weight": W, "classifier.bias": B}
    write_safetensors(os.path.join(path, "model.safetensors"), arrays)


def write_sklearn(path):
    model = LogisticRegression(multi_class="multinomial")
    model.coef_, model.intercept_, model.classes_ = W, B, np.arange(K)
    with open(path, "wb") as file:
        pickle.dump(model, file, 4)


def read_sklearn(path):
    with open(path, "rb") as file:
        model = pickle.load(file)
    return model.coef_, model.intercept_


def read_tensors(arrays, stem):
    return np.asarray(arrays[stem + "weight"]), np.asarray(arrays[stem + "bias"])


def read_keras(path, kernel, bias):
    with hdf5_of(path) as file:
        found = datasets_of(file)
    return found[kernel].T, found[bias]


def read_npz(path):
    with np.load(path) as arrays:
        return arrays["W"], arrays["b"]


class SameHead(FormatCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_features(W)
        made = keras.make(cls.folder)
        np.savez(cls.at("rows.npz"), W=W, b=B)
        np.savez(cls.at("columns.npz"), W=keras.KERNEL, b=B)
        np.savez_compressed(cls.at("packed.npz"), W=W, b=B)
        write_safetensors(cls.at("head.safetensors"), {"fc.weight": W, "fc.bias": B})
        state = {"fc.weight": torch.from_numpy(W), "fc.bias": torch.from_numpy(B)}
        torch.save(state, cls.at("head.pth"))
        torch.save(state, cls.at("old.pth"), _use_new_zipfile_serialization=False)
        write_onnx(cls.at("head.onnx"))
        write_folder(cls.at("folder"))
        write_sklearn(cls.at("head.pkl"))
        with open(cls.at("head.tflite"), "wb") as file:
            file.write(tflite.model(W, B))
        cls.readers = {
            "rows.npz": read_npz,
            "packed.npz": read_npz,
            "columns.npz": lambda path: (read_npz(path)[0].T, read_npz(path)[1]),
            "head.safetensors": lambda path: read_tensors(read_safetensors(path)[1], "fc."),
            "head.pth": lambda path: read_tensors(torch.load(path), "fc."),
            "old.pth": lambda path: read_tensors(torch.load(path), "fc."),
            "head.onnx": read_onnx,
            "folder": lambda path: read_tensors(
                read_safetensors(os.path.join(path, "model.safetensors"))[1], "classifier."
            ),
            "head.pkl": read_sklearn,
            "head.tflite": lambda path: [
                part.astype(np.float32) for part in tflite.head(open(path, "rb").read())
            ],
        }
        for name in ("keras2.h5", "keras1.h5", "functional_latest.h5", "keras3.h5"):
            cls.add_keras(name, made[name])
        for name in ("stored.keras", "deflated.keras", "nested.keras"):
            cls.add_keras(name, made[name])

    @classmethod
    def add_keras(cls, name, expected):
        cls.readers[name] = lambda path: read_keras(path, expected["kernel"], expected["bias"])

    def test_the_same_bits(self):
        data = ["--features", self.at("f.npy"), "--labels", self.at("y.npy")]
        requests = {
            "naive": ["--class", "index:3", "--method", "naive"],
            "centre": ["--class", "index:3", "--method", "centre"],
            "normalization": ["--class", "index:3", *data],
            "affine": ["--class", "index:0", "--solver", "affine", *data],
            "ridge": ["--class", "index:9", "--solver", "ridge", *data],
            "zeroing": ["--class", "index:3", "--method", "zeroing", *data],
            "randomization": ["--class", "index:3", "--method", "randomization", *data],
            "explained": ["--class", "index:3", "--method", "explained", *data],
            "two": ["--class", "index:3", "--class", "index:7", *data],
        }
        requests["randomization"] += ["--seed", "5"]
        results = {}
        for request, words in requests.items():
            for name, read in self.readers.items():
                out = "%s-%s" % (request, name)
                self.forget(name, *words, out=out)
                weights, bias = read(self.at(out))
                self.assertEqual((weights.dtype, bias.dtype), (np.float32, np.float32), name)
                bits = weights.tobytes("C"), bias.tobytes()
                first = results.setdefault(request, bits)
                with self.subTest(request, file=name):
                    self.assertEqual(bits, first)
        self.assertEqual(len({bits for bits in results.values()}), len(requests), "all alike")


if __name__ == "__main__":
    main()
