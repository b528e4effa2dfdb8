#!/usr/bin/python3
"""bench/run reproduce: `oubli reproduce mnist` at full size (100 + 100 + 100 networks, 11 audits)
against PyTorch + scikit-learn + SciPy doing the same, per core.

Both sides run a few networks and one audit, on one thread, measured in CPU time (other processes
share the machine), and are scaled by counts: 300 networks of 6 epochs, 100 refitted heads, 11
audits of 10 classes, each with 5-NN, 10 trees of depth 5, 50 stumps and KS over 1000 directions,
logits observed. The audit's populations are the networks' logits with noise added, 100 + 100 of
them, so that both sides work on the true number of points.

bench/run reproduce --before PROGRAM [MODELS]: instead, the whole of `oubli reproduce mnist` (MODELS
networks of each population, default 100) against an earlier version of the program, each with its
own defaults, in turn: processor seconds of the training, of the audits, and of both. Target: at
most 1.25 times as much.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
import torch
from scipy.stats import ks_2samp
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

NETWORKS, AUDITS, MODELS, TRAIN = 300, 11, 100, 70
BASE = 2  # networks per population that are really trained
build = Path(os.environ.get("OUBLI_BUILD", "build/bench"))
torch.set_num_threads(1)


def ours(*arguments, program=build / "oubli"):
    """CPU seconds of one oubli command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "-q", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timed(function):
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def mnist(split):
    folder = Path(os.environ.get("OUBLI_DATA", Path.home() / ".cache/oubli")) / "mnist"
    images = np.fromfile(next(folder.glob(f"{split}-images*")), np.uint8)[16:].reshape(-1, 784)
    labels = np.fromfile(next(folder.glob(f"{split}-labels*")), np.uint8)[8:]
    return images, labels


