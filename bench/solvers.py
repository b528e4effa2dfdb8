#!/usr/bin/python3
"""bench/run solvers: what every solver makes of trained heads, and which of them `auto` takes.

docs/method.md, section 4, holds the table: the evidence for the thresholds in
oubli/filtration/solver_choice.cpp. One line per head and solver:
  conditioning, gain   as `oubli forget` reports them
  residual             the largest |g(m_j) - [j is forgotten]| over all classes j
  halves               the new logits solved from one half of the data against those from the other
                       half: root mean square difference over root mean square deviation of the
                       logits. Large: noise was fitted.
  ghost, read-out      leak of the forgotten class in the new logits (AUC, docs/method.md section 5)
The last heads are one softmax regression whose rows' common part is scaled down. That part does not
change the softmax, so training never touches it and weight decay shrinks it: the family is the same
training, with weight decay for longer.
"""
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

OUBLI = Path(os.environ["OUBLI_BUILD"]) / "oubli"
FORGET = "0"
SMALL = {
    "format": "oubli-network",
    "version": 1,
    "layers": [{"kind": "dense", "units": 30}, {"kind": "sigmoid"}],
}
SGD = ["--optimizer", "sgd", "--learning-rate", "0.05", "--weight-decay", "0.001"]
TRAINED = [  # name, data, options of oubli train
    ("MNIST, MLP, Adam", "mnist", ["--network", "mlp"]),
    ("MNIST, MLP, SGD, decay 1e-3", "mnist", ["--network", "mlp", *SGD]),
    ("Fashion-MNIST, MLP, Adam", "fashion-mnist", ["--network", "mlp"]),
    ("CIFAR-10, CNN p=64, Adam", "cifar10", ["--network", "cnn", "--features", "64"]),
    ("faces, residual, Adam", "faces", ["--network", "residual"]),
    ("faces, 30 features, 40 classes", "faces", ["--network", "small.json", "--epochs", "60"]),
]


def oubli(*arguments):
    done = subprocess.run([OUBLI, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip().splitlines()[-1:]


def must(*arguments):
    code, out, error = oubli(*arguments)
    if code != 0:
        raise SystemExit(f"oubli {' '.join(map(str, arguments))}: exit code {code}: {error}")
    return out


def trained_head(data, options):
    """W, b, features and labels of the test set."""
    must("train", data, *options, "--seed", 1, "-o", "model.onnx", "--force")
    must(
        "predict",
        "model.onnx",
        "--data",
        data,
        "--features",
        "f.npy",
        "--labels",
        "y.npy",
        "-o",
        "z.npy",
        "--force",
    )
    model = onnx.load("model.onnx")
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    head = next(node for node in model.graph.node if node.output[0] == model.graph.output[0].name)
    assert head.op_type == "Gemm", head.op_type
    W, b = (stored[name] for name in head.input[1:3])
    features, labels = np.load("f.npy").astype(np.float32), np.load("y.npy")
    W = W if W.shape == (len(b), features.shape[1]) else W.T
    assert np.allclose(features @ W.T + b, np.load("z.npy"), atol=1e-3)
    return W, b, features, labels


def softmax_regression(features, labels, classes, rng):
    """From zero by SGD with weight decay: its rows sum to zero."""
    W, b = np.zeros((classes, features.shape[1])), np.zeros(classes)
    for epoch in range(20):
        order = rng.permutation(len(labels))
        for batch in np.array_split(order, len(order) // 32):
            z = features[batch] @ W.T + b
            p = np.exp(z - z.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(batch)), labels[batch]] -= 1
            W -= 0.02 * (p.T @ features[batch] / len(batch) + 1e-3 * W)
            b -= 0.02 * p.mean(0)
    return W, b


def auc(leak, figure):
    return (
        f"{leak[figure]['chosen']:6.3f}" if figure in leak else "     -"
    )  # too few samples of the class


def measure(head_name, W, b, features, labels, rng):
    np.savez("head.npz", weight=W.astype(np.float32), bias=b.astype(np.float32))
    logits = features @ W.T.astype(np.float32) + b.astype(np.float32)
    half = rng.permutation(len(labels)) % 2 == 0
    for part, chosen in (("all", half | True), ("one", half), ("two", ~half)):
        np.save(f"features-{part}.npy", features[chosen])
        np.save(f"logits-{part}.npy", logits[chosen].astype(np.float32))
        np.save(f"labels-{part}.npy", labels[chosen].astype(np.int64))
    cases = [
        ("paper", "features"),
        ("paper", "logits"),
        ("affine", "features"),
        ("logit-affine", "logits"),
        ("ridge", "features"),
        ("auto", "features"),
        ("auto", "logits"),
    ]
    for solver, space in cases:
        given = lambda part: [
            "--class",
            FORGET,
            f"--{space}",
            f"{space}-{part}.npy",
            "--labels",
            f"labels-{part}.npy",
        ]
        line = f"{head_name:34} {solver:12} {space:8} "
        code, out, error = oubli(
            "forget", "head.npz", *given("all"), "--solver", solver, "--dry-run", "--json"
        )
        if code != 0:
            print(line, f"refused: {error[0][:90] if error else code}", flush=True)
            continue
        receipt = json.loads(out)
        report = receipt["solver"]
        leak = next(row for row in receipt["leak_check"]["rows"] if row["observer"] == "logits")
        new = []
        for part in ("one", "two"):
            must(
                "forget",
                "head.npz",
                *given(part),
                "--solver",
                report["chosen"],
                "-o",
                f"new-{part}.npz",
                "--force",
            )
            written = np.load(f"new-{part}.npz")
            new.append(features.astype(float) @ written["weight"].T.astype(float) + written["bias"])
        halves = np.sqrt(((new[0] - new[1]) ** 2).mean() / ((new[0] - new[0].mean(0)) ** 2).mean())
        print(
            line,
            f"{report['conditioning']:8.1e} {max(report['gain']):8.2g}",
            f"{max(report['residual_forgotten'], report['residual_retained']):8.1e} {halves:8.3f}",
            f"{auc(leak, 'ghost_logit')} {auc(leak, 'linear_readout')}",
            f"  {report['chosen'] if solver == 'auto' else ''}",
            flush=True,
        )


def main():
    print(
        f"{'head':34} {'solver':12} {'means of':8}  conditio     gain residual   halves  ghost   "
        "read   auto took"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("small.json").write_text(json.dumps(SMALL))
        rng = np.random.default_rng(1)
        for name, data, options in TRAINED:
            W, b, features, labels = trained_head(data, options)
            measure(name, W, b, features, labels, rng)
            if name == TRAINED[0][0]:
                kept = W, b, features, labels
        W, b, features, labels = kept
        zero, zero_bias = softmax_regression(features, labels, len(b), rng)
        for scale in (1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0):
            common = scale * W.mean(0)
            measure(
                f"regression, common part x {scale:g}",
                zero + common,
                zero_bias + scale * b.mean(),
                features,
                labels,
                rng,
            )


if __name__ == "__main__":
    main()
