#!/usr/bin/python3
"""heads_e2e.py OUBLI: models with several last layers, and which one is meant. ONNX Runtime runs
the files before and after."""
import unittest

from onnx_case import OnnxCase, needs_runtime, oubli  # first: skips where python3-onnx is missing

import numpy as np
import onnx
import model_parts as parts
import ort


def tensors_of(path):
    return {t.name: t.SerializeToString() for t in onnx.load(path).graph.initializer}


def nodes_of(path):
    return [n.SerializeToString() for n in onnx.load(path).graph.node]


class Heads(OnnxCase):
    def outputs(self, path):
        return ort.Session(path).run({"x": self.x[:50]})

    def test_inspect_lists_the_candidates(self):
        code, _, stderr = oubli("inspect", self.model("two_heads"))
        self.assertEqual(code, 2)
        for line in (
            "Gemm node of 'y' (output 'y'): 5 classes x 8 features",
            "Gemm node of 'boxes' (output 'boxes'): 4 classes x 8 features",
            "--head",
        ):
            self.assertIn(line, stderr)
        self.assertNotIn("?", stderr)  # what a new line in a message becomes
        code, stdout, _ = oubli("inspect", self.model("two_heads"), "--head", "y")
        self.assertEqual(code, 0)
        self.assertIn("4 classes x 8 features", " ".join(stdout.split()))
        self.assertIn("another last layer", " ".join(stdout.split()))
        code, stdout, _ = oubli("inspect", self.model("two_heads"), "--head", "boxes", "--json")
        self.assertEqual(code, 0)
        self.assertIn('"classes": 4', stdout)

    def test_a_head_that_cannot_be_listed_is_said(self):
        code, _, stderr = oubli("inspect", self.model("second_head_normalised"))
        self.assertEqual(code, 2)
        self.assertIn("cannot be chosen, for 'e2'", stderr)
        self.forget("second_head_normalised", "--class", 1, "--method", "naive", "--head", "y")

    def test_names_that_mean_no_head(self):
        for words, reason in (
            (["--head", "z"], "no linear layer is meant by --head z; the outputs come from Gemm"),
            (["--weights", "b"], "no linear layer is meant by --weights b"),
            (["--head", "boxes", "--weights", "W"], "no linear layer is meant by"),
        ):
            words = words + ["--class", 1, "--method", "naive"]
            self.assertIn(reason, self.forget("two_heads", *words, code=2))
        # A layer inside the network has something behind it that no classifier has.
        text = self.forget("gemm", "--weights", "body.w", "--class", 1, "--method", "naive", code=4)
        self.assertIn("Gemm node of 'y'", text)
        for name in ("head.npz", "head.npy"):
            np.savez(self.at("head.npz"), W=parts.W, b=parts.B)
            np.save(self.at("head.npy"), parts.W)
            code, _, stderr = oubli("inspect", self.at(name), "--head", "W")
            self.assertEqual(code, 2)
            self.assertIn("say --weights", stderr)

    @needs_runtime
    def test_the_chosen_head_loses_a_class_and_the_other_stays(self):
        old = self.outputs(self.model("two_heads"))
        for words, head, other, kept in (
            (["--head", "y"], "y", "boxes", "V"),
            (["--weights", "W"], "y", "boxes", "V"),
            (["--head", "boxes"], "boxes", "y", "W"),
            (["--weights", "V", "--head", "boxes"], "boxes", "y", "W"),
        ):
            text = self.forget("two_heads", "--class", 1, "--method", "naive", *words)
            self.assertIn("may still tell the class", text)
            onnx.checker.check_model(onnx.load(self.at("new.onnx")), full_check=True)
            new = self.outputs(self.at("new.onnx"))
            np.testing.assert_array_equal(new[head], np.delete(old[head], 1, 1))
            np.testing.assert_array_equal(new[other], old[other])
            before, after = tensors_of(self.model("two_heads")), tensors_of(self.at("new.onnx"))
            changed = {name for name in before if before[name] != after.get(name)}
            self.assertEqual(changed, {"W", "b"} if head == "y" else {"V"})
            self.assertEqual(nodes_of(self.model("two_heads")), nodes_of(self.at("new.onnx")))
            self.verify("two_heads", *words)

    @needs_runtime
    def test_normalization_of_a_chosen_head(self):
        data = ["--data", self.at("data.npz"), "--head", "y"]
        self.forget("two_heads", "--class", 2, *data)
        old = self.outputs(self.model("two_heads"))
        new = self.outputs(self.at("new.onnx"))
        np.testing.assert_array_equal(new["boxes"], old["boxes"])
        want = np.delete(old["y"].astype(float), 2, 1)
        got = new["y"].astype(float)
        centred = lambda z: z - z.mean(1, keepdims=True)
        # The same softmax: logits that differ by one number per sample.
        np.testing.assert_allclose(centred(got), centred(want), atol=1e-4 * np.abs(want).max())
        self.assertGreater(np.abs(got - want).max(), 1e-2)


if __name__ == "__main__":
    unittest.main()
