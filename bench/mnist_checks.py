#!/usr/bin/python3
"""bench/run mnist_checks RUN: two questions that docs/reproduction.md asks of a finished MNIST run
folder.

1. On which test images is the paper's accuracy "before unlearning"?
2. How far apart do two batches of 100 retrained networks lie by chance, measured as the paper
   measures its KS baseline? All retrained networks of the run are split at random into two halves,
   50 times.
"""
import os
import sys
from pathlib import Path

import numpy as np


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench/run mnist_checks RUN")
    logits = Path(sys.argv[1]) / "logits"
    folder = Path(os.environ.get("OUBLI_DATA", Path.home() / ".cache/oubli")) / "mnist"
    labels = np.fromfile(next(folder.glob("t10k-labels*")), np.uint8)[8:]

    right = np.array(
        [np.load(f).argmax(1) == labels for f in sorted(logits.glob("mlp50-seen-*.npy"))]
    )
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

    files = sorted(logits.glob("mlp50-unseen-0-*.npy")) + sorted(
        logits.glob("mlp50-second-0-*.npy")
    )
    networks = [np.load(f) for f in files]
    generator = np.random.default_rng(0)
    half = len(networks) // 2
    for name, label in (("zeros, forgotten", 0), ("ones, retained", 1)):
        images = np.flatnonzero(labels == label)[:300]
        directions = generator.normal(size=(60, networks[0].shape[1]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        projected = np.stack([n[images] for n in networks]) @ directions.T.astype(np.float32)
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


if __name__ == "__main__":
    main()
