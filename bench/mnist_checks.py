#!/usr/bin/python3
"""bench/run mnist_checks RUN [OTHER...]: the questions that docs/reproduction.md asks of a finished
MNIST run folder.

before    On which test images is the paper's accuracy "before unlearning"?
baseline  How far apart do two batches of retrained networks lie by chance, measured as the paper
          measures its KS baseline? All retrained networks of the run are split at random into two
          halves, 50 times.
retained  Why are our advantages on retained classes higher than the paper's? The attacks are tried
          by scikit-learn, with more images, the same images, other orders and other versions of the
          attacks, with the second batch of retrained networks, and in the ten splits of the run.
          OTHER: run folders of other recipes (oubli reproduce mnist --epochs 5 --train-only --run
          OTHER), compared with as many networks of RUN.
splits    In how many of ten splits of the networks are the advantages as low as the paper's? By
          `oubli audit --splits 10`, with the images and the seed of the run; the targets of
          randomization are other ones.
growth    How do nearest neighbours on retained classes depend on the number of networks they learn
          from?

--only NAME answers one of them. The networks that saw everything are those of naive deletion.
"""
import argparse
import functools
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import peer_attacks as peer
from sklearn.ensemble import RandomForestClassifier

FORGOTTEN = 0
# Table VIII: nearest neighbours, forest, AdaBoost on the forgotten class, and on retained ones.
PAPER = {
    "naive": ((0.593, 0.609, 0.641), (0.048, 0.090, 0.098)),
    "normalization": ((0.327, 0.362, 0.438), (0.041, 0.089, 0.095)),
    "randomization": ((0.910, 0.869, 0.902), (0.116, 0.132, 0.133)),
    "zeroing": ((0.919, 0.886, 0.909), (0.119, 0.129, 0.132)),
}


def accuracy_before(run, labels):
    right = peer.read_networks(run, "mlp50-seen").argmax(2) == labels
    for name, chosen in (
        ("all images", labels >= 0),
        ("retained classes", labels > 0),
        ("zeros", labels == 0),
    ):
        accuracy = 100 * right[:, chosen].mean(1)
        print(
            f"accuracy before unlearning, {name}: {accuracy.mean():.2f} +- "
            f"{accuracy.std(ddof=1):.2f} (paper 97.1 +- 0.19)"
        )


