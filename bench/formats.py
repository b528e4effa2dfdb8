"""bench/run formats [FOLDER]: forget from stored means in a .pth and an .h5 of 400 MB.

The peer is what no honest rewrite can leave out: digest the old file, copy it, wait for the disk,
digest the new file (sha256sum, cp, sync, sha256sum). Ours does that and finds the head, computes
the new one, checks it and looks for traces of the old. Rounds alternate; the medians are compared.
Peak memory is the resident set that the kernel counts, files that are mapped included. FOLDER: a
place on the disk to be measured [a temporary folder].
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OUBLI = pathlib.Path(os.environ["OUBLI_BUILD"]) / "oubli"
CLASSES, FEATURES, BODY, ROUNDS = 1000, 2048, 96, 3  # 96 layers of 1024 x 1024: 400 MB


def arrays():
    rng = np.random.default_rng(0)
    body = [rng.standard_normal((1024, 1024), dtype=np.float32) for _ in range(BODY)]
    weights = rng.standard_normal((CLASSES, FEATURES), dtype=np.float32) / 45
    return body, weights, np.zeros(CLASSES, np.float32)


def make_torch(path, body, weights, bias):
    state = {f"layers.{i}.weight": torch.from_numpy(w) for i, w in enumerate(body)}
    state |= {"fc.weight": torch.from_numpy(weights), "fc.bias": torch.from_numpy(bias)}
    torch.save(state, path)


def make_keras(path, body, weights, bias):
    """As Keras 2 saves weights and configuration of a Sequential model."""
    layers = [(f"dense_{i}", w) for i, w in enumerate(body)]
    head = "predictions"
    config = [
        {
            "class_name": "Dense",
            "config": {"name": name, "units": units, "activation": "linear", "use_bias": bias},
        }
        for name, units, bias in [(name, 1024, False) for name, _ in layers]
        + [(head, CLASSES, True)]
    ]
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"], file.attrs["backend"] = "2.15.0", "tensorflow"
        file.attrs["model_config"] = json.dumps(
            {"class_name": "Sequential", "config": {"name": "sequential", "layers": config}}
        )
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = np.array([name for name, _ in layers] + [head], "S")
        for name, kernel in layers:
            part = group.create_group(name)
            part.attrs["weight_names"] = np.array([f"{name}/kernel:0"], "S")
            part.create_dataset(f"{name}/kernel:0", data=kernel)
        part = group.create_group(head)
        part.attrs["weight_names"] = np.array([f"{head}/kernel:0", f"{head}/bias:0"], "S")
        part.create_dataset(f"{head}/kernel:0", data=np.ascontiguousarray(weights.T))
        part.create_dataset(f"{head}/bias:0", data=bias)


def run(words):
    """Seconds, and the peak resident set in MiB."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, words
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def peer(old, new):
    begin = time.perf_counter()
    for words in (["sha256sum", old], ["cp", old, new], ["sync", new], ["sha256sum", new]):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(old, means, folder):
    ours, theirs, peaks = [], [], []
    for _ in range(ROUNDS):
        new = folder / f"new{old.suffix}"
        taken, peak = run([OUBLI, "-q", "forget", old, "--class", 3, "--means", means, "-o", new])
        ours.append(taken)
        peaks.append(peak)
        for file in folder.glob(f"{new.name}*"):
            file.unlink()
        theirs.append(peer(old, folder / "copy"))
        (folder / "copy").unlink()
    mine, other, peak = statistics.median(ours), statistics.median(theirs), max(peaks)
    ratio = mine / other
    print(
        f"{old.suffix}, {old.stat().st_size >> 20} MiB: ours {mine:.2f} s, peer {other:.2f} s, "
        f"peak {peak:.0f} MiB, target below 300 {'met' if peak < 300 else 'MISSED'}; "
        f"ratio {ratio:.2f}x, target at most 3x {'met' if ratio <= 3 else 'MISSED'}",
        flush=True,
    )


# What makes the files runs apart: a child's peak begins with its parent's memory.
def make_files(folder):
    body, weights, bias = arrays()
    make_torch(folder / "old.pth", body, weights, bias)
    make_keras(folder / "old.h5", body, weights, bias)
    labels = np.repeat(np.arange(CLASSES), 3)
    noise = np.random.default_rng(1).standard_normal((len(labels), FEATURES), dtype=np.float32)
    np.save(folder / "f.npy", weights[labels] * 40 + noise)
    np.save(folder / "y.npy", labels)


if len(sys.argv) == 3 and sys.argv[1] == "--make":
    import h5py
    import numpy as np
    import torch

    make_files(pathlib.Path(sys.argv[2]))
else:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        where = pathlib.Path(name)
        subprocess.run([sys.executable, __file__, "--make", name], check=True)
        for model in (where / "old.pth", where / "old.h5"):
            run([OUBLI, "-q", "means", model, "--features", where / "f.npy", "--labels",
                 where / "y.npy", "-o", where / "means.npz", "--force"])  # fmt: skip
            measure(model, where / "means.npz", where)
