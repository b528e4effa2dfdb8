"""--run-with: an ONNX export is run on data, and the file of another library is edited."""

import os
import random
import struct
import sys

try:
    import h5py
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

import make_keras as keras
from format_case import FormatCase, main, oubli

GONE = 3


def write_mnist(folder):
    """Ten classes, each with its own bright row."""
    random.seed(1)
    os.makedirs(folder)
    for prefix, count in (("train", 600), ("t10k", 100)):
        labels = bytes(i % 10 for i in range(count))
        pixels = bytearray(random.randrange(80) for _ in range(count * 784))
        for i, label in enumerate(labels):
            row = i * 784 + (2 * label + 4) * 28
            pixels[row : row + 28] = bytes([200]) * 28
        images = struct.pack(">IIII", 0x803, count, 28, 28) + pixels
        for kind, content in (
            ("images-idx3", images),
            ("labels-idx1", struct.pack(">II", 0x801, count) + labels),
        ):
            with open(os.path.join(folder, "%s-%s-ubyte" % (prefix, kind)), "wb") as f:
                f.write(content)


def head_of(path):
    """The last matrix with ten (or nine) rows or columns, as features x classes, and the bias."""
    arrays = [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]
    bias = [a for a in arrays if a.ndim == 1 and len(a) in (9, 10)][-1]
    weights = [a for a in arrays if a.ndim == 2 and len(bias) in a.shape][-1]
    return weights if weights.shape[1] == len(bias) else weights.T, bias


class RunWith(FormatCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["OUBLI_DATA"] = cls.at("data")
        write_mnist(cls.at("data/mnist"))
        words = ["--epochs", "4", "--learning-rate", "0.01", "-o", cls.at("model.onnx")]
        code, out, err = oubli("-q", "train", "mnist", *words)
        assert code == 0, err
        cls.kernel, cls.bias = head_of(cls.at("model.onnx"))
        config = keras.sequential("s", [keras.dense("d", 10, "softmax")])
        weights = [("d", keras.weights_of("d", np.ascontiguousarray(cls.kernel), cls.bias))]
        keras.h5(cls.at("model.h5"), config, weights)

    def test_the_same_head_as_in_the_onnx_file(self):
        data = ["--class", GONE, "--data", "mnist"]
        self.forget("model.onnx", *data, out="new.onnx")
        said = self.forget("model.h5", *data, "--run-with", self.at("model.onnx"), out="new.h5")
        self.assertIn("accuracy before: 100.00 %", said)
        kernel, bias = head_of(self.at("new.onnx"))
        with h5py.File(self.at("new.h5"), "r") as f:
            np.testing.assert_array_equal(f["model_weights/d/d/kernel:0"][()], kernel)
            np.testing.assert_array_equal(f["model_weights/d/d/bias:0"][()], bias)
        receipt = self.receipt("new.h5")
        self.assertIn("model.onnx", str(receipt["calibration"]))
        self.verify("model.h5", "new.h5", "--data", "mnist", "--run-with", self.at("model.onnx"))

    def test_another_model_is_refused(self):
        with h5py.File(self.at("model.h5"), "r") as f:
            content = f.id.get_file_image()
        with open(self.at("other.h5"), "wb") as f:
            f.write(content)
        with h5py.File(self.at("other.h5"), "a") as f:
            f["model_weights/d/d/kernel:0"][5, 2] += 1e-4
        words = ["--class", GONE, "--data", "mnist", "--run-with", self.at("model.onnx")]
        said = self.forget("other.h5", *words, out="no.h5", code=3)
        self.assertIn("the weights of class 2 differ", said)
        said = self.forget("model.h5", "--class", GONE, "--data", "mnist", out="no.h5", code=2)
        self.assertIn("--run-with MODEL.onnx", said)
        words = ["--class", GONE, "--method", "naive", "--run-with", self.at("model.onnx")]
        said = self.forget("model.h5", *words, out="no.h5", code=2)
        self.assertIn("--data gives none", said)


if __name__ == "__main__":
    main()
