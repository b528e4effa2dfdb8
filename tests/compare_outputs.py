#!/usr/bin/python3
"""compare_outputs.py OLD NEW: do two builds of the program write the same bytes?

For changes that must not change results: run it once, with the program before and after. Both get
the same made-up data and models, and their networks, logits, audits, receipts, new models, run
folders and tables are compared byte for byte; and what becomes of model files of every format, of
signed evidence, pages about receipts and audits, help and refusals. Both must be built with the
same flags. The page of a run is not compared.
"""

import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CLASSES = 10


def make_data(folder):
    """Ten classes, each with its own bright row; 600 images to train on, 200 to test."""
    random.seed(1)
    folder.mkdir(parents=True)
    for prefix, count in (("train", 600), ("t10k", 200)):
        labels = bytes(i % CLASSES for i in range(count))
        pixels = bytearray(random.randrange(160) for _ in range(count * 784))
        for i, label in enumerate(labels):
            for x in range(28):
                pixels[i * 784 + (2 * label + 4) * 28 + x] = 200
        images = struct.pack(">IIII", 0x803, count, 28, 28) + pixels
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + labels
        )


def run(program, folder, *words):
    done = subprocess.run([program, "-q", *words], cwd=folder, capture_output=True)
    if done.returncode != 0:
        sys.exit(f'{program} {" ".join(words)}: exit {done.returncode}: {done.stderr.decode()}')
    return done.stdout


def train(program, folder):
    without = ["--without", "3"]
    for name, first, rest in (("seen", 0, []), ("unseen", 10, without), ("second", 20, without)):
        options = ["--models", "4", "--epochs", "1", "--jobs", "1", "--model", str(first), *rest]
        run(program, folder, "train", "mnist", *options, "-o", name)


def predict(program, folder):
    for name in ("seen", "unseen", "second"):
        for model in range(4):
            run(
                program,
                folder,
                "predict",
                f"{name}/model-{model:04}.onnx",
                "--data",
                "mnist",
                "-o",
                f"{name}-{model}.npy",
                "--features",
                f"{name}-{model}-f.npy",
                *(["--labels", "y.npy", "--force"] if name == "seen" else []),
            )


def forget(program, folder):
    """Requests on one ONNX file and one head, by all methods, solvers and sources of means."""
    (folder / "out").mkdir()
    for method in ("naive", "normalization", "randomization", "zeroing", "centre"):
        run(
            program,
            folder,
            "forget",
            "seen/model-0000.onnx",
            "--class",
            "3",
            "--method",
            method,
            "--data",
            "mnist",
            "-o",
            f"out/{method}.onnx",
        )
        run(
            program,
            folder,
            "forget",
            "head.npz",
            "--class",
            "3",
            "--class",
            "7",
            "--ignore-accuracy",  # a random head
            "--method",
            method,
            "--features",
            "seen-0-f.npy",
            "--labels",
            "y.npy",
            "--ignore-accuracy",  # the head was made up
            "-o",
            f"out/{method}.npz",
        )
    for solver, source in (
        ("paper", "logits"),
        ("logit-affine", "logits"),
        ("affine", "features"),
        ("ridge", "features"),
    ):
        data = "seen-1.npy" if source == "logits" else "seen-1-f.npy"
        run(
            program,
            folder,
            "forget",
            "seen/model-0001.onnx",
            "--class",
            "0",
            "--solver",
            solver,
            f"--{source}",
            data,
            "--labels",
            "y.npy",
            "-o",
            f"out/{solver}.onnx",
        )
    run(
        program,
        folder,
        "forget",
        "out/normalization.npz",
        "--class",
        "5",
        "--means",
        "out/normalization.npz.means.npz",
        "-o",
        "out/second.npz",
    )


def audit(program, folder):
    labels = np.load(folder / "y.npy")
    before = np.stack([np.load(folder / f"seen-{m}.npy") for m in range(4)])
    np.save(folder / "before.npy", before)
    np.save(folder / "after.npy", np.delete(before, 3, axis=2))
    for name in ("unseen", "second"):
        np.save(
            folder / f"{name}.npy",
            np.stack([np.load(folder / f"{name}-{m}.npy") for m in range(4)]),
        )
    assert len(labels) == 200
    common = (
        "audit",
        "--seen",
        "after.npy",
        "--unseen",
        "unseen.npy",
        "--labels",
        "y.npy",
        "--class",
        "3",
    )
    (folder / "audit.txt").write_bytes(run(program, folder, *common))
    everything = (
        "--unseen2",
        "second.npy",
        "--before",
        "before.npy",
        "--features",
        *(f"seen-{m}-f.npy" for m in range(4)),
        "--seed",
        "5",
    )
    (folder / "audit.json").write_bytes(
        run(program, folder, *common, *everything, "--json", "--csv", "audit.csv")
    )
    (folder / "few.json").write_bytes(
        run(
            program,
            folder,
            *common,
            "--forgotten-only",
            "--bootstrap",
            "0",
            "--attack",
            "forest",
            "--json",
        )
    )


