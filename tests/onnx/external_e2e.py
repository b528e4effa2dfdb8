#!/usr/bin/python3
"""external_e2e.py OUBLI: ONNX files with tensors outside of them. NumPy is the oracle."""
import json
import os
import shutil
import tempfile
import unittest

from onnx_case import OnnxCase, needs_runtime, oubli  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import model_parts as parts


class ExternalData(OnnxCase):
    @needs_runtime
    def test_external_data_is_never_touched(self):
        before = {n: open(self.at(n), "rb").read() for n in ("external.onnx", "external.weights")}
        self.forget("external", "--class", 1, "--data", self.at("data.npz"))
        for name, data in before.items():
            self.assertEqual(open(self.at(name), "rb").read(), data)
        self.assertTrue(os.path.exists(self.at("new.onnx.data")))
        row = parts.W[1].tobytes()
        for name in os.listdir(self.folder):
            if name.startswith("new.onnx"):
                self.assertNotIn(row, open(self.at(name), "rb").read(), name)
        onnx.checker.check_model(self.at("new.onnx"))

    def with_a_branch(self, name, location):
        """The gemm model, its weights in external data, and an If whose branches hold a zero there,
        too."""
        model = onnx.load(self.model("gemm"))
        zero = numpy_helper.from_array(np.zeros(parts.D, np.float32), "zero")
        zero.data_location = TensorProto.EXTERNAL
        zero.ClearField("raw_data")
        for key, value in (("location", location), ("offset", "0"), ("length", str(4 * parts.D))):
            entry = zero.external_data.add()
            entry.key, entry.value = key, value
        branch = helper.make_graph(
            [helper.make_node("Identity", ["zero"], ["nought"])],
            "branch",
            [],
            [helper.make_tensor_value_info("nought", TensorProto.FLOAT, [parts.D])],
            [zero],
        )
        for node in model.graph.node:
            for i, used in enumerate(node.input):
                if used == "x":
                    node.input[i] = "x_plus_nothing"
        steps = [
            helper.make_node("If", ["yes"], ["nothing"], then_branch=branch, else_branch=branch),
            helper.make_node("Add", ["x", "nothing"], ["x_plus_nothing"]),
        ]
        for i, step in enumerate(steps):
            model.graph.node.insert(i, step)
        model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
        for tensor in model.graph.initializer:  # the weights beside the zeros, in the same file
            if tensor.name != "W":
                continue
            data = tensor.raw_data or numpy_helper.to_array(tensor).tobytes()
            with open(self.at("branch.weights"), "wb") as file:
                file.write(b"\0" * 64 + data)
            for field in ("raw_data", "float_data"):
                tensor.ClearField(field)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", "branch.weights"),
                ("offset", "64"),
                ("length", str(len(data))),
            ):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
        with open(self.model(name), "wb") as file:
            file.write(model.SerializeToString())

    def test_external_data_of_branches_stays_in_the_folder(self):
        outside = tempfile.mkdtemp(prefix="oubli-outside-")
        self.addCleanup(shutil.rmtree, outside)
        secret = os.path.join(outside, "secret")
        with open(secret, "wb") as file:
            file.write(b"\0" * 64)
        os.symlink(secret, self.at("linked.weights"))
        self.addCleanup(os.remove, self.at("linked.weights"))
        for location in (secret, os.path.relpath(secret, self.folder), "linked.weights", ""):
            self.with_a_branch("branch", location)
            self.assertIn(
                "external data at",
                self.forget("branch", "--class", 1, "--data", self.at("data.npz"), code=3),
            )
            self.assertEqual(oubli("inspect", self.model("branch"))[0], 3)

    @needs_runtime
    def test_external_data_of_branches_moves_along(self):
        self.with_a_branch("branch", "branch.weights")
        words = ["--class", 1, "--data", self.at("data.npz"), "--method", "naive"]
        self.forget("branch", *words)
        self.assertEqual(
            onnx.load(self.at("new.onnx"), load_external_data=False)
            .graph.node[0]
            .attribute[0]
            .g.initializer[0]
            .external_data[0]
            .value,
            "new.onnx.data",
        )
        elsewhere = self.at("elsewhere")
        os.makedirs(elsewhere, exist_ok=True)
        code, _, stderr = oubli(
            "forget", self.model("branch"), "-o", os.path.join(elsewhere, "new.onnx"), *words
        )
        self.assertEqual(code, 0, stderr)
        # What is there runs by itself.
        for path in (self.at("new.onnx"), os.path.join(elsewhere, "new.onnx")):
            kept = self.y != 1
            np.savez(
                self.at("kept.npz"),
                x=self.x[kept],
                y=np.where(self.y > 1, self.y - 1, self.y)[kept],
            )
            code, stdout, stderr = oubli(
                "means",
                path,
                "--data",
                self.at("kept.npz"),
                "-o",
                self.at("kept_means.npz"),
                "--force",
            )
            self.assertEqual(code, 0, stderr)

    def with_side_files(self, folder, locations, name="model"):
        """The gemm model with tensors in external data: {tensor: location}."""
        model = onnx.load(self.model("gemm"))
        for tensor in model.graph.initializer:
            if tensor.name not in locations:
                continue
            data = numpy_helper.to_array(tensor).tobytes()
            path = os.path.join(folder, locations[tensor.name])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "ab") as file:
                begin = file.tell()
                file.write(data)
            for field in ("raw_data", "float_data"):
                tensor.ClearField(field)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", locations[tensor.name]),
                ("offset", str(begin)),
                ("length", str(len(data))),
            ):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
        path = os.path.join(folder, name + ".onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        return path

    def naive(self, path, out, c, *words):
        """The weights of the new model, which must be the old ones without row c."""
        code, _, stderr = oubli(
            "forget", path, "-o", out, "--class", c, "--method", "naive", *words
        )
        self.assertEqual(code, 0, stderr)
        w, b = self.head(out)
        np.testing.assert_array_equal(w, np.delete(parts.W, c, 0))
        np.testing.assert_array_equal(b, np.delete(parts.B, c, 0))

    def test_models_in_one_folder_do_not_share_external_data(self):
        source, target = self.at("share_source"), self.at("share_target")
        os.makedirs(source)
        os.makedirs(target)
        path = self.with_side_files(source, {"W": "w.bin", "body.w": "w.bin"})
        for name, c in (("a.onnx", 1), ("b.onnx", 2)):
            self.naive(path, os.path.join(target, name), c)
        self.naive(path, os.path.join(target, "b.onnx"), 3, "--force")
        np.testing.assert_array_equal(
            self.head(os.path.join(target, "a.onnx"))[0], np.delete(parts.W, 1, 0)
        )
        self.assertEqual(
            sorted(n for n in os.listdir(target) if n.endswith((".data", ".bin"))),
            ["a.onnx.data", "b.onnx.data"],
        )

    def test_side_files_of_one_name_in_two_folders(self):
        folder, target = self.at("two_folders"), self.at("two_folders_target")
        os.makedirs(folder)
        os.makedirs(target)
        path = self.with_side_files(
            folder, {"W": "sa/w.bin", "b": "sb/w.bin", "body.w": "sc/w.bin"}
        )
        for place in (folder, target):
            self.naive(path, os.path.join(place, "new.onnx"), 1)
        # Names that are those of the old model's data, or of what else appears.
        path = self.with_side_files(folder, {"W": "again.onnx.data"}, "before")
        before = open(os.path.join(folder, "again.onnx.data"), "rb").read()
        self.naive(path, os.path.join(folder, "again.onnx"), 1, "--force")
        self.assertEqual(open(os.path.join(folder, "again.onnx.data"), "rb").read(), before)
        path = self.with_side_files(folder, {"W": "receipt.json", "b": "means.npz"}, "odd")
        self.naive(path, os.path.join(folder, "odder.onnx"), 1)
        json.load(open(os.path.join(folder, "odder.onnx.receipt.json")))

    def test_external_data_is_not_overwritten_by_other_outputs(self):
        folder = self.at("apart")
        os.makedirs(folder)
        path = self.with_side_files(folder, {"W": "w.bin"})
        side_file = os.path.join(folder, "new.onnx.data")
        with open(side_file, "wb") as file:
            np.save(file, np.zeros((1, parts.K - 1)))
        before = {n: open(os.path.join(folder, n), "rb").read() for n in os.listdir(folder)}
        words = ["forget", path, "-o", os.path.join(folder, "new.onnx"), "--class", 1, "--force"]
        data = ["--features", self.at("f.npy"), "--labels", self.at("y.npy")]
        for more, reason in (
            (["--report", side_file], "two outputs"),
            (["--method", "custom", "--target", side_file], "is the input"),
        ):
            code, _, stderr = oubli(*words, *data, *more)
            self.assertEqual(code, 2, stderr)
            self.assertIn(reason, stderr)
            self.assertEqual(
                {n: open(os.path.join(folder, n), "rb").read() for n in os.listdir(folder)}, before
            )


if __name__ == "__main__":
    unittest.main(verbosity=2)
