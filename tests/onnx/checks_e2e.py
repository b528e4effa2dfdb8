#!/usr/bin/python3
"""checks_e2e.py OUBLI: ONNX files, what is checked of a new model: old rows, what it computes,
'oubli verify'. NumPy is the oracle."""
import json
import os
import shutil
import subprocess
import time
import unittest

from onnx_case import OUBLI, OnnxCase, needs_runtime  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import model_parts as parts


def files_in(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def wait_until_idle(process, ready):
    """Until, for a third of a second, it is ready and no thread of the process's child runs or
    waits for a core."""
    since = time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.01)
        assert process.poll() is None, process.stderr.read()
        try:
            child = open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read().split()[0]
            states = [
                open("/proc/%s/task/%s/stat" % (child, thread)).read().rpartition(")")[2].split()[0]
                for thread in os.listdir("/proc/%s/task" % child)
            ]
        except (IndexError, OSError):  # a process or thread that begins or has just ended
            states = ["R"]
        if "R" in states or not ready():
            since = time.monotonic()


class Checks(OnnxCase):
    def test_constants_that_nothing_reads_go(self):
        """Old copies of the head as dead nodes, in every form; an unrelated dead node stays."""
        other = helper.make_node("Constant", [], ["left"], value=parts.tensor("", parts.W1))
        old = parts.tensor("", parts.W)
        copies = {
            "tensor": [helper.make_node("Constant", [], ["old"], value=old)],
            "typed": [
                helper.make_node(
                    "Constant", [], ["old"], value=parts.tensor("", parts.W, "f16", typed=True)
                )
            ],
            "floats": [
                helper.make_node("Constant", [], ["old"], value_floats=parts.W.flatten().tolist())
            ],
            "chain": [
                helper.make_node("Constant", [], ["old"], value=old),
                helper.make_node("Transpose", ["old"], ["older"]),
                helper.make_node("Cast", ["older"], ["oldest"], to=TensorProto.FLOAT16),
            ],
            "stored": [helper.make_node("Identity", ["W0"], ["old"])],
            "reader": [
                helper.make_node("Identity", ["W"], ["old"]),
                helper.make_node("Transpose", ["old"], ["older"]),
            ],
        }
        for kind, steps in copies.items():
            model = onnx.load(self.model("gemm"))
            nodes = list(model.graph.node)
            del model.graph.node[:]
            model.graph.node.extend([other, *steps, *nodes])
            if kind == "stored":
                model.graph.initializer.append(parts.tensor("W0", parts.W))
            with open(self.at("dead.onnx"), "wb") as file:
                file.write(model.SerializeToString())
            self.forget("dead", "--class", 1, "--method", "naive")
            new = onnx.load(self.at("new.onnx"))
            onnx.checker.check_model(new, full_check=True)
            self.assertEqual(
                [n.op_type for n in new.graph.node], ["Constant", *(n.op_type for n in nodes)], kind
            )
            self.assertNotIn("W0", [t.name for t in new.graph.initializer])
            text = json.dumps(json.load(open(self.at("new.onnx.receipt.json")))["findings"])
            self.assertEqual(text.count("was removed"), len(steps) + (kind == "stored"), kind)

    def test_a_copy_in_typed_data_stops_it(self):
        """A second matrix that something reads: not ours to remove, and found in whatever way it is
        written."""
        for kind in ("f32", "f16", "f64", "bf16"):
            model = onnx.load(self.model("gemm"))
            model.graph.initializer.append(parts.tensor("copy", parts.W, kind, typed=True))
            model.graph.node.append(helper.make_node("Shape", ["copy"], ["size"]))
            model.graph.output.append(helper.make_tensor_value_info("size", TensorProto.INT64, [2]))
            with open(self.at("copied.onnx"), "wb") as file:
                file.write(model.SerializeToString())
            self.assertIn(
                "the weights of forgotten class 1 are still in it",
                text := self.forget("copied", "--class", 1, "--method", "naive", code=5),
                kind,
            )
            self.assertNotIn("oubli-tmp", text)

    @needs_runtime
    def test_a_new_model_that_computes_something_else_does_not_appear(self):
        """Targets that float32 can just hold: the class's own samples scatter around them, and some
        of their logits overflow. The new weights are what they should be; only running the new file
        shows it."""
        np.save(self.at("huge.npy"), np.full((1, parts.K - 1), 3.39e38))
        text = self.forget(
            "gemm",
            "--class",
            1,
            "--data",
            self.at("data.npz"),
            "--method",
            "custom",
            "--target",
            self.at("huge.npy"),
            code=5,
        )
        self.assertIn("the new model does not compute what its new layer says", text)

    @needs_runtime
    def test_a_new_model_with_another_softmax_does_not_appear(self):
        """A weight of the new file changes on the disk after the file was read back and searched;
        strace holds the program there. The file is still a model that computes what its last layer
        says: running it beside the old layer shows it.
        """
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        words = ["--class", 1, "--data", self.at("data.npz")]
        self.forget("gemm", *words)
        new = open(self.at("new.onnx"), "rb").read()
        weight = new.index(self.head(self.at("new.onnx"))[0].tobytes())
        before = {n: open(self.at(n), "rb").read() for n in ("gemm.onnx", "data.npz")}
        folder = self.at("changed")
        os.mkdir(folder)
        process = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                "trace=fsync",
                "-e",
                "inject=fsync:delay_enter=1500000",
                OUBLI,
                "forget",
                self.model("gemm"),
                "-o",
                os.path.join(folder, "new.onnx"),
                *map(str, words),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"),
        )  # which cannot be had under strace
        wait_until_idle(
            process, lambda: any(os.path.getsize(f) == len(new) for f in files_in(folder))
        )
        (temporary,) = [f for f in files_in(folder) if os.path.getsize(f) == len(new)]
        with open(temporary, "r+b") as file:
            self.assertEqual(file.read(), new)
            file.seek(weight)
            file.write(np.float32(1.5 * np.frombuffer(new, np.float32, 1, weight)[0]).tobytes())
        message = process.stderr.read()
        self.assertEqual(process.wait(), 5, message)
        self.assertIn(
            "the new model's softmax is not that of the old one without the forgotten classes",
            message,
        )
        self.assertIn("nothing was written", message)
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual({n: open(self.at(n), "rb").read() for n in before}, before)

    @needs_runtime
    def test_verify_allows_what_another_engine_explains(self):
        data, anew = ["--data", self.at("data.npz")], "the new head, computed anew"
        self.forget("softmax", "--class", 1, *data)
        new = onnx.load(self.at("new.onnx"))
        weights = next(t for t in new.graph.initializer if t.name == "W")
        honest = numpy_helper.to_array(weights)
        receipt = json.load(open(self.at("new.onnx.receipt.json")))
        for change, other_engine, same_engine in (
            (0, "passed", "passed"),
            (1e-6, "passed", "FAILED"),
            (1e-2, "FAILED", "FAILED"),
        ):
            scale = np.abs(honest).max(axis=1, keepdims=True) * np.sign(honest)
            weights.CopyFrom(
                numpy_helper.from_array((honest + change * scale).astype(np.float32), "W")
            )
            onnx.save(new, self.at("new.onnx"))
            for runtime, state in (
                ("ONNX Runtime 0.1", other_engine),
                (receipt["run"]["runtime"], same_engine),
            ):
                with open(self.at("new.onnx.receipt.json"), "w") as file:
                    json.dump(dict(receipt, run=dict(receipt["run"], runtime=runtime)), file)
                found = self.verify("softmax", *data, code=5 if change else 0)[anew]
                self.assertEqual(found[0], state, (change, runtime, found))
                if change and runtime != receipt["run"]["runtime"]:
                    self.assertIn("ONNX Runtime 0.1", found[1])
                    self.assertNotIn("although", found[1])
        self.forget("softmax", "--class", 1, *data)
        found = self.verify(
            "gemm", *data, env={"OUBLI_ONNXRUNTIME": "/nonexistent/x.so"}, code=5
        )  # another original, too
        self.assertEqual(found[anew][0], "not made")
        self.assertIn("oubli get-runtime", found[anew][1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