def reproduce(program, folder):
    common = (
        "reproduce",
        "mnist",
        "--epochs",
        "1",
        "--models",
        "4",
        "--samples",
        "1,10,all",
        "--run",
        "run",
    )
    (folder / "tables.txt").write_bytes(run(program, folder, *common, "--each-class", "2"))
    (folder / "tables.md").write_bytes(run(program, folder, *common, "--markdown"))
    (folder / "results.json").write_bytes(run(program, folder, *common, "--json"))


def outcome(program, folder, *words):
    """What a command that may be refused says, and how it ends."""
    done = subprocess.run([program, *words], cwd=folder, capture_output=True)
    return b"exit %d\n" % done.returncode + done.stdout + done.stderr


def formats(program, folder):
    """Every seed of the fuzz tests of models: what it is, and what becomes of it. Some refuse."""
    (folder / "formats").mkdir()
    for kind in ("folder", "hdf5", "npy", "npz", "onnx", "pickle", "safetensors", "tflite"):
        for seed in sorted((Path(__file__).parent / "fuzz" / kind).iterdir()):
            copy = f"formats/{kind}-{seed.name}"
            (folder / copy).write_bytes(seed.read_bytes())
            said = outcome(program, folder, "inspect", copy, "--full")
            for method in ("naive", "centre"):
                options = ("--class", "1", "--method", method, "--full", "-o", f"{copy}-{method}")
                said += outcome(program, folder, "forget", copy, *options)
            (folder / f"{copy}.txt").write_bytes(said)


def evidence(program, folder, keys):
    """Signed receipts and statements, what checking them says, and the pages about them."""
    given = ("--features", "seen-0-f.npy", "--labels", "y.npy")
    for key in ("ed25519", "ecdsa-p256"):
        new = f"out/{key}.npz"
        options = ("--class", "3", "--ignore-accuracy", *given, "--sign", keys / key, "-o", new)
        said = outcome(program, folder, "forget", "head.npz", *options)
        public = f"{keys / key}.pub"
        for receipt in (f"out/{key}.npz.receipt.json", f"out/{key}.npz.intoto.jsonl"):
            checks = ("--key", public, "--original", "head.npz", *given, "--json")
            said += outcome(program, folder, "verify", receipt, "--model", new, *checks)
        (folder / f"{key}.txt").write_bytes(said)
    receipt = "out/ed25519.npz.receipt.json"
    run(program, folder, "report", receipt, "-o", "receipt.html")
    run(program, folder, "report", "audit.json", receipt, "--full", "-o", "both.html")


def texts(program, folder):
    """The help of every command, and some refusals."""
    commands = "inspect means forget keygen verify audit invert predict report reproduce sign"
    said = outcome(program, folder, "--help")
    for command in (*commands.split(), "status", "train"):
        said += outcome(program, folder, command, "--help")
        said += outcome(program, folder, command, "--jobs", "010", "--nothing")
    (folder / "texts.txt").write_bytes(said)


def contents(folder):
    """Every file that must be the same: no trials (times), run.json (the build) or its page."""
    skip = ("run/trials/", "run/underway/", "run/run.", "run/report.html")
    names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    return {name: (folder / name).read_bytes() for name in names if not name.startswith(skip)}


def main():
    programs = [os.path.abspath(p) for p in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        make_data(work / "data" / "mnist")
        os.environ["OUBLI_DATA"] = str(work / "data")
        (work / "keys").mkdir()
        for key in ("ed25519", "ecdsa-p256"):
            run(programs[0], work / "keys", "keygen", "--type", key, "-o", key)
        random_head = np.random.default_rng(1)
        outputs = []
        for name, program in zip(("old", "new"), programs):
            # The same path for both: receipts and messages may name files.
            folder = work / "place"
            folder.mkdir()
            train(program, folder)
            predict(program, folder)
            features = np.load(folder / "seen-0-f.npy").shape[1]
            if name == "old":
                head = {
                    "weight": random_head.normal(size=(CLASSES, features)).astype("float32"),
                    "bias": random_head.normal(size=CLASSES).astype("float32"),
                }
            np.savez(folder / "head.npz", **head)
            forget(program, folder)
            audit(program, folder)
            reproduce(program, folder)
            formats(program, folder)
            evidence(program, folder, work / "keys")
            texts(program, folder)
            outputs.append(contents(folder))
            folder.rename(work / name)
        old, new = outputs
        different = [
            name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)
        ]
        for name in different:
            print(f'{name}: {"differs" if name in old and name in new else "only in one"}')
            if name in old and name in new and name.endswith((".json", ".txt", ".csv", ".md")):
                lines = subprocess.run(
                    ["diff", work / "old" / name, work / "new" / name],
                    capture_output=True,
                    text=True,
                ).stdout.splitlines()
                print("\n".join(line[:200] for line in lines[:6]))
        print(f"{len(old)} files, {len(different)} differ")
        sys.exit(1 if different else 0)


main()
