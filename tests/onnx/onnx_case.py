"""What the tests of 'oubli' on ONNX files share: the models of make_models.py with data that fits
them, and the program as a person would call it. Exits 77 (skipped) where python3-onnx is
missing."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

import make_models as models
import model_parts as parts

OUBLI = os.path.abspath(sys.argv.pop(1))
CACHE = os.environ.get("OUBLI_DATA") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "oubli"
)
HAVE_RUNTIME = (
    any(
        os.path.exists(os.path.join(CACHE, "runtime", n, "libonnxruntime.so.1"))
        for n in ("small", "full")
    )
    or "OUBLI_ONNXRUNTIME" in os.environ
)
needs_runtime = unittest.skipUnless(HAVE_RUNTIME, "no ONNX Runtime; tools/get-runtime fetches one")


def oubli(*words, env=None):
    done = subprocess.run(
        [OUBLI, *map(str, words)],
        capture_output=True,
        text=True,
        env=dict(os.environ, **(env or {})),
    )
    return done.returncode, done.stdout, done.stderr


def features_of(x):
    return np.maximum(x @ parts.W1 + parts.B1, 0)


class OnnxCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="oubli-e2e-")
        models.make(cls.folder)
        cls.manifest = json.load(open(os.path.join(cls.folder, "manifest.json")))
        rng = np.random.default_rng(3)
        cls.x = np.round(rng.standard_normal((4000, parts.D)) * 3).astype(np.float32)
        f = features_of(cls.x)
        cls.y = (f @ parts.W.T + parts.B).argmax(1)
        # Enough of every class, and clear cases.
        chosen = np.concatenate([np.flatnonzero(cls.y == j)[:120] for j in range(parts.K)])
        cls.x, cls.y, cls.f = cls.x[chosen], cls.y[chosen], f[chosen].astype(np.float32)
        assert min(np.bincount(cls.y, minlength=parts.K)) >= 20, np.bincount(cls.y)
        np.savez(cls.at("data.npz"), x=cls.x, y=cls.y)
        positive = np.abs(cls.x)  # what bytes can hold
        np.savez(
            cls.at("bytes.npz"),
            x=positive,
            y=(features_of(positive) @ parts.W.T + parts.B).argmax(1),
        )
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
        got, stdout, stderr = oubli(
            "forget", self.model(name), "-o", self.at(out), "--full", *words, env=env
        )
        self.assertEqual(got, code, (name, words, stdout, stderr))
        if code:
            self.assertFalse(
                [n for n in os.listdir(self.folder) if n.startswith(out) or "oubli-tmp" in n],
                "files were left",
            )
        return stdout + stderr

    def verify(self, name, *words, out="new.onnx", code=0, env=None):
        got, stdout, stderr = oubli(
            "verify",
            self.at(out + ".receipt.json"),
            "--model",
            self.at(out),
            "--original",
            self.model(name),
            "--json",
            *words,
            env=env,
        )
        self.assertEqual(got, code, (name, words, stdout, stderr))
        return {
            step["what"]: (step["state"], step["detail"]) for step in json.loads(stdout)["steps"]
        }

    def head(self, path):
        tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        return tensors["W"], tensors["b"]
