"""What tests of model formats have in common: running the program, the same head as .npz."""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

PROGRAM = sys.argv[1]


def run(*words, code=0, says=""):
    """Runs the program; wants its exit code and, in what it says, `says`."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{words}: exit {done.returncode}, wanted {code}\n{said}"
    assert says in said, f"{words}: wanted '{says}' in\n{said}"
    return said


class Head:
    """A head, features to calibrate with, and what forgetting a class makes of it as an .npz."""

    def __init__(self, folder, weights, bias, seed=0):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(seed)
        classes, features = weights.shape
        self.labels = np.arange(40 * classes) % classes
        # The head recognises its classes, as trained ones do.
        spread = np.linalg.norm(weights.astype("f8"), axis=1).max()
        wanted = 10 * spread * np.eye(classes) - (0 if bias is None else bias.astype("f8"))
        centres = (np.linalg.pinv(weights.astype("f8")) @ wanted.T).T
        self.samples = (
            centres[self.labels] + rng.normal(size=(len(self.labels), features))
        ).astype("f4")
        np.save(self.folder / "features.npy", self.samples)
        np.save(self.folder / "labels.npy", self.labels)
        arrays = dict(W=weights) if bias is None else dict(W=weights, b=bias)
        np.savez(self.folder / "head.npz", **arrays)
        self.data = [
            "--features",
            self.folder / "features.npy",
            "--labels",
            self.folder / "labels.npy",
        ]

    def forgotten(self, index, *options):
        """W and b (or None) of the .npz with the same head after the same request."""
        new = self.folder / "new.npz"
        run("forget", self.folder / "head.npz", "--class", index, "-o", new, "--force", *options)
        with np.load(new) as arrays:
            return arrays["W"], (arrays["b"] if "b" in arrays else None)


class Evil:
    """Pickled, it makes whoever loads it create the file that CANARY names."""

    def __reduce__(self):
        return os.system, ("touch " + os.environ["CANARY"],)


def canary_in(folder):
    os.environ["CANARY"] = str(folder / "canary")
    return folder / "canary"


def run_parts(parts):
    """Each in a folder of its own; of all, or of those that the command line names."""
    for part in parts:
        if len(sys.argv) > 2 and part.__name__ not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory(prefix="oubli-formats-") as folder:
            part(pathlib.Path(folder))
        print("ok", part.__name__, flush=True)