def fit(network, x, y):
    """6 epochs, batch 32, Adam; batches gathered by index, which is faster than a DataLoader."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(6):
        order = torch.randperm(len(x))
        for begin in range(0, len(x), 32):
            batch = order[begin : begin + 32]
            optimizer.zero_grad(set_to_none=True)
            loss(network(x[batch]), y[batch]).backward()
            optimizer.step()


def peer_networks():
    """CPU seconds of training one network and predicting, and of refitting one head."""
    images, labels = mnist("train")
    x = torch.from_numpy(images).float().div_(255)
    y = torch.from_numpy(labels).long()
    test = torch.from_numpy(mnist("t10k")[0]).float().div_(255)
    network = torch.nn.Sequential(
        torch.nn.Linear(784, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10)
    )

    def train():
        fit(network, x, y)
        with torch.no_grad():
            return network(test)

    def refit():
        head = torch.nn.Linear(50, 9)
        with torch.no_grad():
            network(x)  # the class means of the training data
            features = network[:2](x[y > 0])
        fit(head, features, y[y > 0] - 1)
        with torch.no_grad():
            return head(network[:2](test))

    return timed(train)[0], timed(refit)[0]


def populations(run, folder):
    """100 + 100 models of 10,000 x 9 logits from the few that were trained."""
    generator = np.random.default_rng(1)
    result = []
    for name, pattern, first in (("seen", "mlp50-seen-*", 1), ("unseen", "mlp50-unseen-0-*", 0)):
        base = [np.load(f)[:, first:] for f in sorted((run / "logits").glob(pattern + ".npy"))]
        models = np.stack(
            [base[i % len(base)] + generator.normal(0, 0.5, base[0].shape) for i in range(MODELS)]
        )
        result.append(models.astype(np.float32))
        np.save(folder / f"{name}.npy", result[-1])
    return result


def peer_class(seen, unseen, images):
    """CPU seconds of the four measurements on one class, at the paper's sizes."""
    generator = np.random.default_rng(2)
    pick = np.sort(generator.choice(seen.shape[1], images, replace=False))
    rows = lambda models: models[:, pick].reshape(-1, models.shape[2])
    x = np.concatenate([rows(seen[:TRAIN]), rows(unseen[:TRAIN])])
    y = np.repeat([0, 1], len(x) // 2)
    test = np.concatenate([rows(seen[TRAIN:]), rows(unseen[TRAIN:])])
    seconds = {}
    for name, attack in (
        ("5-NN", KNeighborsClassifier(5)),
        ("forest", RandomForestClassifier(n_estimators=10, max_depth=5)),
        ("AdaBoost", AdaBoostClassifier(n_estimators=50)),
    ):
        seconds[name] = timed(lambda: attack.fit(x, y).predict(test))[0]
    directions = generator.normal(size=(50, seen.shape[2])).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    first, second = seen.reshape(-1, seen.shape[2]), unseen.reshape(-1, seen.shape[2])
    seconds["KS"] = (
        1000 / 50 * timed(lambda: [ks_2samp(first @ d, second @ d) for d in directions])[0]
    )
    return seconds


def line(case, own, peer, target):
    print(f"{case:<44} {own:10.2f} s {peer:12.2f} s {peer / own:8.1f}x   {target}", flush=True)


def against_before(before, models):
    """What is trained stays for the audits, so that each part is measured alone."""
    print(f"{'processor seconds':<17} {'before':>12} {'now':>12} {'ratio':>8}   target")
    with tempfile.TemporaryDirectory() as temporary:
        totals = [0.0, 0.0]
        for part, options in (("training", ["--train-only"]), ("audits", [])):
            times = []
            for version, program in enumerate((before, build / "oubli")):
                run = Path(temporary) / str(version)
                times.append(
                    ours("reproduce", "mnist", "--models", models, "--run", run, *options,
                         program=program)
                )  # fmt: skip
                totals[version] += times[-1]
            print(f"{part:<17} {times[0]:12.1f} {times[1]:12.1f} {times[1] / times[0]:8.2f}",
                  flush=True)  # fmt: skip
        ratio = totals[1] / totals[0]
        print(f"{'the whole':<17} {totals[0]:12.1f} {totals[1]:12.1f} {ratio:8.2f}   "
              f"at most 1.25: {'met' if ratio <= 1.25 else 'MISSED'}")  # fmt: skip


def main():
    print(f"{'case (CPU seconds, one core)':<44} {'ours':>12} {'peer':>14} {'ratio':>9}   target")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = folder / "run"
        train = ours(
            "reproduce", "mnist", "--models", BASE, "--jobs", 1, "--train-only", "--run", run
        )
        per_network = train / (3 * BASE)  # a third of them with class means and a refitted head
        network, refit = peer_networks()
        peer_network = network + refit / 3
        line("one network, a third of a refitted head", per_network, peer_network, "")

        seen, unseen = populations(run, folder)
        labels = mnist("t10k")[1]
        np.save(folder / "labels.npy", labels.astype(np.int64))
        common = [
            "audit",
            "--seen",
            folder / "seen.npy",
            "--unseen",
            folder / "unseen.npy",
            "--labels",
            folder / "labels.npy",
            "--class",
            0,
            "--images",
            150,
            "--images-retained",
            100,
            "--jobs",
            1,
        ]
        same = [
            "--attack",
            "nearest-neighbours,forest,adaboost",
            "--observer",
            "logits",
            "--bootstrap",
            0,
        ]
        audit = ours(*common, *same)
        forgotten = peer_class(seen[:, labels == 0], unseen[:, labels == 0], 150)
        retained = peer_class(seen[:, labels == 1], unseen[:, labels == 1], 100)
        for name in forgotten:
            print(
                f"  peer, one class: {name:<10} {forgotten[name]:8.2f} s forgotten, "
                f"{retained[name]:8.2f} s retained"
            )
        peer_audit = sum(forgotten.values()) + 9 * sum(retained.values())
        line("one audit: 10 classes, 3 attacks, KS, logits", audit, peer_audit, "")
        line(
            "reproduce mnist: 300 networks, 11 audits",
            NETWORKS * per_network + AUDITS * audit,
            NETWORKS * peer_network + AUDITS * peer_audit,
            "5x",
        )
        everything = ours(*common)
        print(
            f"  ours with three observers, logistic regression and intervals: {everything:.2f} s "
            "per audit, "
            f"{(NETWORKS * per_network + AUDITS * everything) / 60:.1f} core-minutes for the whole"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", metavar="PROGRAM")
    parser.add_argument("models", nargs="?", type=int, default=MODELS)
    chosen = parser.parse_args()
    sys.exit(against_before(chosen.before, chosen.models) if chosen.before else main())
