"""What people read on a terminal of 80 columns, word by word: tests/terminal/*.txt.

Usage: terminal_test.py OUBLI [--update]. --update writes the texts anew; read the difference.
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

import numpy as np

OUBLI = os.path.abspath(sys.argv[1])
UPDATE = "--update" in sys.argv
GOLDEN = pathlib.Path(__file__).resolve().parent / "terminal"
PROGRESS = re.compile("\r\x1b\\[K[^\n]*\n")
LOOKS = re.compile("\x1b\\[[0-9;]*m")


def on_terminal(words, folder, columns=80, **variables):
    """Exit code and everything that appears on a terminal of so many columns."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.environ.pop("NO_COLOR", None)
        os.environ.update({"TERM": "xterm", **variables})
        os.execv(OUBLI, ["oubli", *words])
    seen = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux tells that the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen.decode().replace("\r\n", "\n")


def make_files(folder):
    """A head of 6 classes and samples of each. Class 2 is where normalization does not help: its
    samples lie beside those of class 0."""
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(size=(6, 8)).astype("f4"), rng.normal(size=6).astype("f4")
    labels = np.repeat(np.arange(6), 40)
    features = (weights[labels] + 0.5 * rng.normal(size=(240, 8))).astype("f4")
    np.savez(folder / "head.npz", W=weights, b=bias)
    np.savez(folder / "data.npz", features=features, labels=labels)
    # Logits of 12 models each; those that saw class 2 are surer about its samples.
    truth = np.repeat(np.arange(6), 10)
    for name, shift in ("seen", 3), ("unseen", 0), ("unseen2", 0):
        logits = rng.normal(size=(12, 60, 5))
        kept = truth != 2
        logits[:, kept, np.array([0, 1, 0, 2, 3, 4])[truth[kept]]] += 3
        logits[:, truth == 2, 0] += shift
        np.save(folder / f"{name}.npy", logits.astype("f4"))
    np.save(folder / "y.npy", truth)
    (folder / "animals.txt").write_text("ant\nbee\ncat\ndog\nelk\nfox\n")


class Terminal(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        make_files(self.folder)

    def tearDown(self):
        self.temporary.cleanup()

    def golden(self, name, *words, code=0, lines=12):
        got, text = on_terminal(words, self.folder)
        self.assertEqual(got, code, text)
        plain = LOOKS.sub("", PROGRESS.sub("", text))
        for line in plain.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertLessEqual(plain.count("\n"), lines, plain)
        path = GOLDEN / f"{name}.txt"
        if UPDATE:
            path.write_text(f"$ oubli {' '.join(words)}\n{plain}")
        self.assertEqual(path.read_text(), f"$ oubli {' '.join(words)}\n{plain}")
        return text

    def request(self, *more):
        return ["forget", "head.npz", "--data", "data.npz", "--class-names", "animals.txt", *more]

    def test_forget(self):
        text = self.golden("forget", *self.request("--class", "cat", "-o", "new.npz"))
        self.assertIn("\x1b[1mForgot class 2 (cat):\x1b[0m", text)
        self.golden("verify", "verify", "new.npz.receipt.json")
        second = ["forget", "new.npz", "--class", "dog", "--means", "new.npz.means.npz"]
        self.golden("forget-means", *second, "-o", "newer.npz")

    def test_forget_two_by_other_methods(self):
        two = ["--class", "ant", "--class", "fox"]
        self.golden("forget-naive", *self.request(*two, "--method", "naive", "-o", "n.npz"))
        self.golden("forget-dry", *self.request(*two, "--method", "zeroing", "--dry-run"))

    def test_inspect(self):
        self.golden("inspect", "inspect", "head.npz", "--class-names", "animals.txt")
        words = ["--data", "data.npz", "--class-names", "animals.txt", "--class", "bee"]
        self.golden("inspect-class", "inspect", "head.npz", *words)

    def test_audit(self):
        words = ["--seen", "seen.npy", "--unseen", "unseen.npy", "--labels", "y.npy"]
        named = ["--class", "cat", "--class-names", "animals.txt"]
        floor = ["--unseen2", "unseen2.npy"]
        self.golden("audit", "audit", *words, *named, *floor, lines=16)
        self.golden("audit-no-floor", "audit", *words, "--class", "2", lines=18)

    def test_verify_that_fails(self):
        on_terminal(self.request("--class", "cat", "-o", "new.npz"), self.folder)
        arrays = dict(np.load(self.folder / "new.npz"))
        np.savez(self.folder / "new.npz", **{name: array + 1 for name, array in arrays.items()})
        self.golden("verify-fails", "verify", "new.npz.receipt.json", code=5, lines=17)

    def test_errors(self):
        self.golden("error-class", *self.request("--class", "catt", "-o", "n.npz"), code=2)
        self.golden("error-option", "forget", "head.npz", "--klass", "cat", code=2)
        two = ["--class", "ant", "fox", "-o", "n.npz"]
        self.golden("error-word", *self.request(*two), code=2)
        here = ["--class", "ant", "-o", "data.npz", "--force"]
        self.golden("error-output", *self.request(*here), code=2)
        self.golden("error-data", "forget", "head.npz", "--class", "1", "-o", "n.npz", code=2)

    def test_limits_once(self):
        _, text = on_terminal(self.request("--class", "cat", "-o", "n.npz"), self.folder)
        self.assertNotIn("lawyers", text)
        # All of those in the receipt, and nothing else.
        code, text = on_terminal(["forget", "--limits"], self.folder)
        self.assertEqual(code, 0)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        receipt = json.loads((self.folder / "n.npz.receipt.json").read_text())
        told = " ".join(text.split()).split(": - ", 1)[1].split(" - ")
        self.assertEqual(told, receipt["limits"])

    def test_looks_only_where_they_show(self):
        words = self.request("--class", "cat", "--dry-run")
        _, plain = on_terminal(words, self.folder, NO_COLOR="1")
        self.assertNotIn("\x1b", plain)
        _, dumb = on_terminal(words, self.folder, TERM="dumb")
        self.assertEqual(dumb, plain)
        done = subprocess.run([OUBLI, *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertNotIn("\x1b", done.stdout)
        # One line per fact, however long.
        self.assertEqual(done.stdout.replace("\n", " "), plain.replace("\n", " "))
        _, narrow = on_terminal(words, self.folder, columns=40)
        prose = [line for line in LOOKS.sub("", narrow).splitlines() if not line.startswith("  ")]
        self.assertLessEqual(max(map(len, prose)), 40)

    def test_help_fits(self):
        for command in [], ["forget"], ["verify"], ["inspect"], ["audit"]:
            done = subprocess.run([OUBLI, *command, "--help"], capture_output=True, text=True)
            options = done.stdout.split("Examples:")[0]
            for line in options.splitlines():
                self.assertLessEqual(len(line), 80, (command, line))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
