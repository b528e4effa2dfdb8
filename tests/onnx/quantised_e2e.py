"""Quantised heads: 'oubli forget' against ONNX Runtime on the old file and on the new one, each as
it is. Exits 77 (skipped) where python3-onnx or the runtime is missing."""
import json
import os
import shutil
import tempfile
import unittest

from onnx_case import HAVE_RUNTIME, oubli

import numpy as np
import onnx
from onnx import numpy_helper

import ort
import quantised_models as models

GONE = 2
KEPT = [j for j in range(models.K) if j != GONE]


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@unittest.skipUnless(HAVE_RUNTIME, "no ONNX Runtime; tools/get-runtime fetches one")
class Quantised(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="oubli-quantised-")
        cls.made = models.make(cls.folder)
        rng = np.random.default_rng(5)
        x = (rng.standard_normal((40000, models.D)) * 2).astype(np.float32)
        f = models.features(x)
        y = (f @ models.W.T + models.B).argmax(1)
        rows = np.concatenate([np.flatnonzero(y == j)[:80] for j in range(models.K)])
        cls.x, cls.y, cls.f = x[rows], y[rows], f[rows]
        assert np.bincount(cls.y, minlength=models.K).min() >= 20
        np.savez(cls.at("data.npz"), x=cls.x, y=cls.y)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def run_file(self, path):
        """Logits and probabilities, by ONNX Runtime."""
        made = ort.Session(path).run({"x": self.x})
        return made["y"].astype(float), made["p"].astype(float)

    def forget(self, name, *words, code=0):
        out = self.at("new.onnx")
        for left in os.listdir(self.folder):
            if left.startswith("new.onnx"):
                os.remove(self.at(left))
        got, text, errors = oubli(
            "forget", self.at(name + ".onnx"), "--class", "cat", "-o", out, "--full", *words
        )
        self.assertEqual(got, code, (name, words, text, errors))
        if code:
            return None, text + errors
        onnx.checker.check_model(onnx.load(self.at(name + ".onnx")))
        onnx.checker.check_model(onnx.load(out))
        return json.load(open(out + ".receipt.json")), text

    def verify(self, name, *words, code=0):
        got, text, errors = oubli(
            "verify",
            self.at("new.onnx.receipt.json"),
            "--original",
            self.at(name + ".onnx"),
            "--json",
            *words,
        )
        self.assertEqual(got, code, (name, words, text, errors))
        return {s["what"]: (s["state"], s["detail"]) for s in json.loads(text)["steps"]}

    def tensors(self, path):
        return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}

    def test_inspect_says_what_it_is(self):
        for name in self.made:
            code, text, errors = oubli("inspect", self.at(name + ".onnx"), "--full")
            self.assertEqual(code, 0, errors)
            self.assertIn("5 classes x 24 features", text)
            self.assertIn("is quantised", text)

    def test_naive_keeps_the_whole_numbers(self):
        for name, known in self.made.items():
            with self.subTest(name):
                receipt, text = self.forget(
                    name, "--method", "naive", "--data", self.at("data.npz")
                )
                self.assertIn("keeps its whole numbers", text)
                self.assertEqual(
                    receipt["quantised"]["new_head"], "the whole numbers of the old one"
                )
                self.assertTrue(receipt["self_check"]["forgotten_rows_absent"])
                old, old_p = self.run_file(self.at(name + ".onnx"))
                new, new_p = self.run_file(self.at("new.onnx"))
                np.testing.assert_array_equal(new, old[:, KEPT])
                np.testing.assert_allclose(new_p, softmax(old[:, KEPT]), atol=2e-6)
                before = self.tensors(self.at(name + ".onnx"))
                after = self.tensors(self.at("new.onnx"))
                for tensor, value in before.items():
                    axis = [i for i, n in enumerate(value.shape) if n == models.K]
                    wanted = np.take(value, KEPT, axis[0]) if axis else value
                    np.testing.assert_array_equal(after[tensor], wanted, tensor)
                steps = self.verify(name, "--data", self.at("data.npz"), "--recompute")
                for what in ("everything else", "old rows", "the new head, computed anew"):
                    self.assertEqual(steps[what][0], "passed", steps[what])

    def exact_logits(self, name):
        """What the new head would give without rounding: shifted alike, so centred they are the
        old ones."""
        known = self.made[name]
        return self.f @ known["numbers"].weights().T + known["bias"]

    def test_other_methods_round_within_the_bound(self):
        for name, known in self.made.items():
            if "steps" in known:
                continue
            with self.subTest(name):
                receipt, text = self.forget(name, "--data", self.at("data.npz"))
                self.assertIn("logits are off by at most", text)
                rounding = receipt["quantised"]["rounding"]
                self.assertLessEqual(rounding["error"], rounding["bound"])
                self.assertLess(rounding["step_over_that_of_the_old_head"], 3)
                old, _ = self.run_file(self.at(name + ".onnx"))
                new, new_p = self.run_file(self.at("new.onnx"))
                f = np.abs(self.f).sum(1, keepdims=True) * (1.02 if "dynamic" in known else 1)
                bound = rounding["weight_step"] / 2 * f + rounding["bias_step"] / 2
                wanted = old[:, KEPT]
                apart = (new - new.mean(1, keepdims=True)) - (
                    wanted - wanted.mean(1, keepdims=True)
                )
                self.assertLessEqual((np.abs(apart) / (2 * bound + 1e-4)).max(), 1)
                self.assertGreater(np.abs(apart).max(), 1e-5)  # it is rounded
                np.testing.assert_allclose(new_p, softmax(new), atol=2e-6)
                after = self.tensors(self.at("new.onnx"))
                self.assertEqual(after["W"].dtype, known["numbers"].type)
                self.assertEqual(after["Ws"].shape, (models.K - 1,))
                if name == "qdq_narrow":
                    self.assertLessEqual(np.abs(after["W"].astype(int)).max(), 64)
                steps = self.verify(name, "--data", self.at("data.npz"), "--recompute")
                for what in ("everything else", "old rows", "the new head, computed anew"):
                    self.assertEqual(steps[what][0], "passed", steps[what])

    def test_float_heads_are_exact(self):
        for name, known in self.made.items():
            for method in ("naive", "normalization"):
                with self.subTest(name + " " + method):
                    receipt, text = self.forget(
                        name, "--float-head", "--method", method, "--data", self.at("data.npz")
                    )
                    self.assertEqual(receipt["quantised"]["new_head"], "floats")
                    old, _ = self.run_file(self.at(name + ".onnx"))
                    new, new_p = self.run_file(self.at("new.onnx"))
                    wanted = old[:, KEPT]
                    atol = 2e-4
                    if "steps" in known:  # the old logits are rounded, the new ones are not
                        atol = known["steps"] * float(models.SY) / 2 + 2e-4
                        exact = self.exact_logits(name)[:, KEPT]
                        near = (old > old.min()).all(1) & (old < old.max()).all(1)
                        wanted = exact
                        np.testing.assert_allclose(old[near][:, KEPT], exact[near], atol=atol)
                        atol = 2e-4
                    if method == "normalization":
                        new = new - new.mean(1, keepdims=True)
                        wanted = wanted - wanted.mean(1, keepdims=True)
                    np.testing.assert_allclose(new, wanted, atol=atol)
                    types = [n.op_type for n in onnx.load(self.at("new.onnx")).graph.node]
                    self.assertFalse({"QGemm", "QLinearMatMul", "MatMulInteger"} & set(types))
                    old_bytes = (
                        self.made[name]["numbers"]
                        .q[GONE]
                        .astype(self.made[name]["numbers"].type)
                        .tobytes()
                    )
                    self.assertNotIn(old_bytes, open(self.at("new.onnx"), "rb").read())
                    steps = self.verify(name, "--data", self.at("data.npz"), "--recompute")
                    for what in ("everything else", "old rows", "the new head, computed anew"):
                        self.assertEqual(steps[what][0], "passed", steps[what])

    def test_logits_of_8_bits_show_a_shift(self):
        for name, known in self.made.items():
            if "steps" not in known:
                continue
            _, text = self.forget(name, "--data", self.at("data.npz"), code=4)
            self.assertIn("a non-linear step follows the logits", text)

    def test_float_head_is_for_quantised_ones(self):
        receipt, _ = self.forget("qgemm_channel_i8", "--float-head", "--method", "naive")
        code, _, errors = oubli(
            "forget",
            self.at("new.onnx"),
            "--class",
            "0",
            "--float-head",
            "--method",
            "naive",
            "-o",
            self.at("again.onnx"),
        )
        self.assertEqual(code, 2, errors)
        self.assertIn("floats already", errors)

    def test_a_changed_number_does_not_verify(self):
        self.forget("qdq_gemm_channel_i8", "--data", self.at("data.npz"))
        model = onnx.load(self.at("new.onnx"))
        for tensor in model.graph.initializer:
            if tensor.name == "W":
                raw = bytearray(tensor.raw_data)
                raw[7] ^= 1
                tensor.raw_data = bytes(raw)
        onnx.save_model(model, self.at("new.onnx"))
        steps = self.verify("qdq_gemm_channel_i8", "--data", self.at("data.npz"), code=5)
        self.assertEqual(steps["the new head, computed anew"][0], "FAILED")

    def test_the_next_deletion_from_stored_means(self):
        self.forget("qgemm_channel_i8", "--data", self.at("data.npz"))
        shutil.copy(self.at("new.onnx"), self.at("first.onnx"))
        means = self.at("first.means.npz")
        shutil.copy(self.at("new.onnx.means.npz"), means)
        first, _ = self.run_file(self.at("first.onnx"))
        code, _, errors = oubli(
            "forget",
            self.at("first.onnx"),
            "--class",
            "ant",
            "--means",
            means,
            "-o",
            self.at("second.onnx"),
        )
        self.assertEqual(code, 0, errors)
        second, _ = self.run_file(self.at("second.onnx"))
        centre = lambda z: z - z.mean(1, keepdims=True)  # noqa: E731
        self.assertLess(np.abs(centre(second) - centre(first[:, 1:])).max(), 1)


if __name__ == "__main__":
    unittest.main()
