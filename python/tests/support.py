"""What the tests of the package share: a toy problem, the program, and skipping."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import oubli

PROGRAM = (
    os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1][:1] != "-" else "oubli"
)
SKIPPED = 77  # CTest shows "Skipped"


def need(module):
    """The module, or the end of this test program with a message."""
    try:
        return __import__(module)
    except ImportError as error:
        print(f"skipped: {module} is not installed ({error})")
        sys.exit(SKIPPED)


def run(*words, code=0):
    """The program's stdout."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done.stdout


def toy(classes=4, features=8, samples=400, dtype="float32", seed=0):
    """Gaussian classes around the rows of a layer: W, b, features, labels."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(classes, features))
    labels = np.arange(samples) % classes
    x = W[labels] + 0.5 * rng.normal(size=(samples, features))
    return W.astype(dtype), rng.normal(size=classes).astype(dtype), x.astype(dtype), labels


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        os.chdir(folder.name)
        self.addCleanup(os.chdir, before)

    def refuses(self, code, words, call, *args, **kwargs):
        """One exception with that code, whose text has `words`."""
        with self.assertRaises(oubli.Error) as raised:
            call(*args, **kwargs)
        self.assertEqual(raised.exception.code, code, str(raised.exception))
        self.assertIn(words, str(raised.exception))
        return raised.exception

    def assertSame(self, a, b):
        """Bit for bit."""
        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
        self.assertEqual(np.ascontiguousarray(a).tobytes(), np.ascontiguousarray(b).tobytes())
