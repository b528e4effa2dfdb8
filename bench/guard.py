#!/usr/bin/python3
"""bench/run guard: how often the guard against deleting the wrong person errs (docs/onnx.md).

Trains NETWORKS of each of four kinds on each of three data sets: three briefly, so that weak ones
are among them, and one as `oubli train` does unless told otherwise. Each is asked to forget on
DRAWS x 1000 test images (`oubli forget --dry-run`; every second network has its data set's mean and
standard deviation built in, as most published ones, and gets them as --mean and --std):
  honest         every class, everything as it should be; a refusal is false;
  prepared wrong ten ways; it is harm, and its acceptance is false, if the model loses more than 15
                 points of accuracy by it and more than a quarter of what it had;
  shifted        every class, all labels one further;
  swapped        every class, its label and that of another exchanged;
  permuted       every class, all labels permuted at random so that this one is another's;
and audits (`oubli audit`, of networks retrained without one class) the same of every class.
Requests are counted by data set and by how long networks were trained. OUBLI_DATA names the data
sets' folder; networks are kept in the folder NETWORKS_FOLDER, if it is given, and taken from there.
SCALE (default 1) multiplies NETWORKS."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

OUBLI = str(pathlib.Path(os.environ["OUBLI_BUILD"]) / "oubli")
NETWORKS = 2 * int(os.environ.get("SCALE", "1"))
DRAWS, DRAWN, CLASSES = 2, 1000, 10
FORGOTTEN = 3  # of audits
STATISTICS = {
    "mnist": ([0.1307], [0.3081]),
    "fashion-mnist": ([0.2860], [0.3530]),
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
}
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
SMALL = [
    {"kind": "conv", "units": 8, "kernel": 3},
    {"kind": "relu"},
    {"kind": "max_pool", "kernel": 2, "stride": 2},
    {"kind": "conv", "units": 16, "kernel": 3},
    {"kind": "relu"},
    {"kind": "max_pool", "kernel": 2, "stride": 2},
    {"kind": "dense", "units": 64},
    {"kind": "relu"},
]
RECIPE = ("recipe", 6)  # the network that the data set has by default
KINDS = (("mlp", 1), ("small", 1), ("small", 3), RECIPE)  # and epochs
MOST_POINTS, MOST_SHARE, MOST_FALSE = 0.15, 0.25, 0.02


def run(*words):
    return subprocess.run(
        [OUBLI, "-q", *map(str, words)], capture_output=True, text=True, check=False
    )


def done(*words):
    made = run(*words)
    assert made.returncode == 0, (words, made.stderr)
    return made


def train(folder, data, count, kind, epochs, *more):
    out = folder / "-".join([data, kind, str(epochs), *more]).replace("--", "")
    named = {"small": ["--network", folder / "small.json"], "recipe": []}
    network = named.get(kind, ["--network", kind])
    if len(list(out.glob("model-????.onnx"))) != count:
        done("train", data, *network, "--epochs", epochs, "--models", count, "-o", out, *more)
    return sorted(out.glob("model-????.onnx"))


def build_in(path, data):
    """The same network for inputs from which the mean was subtracted, and so on."""
    model = onnx.load(path)
    mean, std = (np.array(v, np.float32).reshape(1, -1, 1, 1) for v in STATISTICS[data])
    graph, name = model.graph, model.graph.input[0].name
    for node in graph.node:
        node.input[:] = ["raw" if n == name else n for n in node.input]
    graph.initializer.extend(
        [numpy_helper.from_array(std, "std"), numpy_helper.from_array(mean, "mean")]
    )
    graph.node.insert(0, helper.make_node("Add", ["scaled", "mean"], ["raw"]))
    graph.node.insert(0, helper.make_node("Mul", [name, "std"], ["scaled"]))
    out = path.with_suffix(".built.onnx")
    onnx.save(model, out)
    return out


def options(mean=None, std=None, scale=None):
    words = []
    for name, values in (("--mean", mean), ("--std", std), ("--scale", scale)):
        if values is not None:
            words.append(name + "=" + ",".join(f"{v:g}" for v in np.atleast_1d(values)))
    return words


def wrong_ways(data, built):
    """Name, options, what is done to the images; the right way is not among them."""
    colour = len(STATISTICS[data][0]) == 3

    def fit(values):
        return values if colour else [round(float(np.mean(values)), 4)]

    def coloured(x):
        return x[..., ::-1].copy() if colour else np.where(x > 127, 255, 0).astype(np.uint8)

    right = STATISTICS[data] if built else (None, None)
    other = map(fit, STATISTICS["cifar10"]) if data == "mnist" else STATISTICS["mnist"]
    ways = [
        ("pixels 0 to 255", options(scale=1), None),
        ("divided by 255 twice", options(*right, scale=1 / 255**2), None),
        ("mean .5, deviation .5", options([0.5], [0.5]), None),
        ("ImageNet's mean and deviation", options(*map(fit, IMAGENET)), None),
        ("another set's mean and deviation", options(*other), None),
        ("negative", options(*right), lambda x: 255 - x),
        ("rows and columns exchanged", options(*right), lambda x: x.swapaxes(1, 2).copy()),
        ("upside down", options(*right), lambda x: x[:, ::-1].copy()),
        ("red and blue exchanged, or black and white only", options(*right), coloured),
    ]
    if built:
        ways.append(("mean and deviation forgotten", [], None))
    else:
        ways.append(("mean and deviation twice", options(*STATISTICS[data]), None))
    return ways


def images_of(data, split="t10k"):
    folder = pathlib.Path(os.environ.get("OUBLI_DATA", pathlib.Path.home() / ".cache/oubli")) / data
    if data == "cifar10":
        rows = np.fromfile(folder / "test_batch.bin", np.uint8).reshape(-1, 3073)
        return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy(), rows[:, 0]
    x = np.fromfile(folder / f"{split}-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 28, 28)
    return x, np.fromfile(folder / f"{split}-labels-idx1-ubyte", np.uint8)[8:]


def label_maps(rng):
    """How labels are moved: every class, in three ways."""
    for c in range(CLASSES):
        yield "shifted", c, (np.arange(CLASSES) + 1) % CLASSES
        swapped = np.arange(CLASSES)
        other = (c + rng.integers(1, CLASSES)) % CLASSES
        swapped[[c, other]] = other, c
        yield "swapped", c, swapped
        permuted = rng.permutation(CLASSES)
        while permuted[c] == c:
            permuted = rng.permutation(CLASSES)
        yield "permuted", c, permuted


def trained(epochs):
    return f"{epochs} epoch{'s' if epochs > 1 else ''}"


class Table:
    """Requests and refusals, by what was wrong; `epochs` are those of the network."""

    def __init__(self):
        self.rows, self.examples, self.epochs = {}, [], None

    def add(self, data, what, refused, counts=True):
        for column in (data, self.epochs):
            row = self.rows.setdefault((what, column), [0, 0, 0])
            row[0] += 1
            row[1] += refused
            row[2] += counts and not refused

    def share(self, what, which):
        rows = [
            row
            for (name, column), row in self.rows.items()
            if (name, column in STATISTICS) == (what, True)
        ]
        return sum(row[which] for row in rows) / max(1, sum(row[0] for row in rows))


def refused(made, words):
    assert made.returncode in (0, 4), (words, made.returncode, made.stderr)
    if made.returncode == 4:
        assert "misaligned" in made.stderr or "wrongly made" in made.stderr, made.stderr
    return made.returncode == 4


def judge_network(model, data, built, folder, table, number):
    rng = np.random.default_rng(number)
    x, y = images_of(data)
    order = rng.permutation(len(y))
    right = options(*STATISTICS[data]) if built else []

    def ask(name, images, labels, c, how):
        file = folder / f"{number}-{name}.npz"
        np.savez(file, x=images, y=labels.astype(np.int64))
        words = ["forget", model, "--class", c, "--data", file, "--dry-run", *how]
        made = run(*words)
        return refused(made, words), words

    def accuracy(words):
        told = json.loads(done(*words, "--ignore-accuracy", "--json").stdout)
        return told["run"]["accuracy_before"]

    for draw in range(DRAWS):
        chosen = np.sort(order[draw * DRAWN : (draw + 1) * DRAWN])
        for c in range(CLASSES):
            no, words = ask("honest", x[chosen], y[chosen], c, right)
            table.add(data, "honest", no)
            if no:
                table.examples.append(run(*words).stderr.strip())
    chosen = np.sort(order[:DRAWN])
    good = accuracy(words)
    for i, (name, how, change) in enumerate(wrong_ways(data, built)):
        images = x[chosen] if change is None else change(x[chosen])
        no, words = ask("wrong", images, y[chosen], i % CLASSES, how)
        now = good if no else accuracy(words)
        harm = good - now > MOST_POINTS and good - now > MOST_SHARE * good
        table.add(data, name, no, harm)
        if harm:
            table.examples.append(f"accepted: {data}, {name}: {good:.3f} -> {now:.3f}")
    for name, c, moved in label_maps(rng):
        table.add(data, name, ask(name, x[chosen], moved[y[chosen]], c, right)[0])


def judge_audit(data, networks, folder, table):
    """Two networks that never saw the class, and two that did, cut."""
    rng = np.random.default_rng(1)
    retrained = train(networks, data, 2, *KINDS[1], "--without", str(FORGOTTEN))
    seen = train(networks, data, 2, *KINDS[1], "--seed", "77")

    def logits(models, name):
        made = []
        for i, model in enumerate(models):
            done("predict", model, "--data", data, "-o", folder / "z.npy", "--force")
            z = np.load(folder / "z.npy")[:2000]
            made.append(np.delete(z, FORGOTTEN, 1) if z.shape[1] == CLASSES else z)
        np.save(folder / name, np.stack(made))
        return folder / name

    words = [
        "audit",
        "--seen",
        logits(seen, "seen.npy"),
        "--unseen",
        logits(retrained, "unseen.npy"),
    ]
    words += ["--attack", "logistic", "--forgotten-only", "--bootstrap", 0, "--directions", 1]
    y = images_of(data)[1][:2000]

    def ask(what, labels, c):
        np.save(folder / "y.npy", labels.astype(np.int64))
        all_words = [*words, "--labels", folder / "y.npy", "--class", c]
        table.add(data, what, refused(run(*all_words), all_words))

    ask("audit: honest", y, FORGOTTEN)
    for name, c, moved in label_maps(rng):
        if name == "swapped" and c != FORGOTTEN and moved[FORGOTTEN] == FORGOTTEN:
            ask("audit: others swapped", moved[y], FORGOTTEN)
        elif c == FORGOTTEN and name != "swapped":
            ask(f"audit: {name}", moved[y], FORGOTTEN)
    for other in range(CLASSES):
        if other != FORGOTTEN:
            moved = np.arange(CLASSES)
            moved[[FORGOTTEN, other]] = other, FORGOTTEN
            ask("audit: swapped", moved[y], FORGOTTEN)


def report(table):
    sets = list(STATISTICS)
    lengths = [trained(n) for n in sorted({epochs for _, epochs in KINDS})]
    names = list(dict.fromkeys(name for name, _ in table.rows))
    print(f"| refused of asked | {' | '.join(sets + lengths)} | false |")
    print(f"|---|{'--:|' * (len(sets + lengths) + 1)}")
    for name in names:
        rows = [table.rows.get((name, data), [0, 0, 0]) for data in sets]
        honest = name.endswith("honest")
        false = sum(row[1] if honest else row[2] for row in rows)
        rows += [table.rows.get((name, length), [0, 0, 0]) for length in lengths]
        cells = " | ".join(f"{row[1]} of {row[0]}" if row[0] else "" for row in rows)
        print(f"| {name} | {cells} | {false} |")
    for line in table.examples:
        print(" ", line)
    honest = table.share("honest", 1)
    moved = sum(table.rows[(name, data)][2] for name in ("shifted", "swapped") for data in sets)
    print(f"false refusals: {honest:.4f} of honest requests, target <= {MOST_FALSE}: "
          f"{'met' if honest <= MOST_FALSE else 'MISSED'}")  # fmt: skip
    print(f"shifted or swapped labels of the forgotten class accepted: {moved}, target 0: "
          f"{'met' if moved == 0 else 'MISSED'}")  # fmt: skip
    return honest <= MOST_FALSE and moved == 0


def main():
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(os.environ.get("NETWORKS_FOLDER", name))
        folder.mkdir(parents=True, exist_ok=True)
        small = {"format": "oubli-network", "version": 1, "layers": SMALL}
        (folder / "small.json").write_text(json.dumps(small))
        number = 0
        for data in STATISTICS:
            for kind, epochs in KINDS:
                table.epochs = trained(epochs)
                for i, model in enumerate(train(folder, data, NETWORKS, kind, epochs)):
                    built = i % 2 == 1
                    model = build_in(model, data) if built else model
                    judge_network(model, data, built, pathlib.Path(name), table, number)
                    number += 1
                    print(f"{number} networks", file=sys.stderr)
            table.epochs = trained(KINDS[1][1])
            judge_audit(data, folder, pathlib.Path(name), table)
    return report(table)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
