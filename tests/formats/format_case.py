"""What the tests of 'oubli' on files of other libraries share: the program as a person would call
it, features that fit a head, and the same head as .npz, whose result every other format must agree
with bit for bit."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

OUBLI = os.path.abspath(sys.argv.pop(1))
DATA = os.environ.get("OUBLI_TEST_DATA", "")  # a folder of files made by others


def oubli(*words):
    command = [OUBLI, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr


class FormatCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="oubli-formats-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def make_features(cls, weights, bias=None, per_class=12):
        """Features that the head (classes x features) is right about, as f.npy and y.npy."""
        rng = np.random.default_rng(1)
        k, p = weights.shape
        y = np.repeat(np.arange(k), per_class)
        f = (weights[y] + 0.3 * rng.standard_normal((len(y), p))).astype(np.float32)
        np.save(cls.at("f.npy"), f)
        np.save(cls.at("y.npy"), y)
        return f, y

    def run_ok(self, *words):
        code, out, err = oubli(*words)
        self.assertEqual(code, 0, (words, out, err))
        return out + err

    def forget(self, name, *words, out, code=0):
        got, stdout, stderr = oubli("forget", self.at(name), *words, "-o", self.at(out), "--full")
        self.assertEqual(got, code, (name, words, stdout, stderr))
        if code:
            self.assertFalse(
                [n for n in os.listdir(self.folder) if n.startswith(out) or "oubli-tmp" in n],
                "files were left",
            )
        return stdout + stderr

    def by_npz(self, weights, bias, *words):
        """The new head that the same request gives for an .npz file: W, b."""
        arrays = {"W": weights} if bias is None else {"W": weights, "b": bias}
        np.savez(self.at("same.npz"), **arrays)
        for name in ("same_new.npz", "same_new.npz.receipt.json", "same_new.npz.means.npz"):
            if os.path.exists(self.at(name)):
                os.remove(self.at(name))
        words = list(words) + ([] if bias is not None else ["--no-bias"])
        self.forget("same.npz", *words, "--weights", "W", "--transposed", out="same_new.npz")
        new = np.load(self.at("same_new.npz"))
        return new["W"], new["b"] if "b" in new else None

    def verify(self, old, new, *words):
        return self.run_ok(
            "verify",
            self.at(new) + ".receipt.json",
            "--model",
            self.at(new),
            "--original",
            self.at(old),
            *words,
        )

    def receipt(self, new):
        return json.load(open(self.at(new) + ".receipt.json"))


def main():
    unittest.main(argv=[sys.argv[0]] + sys.argv[1:], verbosity=1)