def baseline(run, labels):
    networks = np.concatenate(
        [peer.read_networks(run, "mlp50-unseen-0"), peer.read_networks(run, "mlp50-second-0")]
    )
    generator = np.random.default_rng(0)
    half = len(networks) // 2
    for name, label in (("zeros, forgotten", 0), ("ones, retained", 1)):
        images = np.flatnonzero(labels == label)[:300]
        directions = generator.normal(size=(60, networks.shape[2]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        projected = networks[:, images] @ directions.T.astype(np.float32)
        owner = projected.reshape(-1, len(directions)).argsort(0) // len(
            images
        )  # network of each sorted value
        found = []
        for _ in range(50):
            side = np.full(len(networks), -1.0)
            side[generator.permutation(len(networks))[:half]] = 1
            found.append(np.abs(np.cumsum(side[owner] / (half * len(images)), 0)).max(0).mean())
        low, middle, high = np.quantile(found, [0.05, 0.5, 0.95])
        print(
            f"KS of {half} against {half} retrained networks, {name}: median {middle:.3f}, 90 % "
            f"of splits in {low:.3f} to {high:.3f}"
        )


def print_retained(what, populations, labels, attacks, splits, **options):
    cells = []
    for name, make in attacks.items():
        found = [
            peer.over_retained(populations, labels, FORGOTTEN, make, seed=seed, **options)
            for seed in range(1, splits + 1)
        ]
        cells.append(f"{name} {np.mean(found):.3f}")
    networks = " + ".join(str(len(population)) for population in populations)
    print(f"retained classes, {what}, {networks} networks: {', '.join(cells)}", flush=True)


def read_pair(run, unseen="mlp50-unseen-0"):
    return [
        peer.read_networks(run, "mlp50-seen", without=FORGOTTEN),
        peer.read_networks(run, unseen),
    ]


def retained(run, others, labels, splits):
    paper = zip(peer.ATTACKS, PAPER["naive"][1])
    print("retained classes, the paper: " + ", ".join(f"{k} {v:.3f}" for k, v in paper))
    print(f"Means of {splits} splits by scikit-learn; naive deletion.")
    populations = read_pair(run)
    every = functools.partial(print_retained, populations=populations, labels=labels, splits=splits)
    every("100 images of each network", attacks=peer.ATTACKS)
    every("150 images", attacks=peer.ATTACKS, shown=150)
    every("the first 100 images, the same for all", attacks=peer.ATTACKS, chosen=False)
    every("seen networks first", attacks={"NN": peer.neighbours}, mixed=False)
    every("AdaBoost by SAMME", attacks={"AB": functools.partial(peer.adaboost, algorithm="SAMME")})

    def every_feature(seed):
        return RandomForestClassifier(10, max_depth=5, max_features=None, random_state=seed)

    every("a forest that tries every feature", attacks={"RF": every_feature})
    second = read_pair(run, "mlp50-second-0")
    some = [population[: len(second[1])] for population in populations]
    if len(second[1]) < len(populations[1]):
        print_retained("fewer networks", some, labels, peer.ATTACKS, splits)
    second[0] = second[0][: len(second[1])]
    print_retained("the second retrained batch", second, labels, peer.ATTACKS, splits)
    for other in others:
        epochs = json.loads((pathlib.Path(other) / "run.json").read_text())["epochs"]
        theirs = read_pair(other)
        count = min(len(population) for population in theirs)
        for name, pair in (("six", populations), (epochs, theirs)):
            some = [population[:count] for population in pair]
            print_retained(f"{name} epochs", some, labels, peer.ATTACKS, splits)
    peer.print_splits(run, 50)


def unlearned(logits, labels, method, seed):
    """Networks x images x retained classes, as the paper has it (docs/method.md, sections 1, 2)."""
    classes = logits.shape[2]
    retained = np.delete(np.arange(classes), FORGOTTEN)
    random = np.random.default_rng(seed)
    out = np.empty((*logits.shape[:2], classes - 1), np.float32)
    for network, before in enumerate(logits):
        before = before.astype(np.float64)
        means = np.stack([before[labels == c].mean(0) for c in range(classes)], axis=1)
        own = means[retained, FORGOTTEN]
        target = {
            "naive": own,
            "normalization": own - own.mean() + means[np.ix_(retained, retained)].mean(),
            "randomization": random.normal(size=classes - 1),
            "zeroing": np.zeros(classes - 1),
        }[method]
        # A row of the inverse: 1 for the forgotten class's mean, 0 for the others.
        dual = np.linalg.inv(means)[FORGOTTEN]
        out[network] = before[:, retained] + np.outer(before @ dual, target - own)
    return out


def audit_in_splits(seen, unseen, labels, splits):
    """By the paper's attacks on logits, with the images and the seed of the run."""
    program = os.environ.get("OUBLI") or os.environ["OUBLI_BUILD"] + "/oubli"
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "--quiet", "audit", "--class", str(FORGOTTEN), "--seed", "1", "--json"]
        files = {"seen": seen, "unseen": unseen, "labels": labels.astype(np.uint32)}
        for name, values in files.items():
            np.save(f"{folder}/{name}.npy", values)
            words += [f"--{name}", f"{folder}/{name}.npy"]
        words += ["--attack", "nearest-neighbours,forest,adaboost", "--observer", "logits"]
        words += ["--images", "150", "--images-retained", "100", "--directions", "0"]
        words += ["--jobs", "1", "--bootstrap", "100", "--splits", str(splits)]
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)["leaks"]


def splits_of(run, labels, splits):
    logits, unseen = (peer.read_networks(run, f"mlp50-{name}") for name in ("seen", "unseen-0"))
    for method, cells in PAPER.items():
        seen = unlearned(logits, labels, method, seed=1)
        leaks = audit_in_splits(seen, unseen, labels, splits)
        for inputs, paper in zip(("forgotten", "retained"), cells):
            for attack, value in zip(leaks[inputs][0]["attacks"], paper):
                found, mean = attack["splits"]["advantages"], attack["splits"]["mean"]
                print(
                    f"{inputs} classes, {method}, {attack['attack']}: mean of {splits} splits "
                    f"{mean['value']:.3f} [{mean['low']:.3f}, {mean['high']:.3f}], first "
                    f"{found[0]:.3f}, {min(found):.3f} to {max(found):.3f}; paper {value:.3f}, as "
                    f"much or less in {sum(one <= value for one in found)}",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("others", metavar="OTHER", nargs="*")
    parser.add_argument("--only", choices=("before", "baseline", "retained", "splits", "growth"))
    parser.add_argument("--splits", type=int, default=3, help="of the networks; 3")
    chosen = parser.parse_args()
    labels = peer.test_labels("mnist")
    if chosen.only in (None, "before"):
        accuracy_before(chosen.run, labels)
    if chosen.only in (None, "baseline"):
        baseline(chosen.run, labels)
    if chosen.only in (None, "retained"):
        retained(chosen.run, chosen.others, labels, chosen.splits)
    if chosen.only in (None, "splits"):
        splits_of(chosen.run, labels, 10)
    if chosen.only in (None, "growth"):
        peer.print_growth(read_pair(chosen.run), labels, FORGOTTEN, 100, chosen.splits)


if __name__ == "__main__":
    main()
