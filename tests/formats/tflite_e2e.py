"""Forgetting in TensorFlow Lite files: float and 8-bit heads, labels in the appended archive."""

import os
import shutil
import sys
import zipfile

try:
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

import make_tflite as tflite
from format_case import DATA, FormatCase, main, oubli

K, P, GONE = 10, 24, 3
KEPT = [j for j in range(K) if j != GONE]
NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
rng = np.random.default_rng(5)
W = rng.standard_normal((K, P)).astype(np.float32)
B = rng.standard_normal(K).astype(np.float32)
HALF, HALF_B = W.astype(np.float16), B.astype(np.float16)
Q = rng.integers(-127, 128, (K, P)).astype(np.int8)
QB = rng.integers(-5000, 5000, K).astype(np.int32)
PER_CLASS = [0.01 * (j + 1) for j in range(K)]


class Tflite(FormatCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_features(W)
        softmax = (tflite.SOFTMAX,)
        cls.models = {
            "float": tflite.model(W, B),
            "no_bias": tflite.model(W, None),
            "bare": tflite.model(W, B, ()),
            "logistic": tflite.model(W, B, (tflite.LOGISTIC,)),
            "arg_max": tflite.model(W, B, (tflite.SOFTMAX, tflite.ARG_MAX)),
            "half": tflite.model(HALF, HALF_B, kind=tflite.FLOAT16),
            "labels": tflite.model(W, B, labels=NAMES),
            "int8": tflite.model(Q, QB, softmax, tflite.INT8, [0.02], tflite.INT8),
            "int8_per_class": tflite.model(
                Q, QB, (tflite.SOFTMAX, tflite.DEQUANTIZE), tflite.INT8, PER_CLASS, tflite.INT8
            ),
            "dynamic": tflite.model(Q, B, softmax, tflite.INT8, PER_CLASS),
        }
        for name, content in cls.models.items():
            cls.write(name, content)

    @classmethod
    def write(cls, name, content):
        with open(cls.at(name + ".tflite"), "wb") as f:
            f.write(content)

    def check_rest(self, old, new):
        """Shapes end in K - 1 where they ended in K, and quantisation has lost an entry."""
        a, b = tflite.read(old), tflite.read(new)
        self.assertEqual(a["operators"], b["operators"])
        for before, after in zip(a["tensors"], b["tensors"]):
            for key in ("shape", "signature"):
                wanted = [K - 1 if n == K else n for n in before[key]]
                self.assertEqual(after[key], wanted)
            for key in ("scales", "zeros"):
                one_each = before[key] and len(before[key]) == K
                self.assertEqual(
                    after[key], [before[key][j] for j in KEPT] if one_each else before[key]
                )

    def test_naive_is_exact(self):
        for name, old in self.models.items():
            with self.subTest(name):
                new = "naive_" + name + ".tflite"
                self.forget(name + ".tflite", "--class", GONE, "--method", "naive", out=new)
                made = open(self.at(new), "rb").read()
                if name != "labels":
                    self.assertEqual(len(made), len(old))
                self.check_rest(old, made)
                for before, after in zip(tflite.head(old), tflite.head(made)):
                    np.testing.assert_array_equal(after, before[KEPT])
                for row in (W, HALF, Q):
                    self.assertNotIn(row[GONE].tobytes(), made)
                self.verify(name + ".tflite", new)

    def test_normalization_is_that_of_npz(self):
        floats = dict(float=(W, B), bare=(W, B), no_bias=(W, None), labels=(W, B))
        floats["half"] = HALF, HALF_B
        for name, (old, bias) in floats.items():
            words = ["--class", GONE, "--features", self.at("f.npy"), "--labels", self.at("y.npy")]
            words += ["--solver", "paper"] if bias is None else []
            self.forget(name + ".tflite", *words, out="norm_%s.tflite" % name)
            weights, b = self.by_npz(old.T.copy(), bias, *words)
            made = open(self.at("norm_%s.tflite" % name), "rb").read()
            self.check_rest(self.models[name], made)
            tensors = tflite.read(made)["tensors"]
            np.testing.assert_array_equal(tensors[1]["data"], weights.T)
            if bias is not None:
                np.testing.assert_array_equal(tensors[2]["data"], b)

    def test_quantised_heads_take_naive_only(self):
        np.save(self.at("fq.npy"), (Q[np.repeat(np.arange(K), 12)] / 100).astype(np.float32))
        words = ["--class", GONE, "--features", self.at("fq.npy"), "--labels", self.at("y.npy")]
        self.assertIn(
            "--method naive", self.forget("dynamic.tflite", *words, out="q.tflite", code=4)
        )
        self.assertIn("--method naive", self.forget("int8.tflite", *words, out="q.tflite", code=4))

    def test_a_copy_of_a_quantised_row_is_told(self):
        old = self.models["int8"]
        self.write("copy", old + Q[GONE].tobytes())
        words = ["--class", GONE, "--method", "naive"]
        said = self.forget("copy.tflite", *words, out="copied.tflite")
        self.assertIn("still holds the weights of forgotten class 3", said)
        said = self.forget("int8.tflite", *words, out="clean.tflite")
        self.assertNotIn("still holds the weights", said)

    def test_labels(self):
        said = self.forget(
            "labels.tflite", "--class", "dog", "--method", "naive", out="named.tflite"
        )
        self.assertIn("3 (dog)", said)
        with zipfile.ZipFile(self.at("named.tflite")) as archive:
            left = archive.read("labels.txt").decode().split("\n")
            self.assertEqual(left, [n for n in NAMES if n != "dog"])
            self.assertEqual(archive.read("other.json"), b"{}")
        self.assertNotIn(b"dog", open(self.at("named.tflite"), "rb").read())
        self.assertIn(
            "2 (cat)",
            self.forget("named.tflite", "--class", "cat", "--method", "naive", out="again.tflite"),
        )

    def test_refusals(self):
        cut = self.models["float"]
        outside = bytearray(cut)
        outside[0:4] = (len(cut) + 100).to_bytes(4, "little")
        refused = {
            "shared_buffer": (tflite.model(W, B, share="buffer"), 4, "used by another tensor"),
            "shared_shape": (
                tflite.model(W, B, share="shape"),
                4,
                "something else in the file uses",
            ),
            "read_twice": (tflite.model(W, B, read_twice=True), 4, "read by something else"),
            "reshape": (tflite.model(W, B, (tflite.RESHAPE,)), 4, "operator 22"),
            "wide_read_twice": (
                tflite.model(HALF, HALF_B, kind=tflite.FLOAT16, weights_read_twice=True),
                4,
                "head/MatMul_dequantize is read by something else, too",
            ),
            "computed": (
                tflite.model(HALF, HALF_B, kind=tflite.FLOAT16, widened_by=tflite.LOGISTIC),
                4,
                "is computed by operator 14; wanted a constant",
            ),
            "wide_shape": (
                tflite.with_extent(self.models["half"], 3, 1, P + 1),
                4,
                "something else than float16 of the same shape",
            ),
            "no_layer": (tflite.model(W, B, output=0), 4, ""),
            "outside": (bytes(outside), 3, "damaged or cut short"),
            "short": (cut[: len(cut) // 2], 3, "damaged or cut short"),
        }
        for name, (content, code, words) in refused.items():
            with self.subTest(name):
                self.write(name, content)
                said = self.forget(
                    name + ".tflite",
                    "--class",
                    GONE,
                    "--method",
                    "naive",
                    out="no.tflite",
                    code=code,
                )
                self.assertIn(words, said)

    def test_damage_never_crashes(self):
        for name in ("int8_per_class", "labels"):
            for round in range(150):
                content = bytearray(self.models[name])
                for place in rng.integers(0, len(content), 2):
                    content[place] = rng.integers(0, 256)
                self.write("damaged", bytes(content))
                code, _, said = oubli("inspect", self.at("damaged.tflite"))
                self.assertIn(code, (0, 2, 3, 4), said)

    def test_a_file_of_somebody_else(self):
        path = os.path.join(DATA, "kws_ref_model.tflite")
        if not DATA or not os.path.exists(path):
            self.skipTest("OUBLI_TEST_DATA has no kws_ref_model.tflite")
        shutil.copy(path, self.at("kws.tflite"))
        os.chmod(self.at("kws.tflite"), 0o644)
        self.forget("kws.tflite", "--class", 4, "--method", "naive", out="kws_new.tflite")
        old, new = open(path, "rb").read(), open(self.at("kws_new.tflite"), "rb").read()
        kept = [j for j in range(12) if j != 4]
        for before, after in zip(tflite.head(old), tflite.head(new)):
            np.testing.assert_array_equal(after, before[kept])
        self.assertEqual(
            tflite.read(new)["tensors"][tflite.read(new)["outputs"][0]]["shape"], [1, 11]
        )
        self.verify("kws.tflite", "kws_new.tflite")


if __name__ == "__main__":
    main()
