#!/usr/bin/python3
"""published_e2e.py OUBLI: how inputs are made, taken from the files that publishers put beside a
model and from its metadata. NumPy is the oracle: with other numbers the model is wrong."""
import json
import os
import shutil
import unittest

from onnx_case import OnnxCase, needs_runtime, oubli  # first: skips without python3-onnx

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import images as pictures

MEAN, STD = [0.8, 0.2, 0.5], [0.1, 0.6, 0.25]
TRANSFORMERS = {
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": STD,
    "size": {"shortest_edge": 20},
    "do_center_crop": True,
    "crop_size": {"height": 16, "width": 16},
}
TIMM = {"pretrained_cfg": {"mean": MEAN, "std": STD, "input_size": [3, 16, 16]}}


class Published(OnnxCase):
    def make(self, scale=1 / 255, mean=MEAN, std=STD, shape=("n", 3, 16, 16), metadata=()):
        """A model of the mean colour, right about images that are made so; a folder of them."""
        rng = np.random.default_rng(4)
        w = (np.eye(3) * 3 + 0.3 * rng.standard_normal((3, 3))).astype(np.float32)
        images = pictures.solid_blocks(rng, 200, 16)
        colours = images.reshape(-1, 256, 3).mean(axis=1)
        made = (colours * scale - mean) / std
        b = -(made @ w.T).mean(0).astype(np.float32)  # so that every class is common
        y = (made @ w.T.astype(np.float64) + b).argmax(1)
        self.assertGreater(np.bincount(y, minlength=3).min(), 20)
        shutil.rmtree(self.at("photos"), ignore_errors=True)
        for i, (image, label) in enumerate(zip(images, y)):
            folder = os.path.join(self.at("photos"), "abc"[label])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%03d.png" % i), "wb") as file:
                file.write(pictures.png(image))
        steps = [
            helper.make_node("GlobalAveragePool", ["x"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "W", "b"], ["y"], transB=1),
        ]
        graph = helper.make_graph(
            steps,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(a, n) for n, a in (("W", w), ("b", b))],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        helper.set_model_props(model, dict(metadata))
        shutil.rmtree(self.at("published"), ignore_errors=True)
        os.makedirs(self.at("published/onnx"))
        onnx.save(model, self.at("published/model.onnx"))
        onnx.save(model, self.at("published/onnx/model.onnx"))

    def say(self, config, name="preprocessor_config.json"):
        with open(self.at("published/" + name), "w") as file:
            file.write(config if isinstance(config, str) else json.dumps(config))

    def ask(self, *more, model="published/model.onnx", code=0):
        words = ["forget", self.at(model), "--class", "b", "--data", self.at("photos"), "--force"]
        found, out, err = oubli(*words, "-o", self.at("out.onnx"), *more)
        self.assertEqual(found, code, (out, err))
        if code:
            return None, err
        return json.load(open(self.at("out.onnx.receipt.json")))["run"], err

    def expect(self, run, mean=MEAN, std=STD, scale=1 / 255):
        self.assertEqual(run["accuracy_before"], 1.0)
        made = run["preparation"]
        np.testing.assert_allclose(made["mean"], mean)
        np.testing.assert_allclose(made["std"], std)
        np.testing.assert_allclose(made["scale"], scale)

    @needs_runtime
    def test_a_file_beside_the_model(self):
        for config, name in (
            (TRANSFORMERS, "preprocessor_config.json"),
            ({"image_processor": TRANSFORMERS}, "processor_config.json"),
            (TIMM, "config.json"),
        ):
            self.make()
            self.assertIn("wrong", self.ask(code=4)[1])
            self.say(config, name)
            run, said = self.ask()
            self.expect(run)
            self.assertIn("note: inputs are made as %s says: --scale 0.0039" % name, said)
            self.assertIn("--mean 0.8,0.2,0.5 --std 0.1,0.6,0.25", said)
            self.assertEqual("but without a centre crop" in said, config is not TIMM)
            self.expect(self.ask(model="published/onnx/model.onnx")[0])
        # The receipt has the numbers: verify does not need the file.
        os.remove(self.at("published/config.json"))
        words = ["--original", self.at("published/model.onnx"), "--data", self.at("photos")]
        code, out, err = oubli(
            "verify", self.at("out.onnx.receipt.json"), "--model", self.at("out.onnx"), *words
        )
        self.assertEqual(code, 0, out + err)

    @needs_runtime
    def test_options_are_stronger(self):
        self.make()
        self.say(dict(TRANSFORMERS, image_mean=[0.1] * 3, image_std=[9] * 3))
        how = ["--mean", "0.8,0.2,0.5", "--std", "0.1,0.6,0.25"]
        run, said = self.ask(*how)
        self.expect(run)
        self.assertNotIn("preprocessor_config", said)
        # Nor is half of it mixed with what a person said.
        run, _ = self.ask("--mean", "0.8,0.2,0.5", "--ignore-accuracy")
        self.assertEqual(run["preparation"]["std"], [1, 1, 1])

    @needs_runtime
    def test_the_size_where_the_model_takes_any(self):
        self.make(shape=("n", 3, "h", "w"))
        self.assertIn("--size", self.ask(code=2)[1])
        self.say(TRANSFORMERS)
        run, said = self.ask()
        self.expect(run)
        self.assertEqual(run["preparation"]["size"], [16, 16])
        self.assertIn("--size 16x16", said)
        self.assertEqual(self.ask("--size", "8x8")[0]["preparation"]["size"], [8, 8])

    @needs_runtime
    def test_metadata(self):
        key = "Image.NominalPixelRange"
        for value, scale, mean in (
            ("NominalRange_0_255", 1, 0),
            ("Normalized_0_1", 1 / 255, 0),
            ("Normalized_1_1", 1 / 127.5, 1),
        ):
            self.make(scale, [mean] * 3, [1] * 3, metadata={key: value})
            run, said = self.ask()
            self.expect(run, [mean] * 3, [1] * 3, scale)
            self.assertIn("the model's metadata says", said)
        self.make(metadata={key: "Normalized_0_1", "Image.BitmapPixelFormat": "Bgr8"})
        _, said = self.ask("--ignore-accuracy")
        self.assertIn("not made as the model's metadata says: it exchanges red and blue", said)

    @needs_runtime
    def test_what_is_not_used(self):
        self.make()
        for config, why in (
            (dict(TRANSFORMERS, rescale_offset=True), "it subtracts after scaling"),
            (dict(TRANSFORMERS, image_mean="?"), "its mean and standard deviation are no lists"),
        ):
            self.say(config)
            _, said = self.ask("--ignore-accuracy")
            self.assertIn("not made as preprocessor_config.json says: %s" % why, said)
        for config in ("{", {"id2label": {"0": "a"}}, "[]"):
            self.say(config)
            self.assertNotIn("preprocessor_config", self.ask("--ignore-accuracy")[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
