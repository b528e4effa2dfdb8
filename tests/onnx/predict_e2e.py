#!/usr/bin/python3
"""predict_e2e.py OUBLI: logits, features and any value of an ONNX file. NumPy is the oracle."""
import json
import os
import unittest

from onnx_case import OnnxCase, needs_runtime, oubli  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper
import model_parts as parts

N, SIDE, MAPS = 77, 6, 4  # more than two batches, and a part of one
RNG = np.random.default_rng(11)
KERNEL = RNG.standard_normal((MAPS, 3, 3, 3)).astype(np.float32)
DENSE = RNG.standard_normal((8, MAPS * 4 * 4)).astype(np.float32) / 8
HEAD = RNG.standard_normal((parts.K, 8)).astype(np.float32)


def convolved(x):
    size = x.shape[-1] - 2
    patches = [
        x[:, :, i : i + size, j : j + size] for i in range(3) for j in range(3)
    ]  # 9 of n x 3 x size x size
    stacked = np.stack(patches, axis=2)  # n x 3 x 9 x size x size
    return np.einsum("ncpij,fcp->nfij", stacked, KERNEL.reshape(MAPS, 3, 9))


def network(batch="n"):
    """Two layers before the head, labels as words, and values of every awkward kind."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "kernel"], ["/conv1/out"]),
        node("Relu", ["/conv1/out"], ["relu1"]),
        node("Flatten", ["relu1"], ["flat"]),
        node("Gemm", ["flat", "dense"], ["fc"], transB=1),
        node("Tanh", ["fc"], ["f"]),
        node("Gemm", ["f", "head"], ["logits"], transB=1),
        node("ArgMax", ["logits"], ["number"], axis=1, keepdims=0),
        node("Cast", ["f"], ["half"], to=TensorProto.FLOAT16),
        node("Cast", ["number"], ["words"], to=TensorProto.STRING),
        node("Transpose", ["f"], ["turned"], perm=[1, 0]),
        node("ReduceMean", ["f"], ["all"], keepdims=0),
        node("Transpose", ["head"], ["fixed"]),
        node("SplitToSequence", ["f"], ["list"], axis=1),
    ]
    weights = [("kernel", KERNEL), ("dense", DENSE), ("head", HEAD)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, parts.K])],
        [parts.tensor(name, array) for name, array in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.metadata_props.add(key="class_names", value=json.dumps(parts.NAMES))
    return model


class Predict(OnnxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, batch in (("any", "n"), ("one", 1), ("four", 4)):
            onnx.save(network(batch), cls.at(name + ".onnx"))
        cls.images = RNG.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
        scaled = cls.images.transpose(0, 3, 1, 2) / 255.0
        cls.values = {"/conv1/out": convolved((scaled - 0.5) / 0.25)}
        cls.values["relu1"] = np.maximum(cls.values["/conv1/out"], 0)
        cls.values["fc"] = cls.values["relu1"].reshape(N, -1) @ DENSE.T
        cls.values["f"] = np.tanh(cls.values["fc"])
        cls.values["logits"] = cls.values["f"] @ HEAD.T
        cls.values["number"] = cls.values["logits"].argmax(1)
        cls.labels = cls.values["number"].copy()
        cls.labels[:7] = (cls.labels[:7] + 1) % parts.K
        np.savez(cls.at("images.npz"), x=cls.images, y=cls.labels)

    def predict(self, model, *words, code=0, data="images.npz"):
        inputs = ["--data", self.at(data), "--mean", 0.5, "--std", 0.25]
        output = ["-o", self.at("z.npy"), "--json", *words]
        got, out, err = oubli("predict", self.at(model), *inputs, *output)
        self.assertEqual(got, code, out + err)
        if code:
            left = [name for name in os.listdir(self.folder) if name.endswith(".npy")]
            self.assertEqual(sorted(left), ["f.npy", "y.npy"], "files were left")
        return json.loads(out) if code == 0 else err

    def take(self, name):
        array = np.load(self.at(name))
        os.remove(self.at(name))
        return array

    def same(self, found, value, tolerance=1e-5):
        self.assertEqual(found.dtype, np.float32)
        wanted = value.reshape(N, -1)
        self.assertEqual(found.shape, wanted.shape)
        self.assertLess(np.abs(found - wanted).max(), tolerance * (1 + np.abs(wanted).max()))

    @needs_runtime
    def test_every_value_is_what_numpy_makes(self):
        """Whatever number of samples the model takes at once."""
        for model in ("any.onnx", "one.onnx", "four.onnx"):
            names = ["/conv1/out", "relu1", "fc", "f", "logits", "number"]
            words = [
                w
                for i, n in enumerate(names)
                for w in ("--tensor", "%s=%s/t%d.npy" % (n, self.folder, i))
            ]
            words += ["--tensor", "half=" + self.at("half.npy")]
            words += ["--features", self.at("g.npy"), "--labels", self.at("l.npy")]
            said = self.predict(model, *words)
            for i, name in enumerate(names):
                self.same(self.take("t%d.npy" % i), self.values[name])
            self.same(self.take("half.npy"), self.values["f"], 1e-3)
            self.same(self.take("z.npy"), self.values["logits"])
            self.same(self.take("g.npy"), self.values["f"])
            self.assertTrue((self.take("l.npy") == self.labels).all())
            self.assertAlmostEqual(said["accuracy"], 1 - 7 / N)
            self.assertEqual(said["known_images"], N)
            self.assertEqual(said["tensors"]["fc"], self.at("t2.npy"))

    @needs_runtime
    def test_without_values_nothing_but_logits_is_made(self):
        """Folders, too; classes by name, those that the model does not know not counted."""
        for name, images in (("bee", self.images[:3]), ("yak", self.images[3:5])):
            os.makedirs(self.at("folder/" + name))
            for i, image in enumerate(images):
                with open(self.at("folder/%s/%d.ppm" % (name, i)), "wb") as file:
                    file.write(b"P6\n%d %d\n255\n" % (SIDE, SIDE) + image.tobytes())
        said = self.predict("any.onnx", data="folder")
        self.assertLess(np.abs(self.take("z.npy") - self.values["logits"][:5]).max(), 1e-4)
        self.assertEqual((said["images"], said["known_images"]), (5, 3))
        right = (self.values["number"][:3] == parts.NAMES.index("bee")).mean()
        self.assertAlmostEqual(said["accuracy"], right)

    @needs_runtime
    def test_what_cannot_be_written(self):
        def refused(value, code, words, model="any.onnx"):
            text = self.predict(model, "--tensor", value + "=" + self.at("t.npy"), code=code)
            self.assertIn(words, text)

        refused("conv1/out", 2, "/conv1/out")  # the nearest
        refused("x", 2, "no node of")
        refused("words", 3, "wanted numbers")
        refused("list", 3, "value 'list'")
        refused("all", 3, "samples along the first axis")
        for model in ("any.onnx", "one.onnx", "four.onnx"):
            refused("turned", 3, "samples along the first axis", model)
            refused("fixed", 2, "the same whatever the model is given", model)
        self.assertIn("wanted NAME=FILE", self.predict("any.onnx", "--tensor", "fc", code=2))
        twice = ["--tensor", "fc=" + self.at("a.npy"), "--tensor", "fc=" + self.at("b.npy")]
        self.assertIn("named twice", self.predict("any.onnx", *twice, code=2))
        same = ["--tensor", "fc=" + self.at("z.npy")]
        self.assertIn("two outputs", self.predict("any.onnx", *same, code=2))
        over = ["--tensor", "fc=" + self.at("any.onnx"), "--force"]
        self.assertIn("never overwritten", self.predict("any.onnx", *over, code=2))
        there = ["--tensor", "fc=" + self.at("y.npy")]
        self.assertIn("exists", self.predict("any.onnx", *there, code=2))
        self.assertIn("only data sets", self.predict("any.onnx", "--split", "train", code=2))
        np.savez(self.at("head.npz"), W=parts.W, b=parts.B)
        self.assertIn("only .onnx files", self.predict("head.npz", code=2))


if __name__ == "__main__":
    unittest.main()
