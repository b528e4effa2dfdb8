"""The paper's attacks by scikit-learn on the logits of a run folder: what the checks share."""
import json
import os
import pathlib
import warnings

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

warnings.filterwarnings("ignore", category=FutureWarning)
TRAIN_SHARE = 0.7


def neighbours(_):
    return KNeighborsClassifier(5)


def forest(seed):
    return RandomForestClassifier(n_estimators=10, max_depth=5, random_state=seed)


def adaboost(seed, algorithm="SAMME.R"):
    return AdaBoostClassifier(n_estimators=50, algorithm=algorithm, random_state=seed)


ATTACKS = {"NN": neighbours, "RF": forest, "AB": adaboost}


def test_labels(data_set):
    """The classes of the test images, MNIST's or CIFAR-10's."""
    cache = pathlib.Path.home() / ".cache/oubli"
    folder = pathlib.Path(os.environ.get("OUBLI_DATA", cache)) / data_set
    if data_set == "cifar10":
        file = next(folder.rglob("test_batch.bin"))
        return np.fromfile(file, np.uint8).reshape(-1, 3073)[:, 0]
    return np.fromfile(next(folder.glob("t10k-labels*")), np.uint8)[8:]


def read_networks(run, prefix, without=None):
    """Networks x images x classes; `without` leaves a column out, as naive deletion does."""
    files = sorted((pathlib.Path(run) / "logits").glob(prefix + "-*.npy"))
    logits = np.stack([np.load(file) for file in files])
    return logits if without is None else np.delete(logits, without, axis=2)


def advantage(populations, images, make, *, seed, train=None, shown=100, chosen=True, mixed=True):
    """Of one attack on the images of one class.

    As many networks of either population are split as the smaller one has; `train` of the training
    networks are learned from. Each network shows `shown` images: drawn for it, or the first ones
    (not `chosen`). Training rows are in random order, or population by population (not `mixed`).
    """
    random = np.random.default_rng(seed)
    count = min(len(population) for population in populations)
    learned = round(TRAIN_SHARE * count)
    rows = {True: [], False: []}
    for population in populations:
        order = random.permutation(len(population))[:count]
        for part, networks in ((True, order[:learned][:train]), (False, order[learned:])):
            shows = [random.permutation(images) if chosen else images for _ in networks]
            rows[part].append(
                np.concatenate([population[n][s[:shown]] for n, s in zip(networks, shows)])
            )
    x, y = np.concatenate(rows[True]), np.repeat([1, 0], [len(part) for part in rows[True]])
    order = random.permutation(len(x)) if mixed else np.arange(len(x))
    model = make(seed).fit(x[order], y[order])
    right = [(model.predict(part) == (side == 0)).mean() for side, part in enumerate(rows[False])]
    return sum(right) - 1


def over_retained(populations, labels, forgotten, make, **options):
    """The mean advantage over retained classes."""
    retained = [label for label in np.unique(labels) if label != forgotten]
    return np.mean(
        [advantage(populations, np.flatnonzero(labels == c), make, **options) for c in retained]
    )


def print_growth(populations, labels, forgotten, shown, splits):
    """How nearest neighbours on retained classes depend on the number of training networks."""
    most = round(TRAIN_SHARE * min(len(population) for population in populations))
    for train in [n for n in (3, 7, 14, 21, 30, 42, 50, 70) if n < most] + [most]:
        found = [
            over_retained(
                populations, labels, forgotten, neighbours, seed=seed, train=train, shown=shown
            )
            for seed in range(1, splits + 1)
        ]
        print(
            f"nearest neighbours, retained classes, {train} + {train} training networks: "
            f"{np.mean(found):.3f} (mean of {splits} splits, {min(found):.3f} to {max(found):.3f})",
            flush=True,
        )


def print_splits(run, hidden):
    """The advantages in every split of `oubli reproduce --splits`, beside the paper's."""
    file = pathlib.Path(run) / "results.json"
    if not file.exists():
        return print(f"{file}: not there, so no splits to show")
    results = json.loads(file.read_text())
    cells = {
        (row["group"], row["keys"][0], row["keys"][2], cell["measure"]): cell["paper"]
        for table in results["tables"]
        for row in table["rows"]
        for cell in row["cells"]
        if "paper" in cell and row["group"] and row["keys"][1] == str(hidden)
    }
    names = {"nearest-neighbours": "NN", "forest": "RF", "adaboost": "AB"}
    for part in results["parts"]:
        for entry in part["methods"] if part["hidden"] == hidden else []:
            for group, inputs in (("unlearned", "forgotten"), ("remaining", "retained")):
                for attack in entry["audit"]["leaks"][inputs][0]["attacks"]:
                    samples = entry.get("samples", "-")
                    key = (group, entry["method"], samples, names.get(attack["attack"]))
                    values = np.array(attack.get("splits", {}).get("advantages", []))
                    if len(values) == 0 or key not in cells:
                        continue
                    print(
                        f"{group} {entry['method']} {samples} {key[3]}: mean of {len(values)} "
                        f"splits {values.mean():.3f}, {values.min():.3f} to {values.max():.3f}; "
                        f"paper {cells[key]:.3f}, as much or less in "
                        f"{(values <= cells[key]).sum()} splits"
                    )
