"""bench/run train [ROUNDS [CASE ...]]: training and inference against PyTorch, one core, same
network, data and batch. Cases: mlp cnn64 cnn256 cnn1024 residual workers; all unless some are
named. The word `training` leaves inference out.

Rates are samples per second of processor time, the median over rounds in which ours and PyTorch's
runs alternate. PyTorch's inference is the best of channels first and last and several batch sizes.
`share` is the rate times the multiply-adds of the network over the measured sgemm peak of the core.
Two workers are two threads that train a network each, as `oubli train --jobs 2` does; their scaling
is compared with that of two sgemm processes pinned to a core each, measured just before.
"""
import os
import statistics
import subprocess
import sys

PROGRAM = os.path.join(os.environ["OUBLI_BUILD"], "train_bench")
HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
CHOSEN = [word for word in sys.argv[2:] if word != "training"]
KINDS = ("train",) if "training" in sys.argv[2:] else ("train", "infer")
CORES = sorted(os.sched_getaffinity(0))


def dense(i, o):
    return 2 * i * o


def conv(i, o, k, pixels):
    return 2 * i * o * k * k * pixels


def residual_layers():
    """Forward FLOP of each layer, first layer first."""
    layers = [conv(1, 8, 5, 112 * 92)]
    h, w, i = 112, 92, 8
    for o in (16, 32, 64, 128, 256):
        h, w = (h + 1) // 2, (w + 1) // 2
        layers += [conv(i, o, 3, h * w), conv(o, o, 3, h * w), conv(i, o, 3, h * w)]
        i = o
    return layers + [dense(256, 40)]


def cnn_layers(p):
    return [conv(3, 16, 3, 30 * 30), conv(16, 32, 3, 13 * 13), dense(1152, p), dense(p, 10)]


# name, layers, samples, batch, wanted ratio in training and in inference
CASES = [
    ("mlp", [dense(784, 50), dense(50, 10)], 20000, 32, 3.5, 1.3),
    ("cnn64", cnn_layers(64), 1600, 32, 2.0, 1.5),
    ("cnn256", cnn_layers(256), 1600, 32, 2.0, 1.5),
    ("cnn1024", cnn_layers(1024), 1600, 32, 2.0, 1.5),
    ("residual", residual_layers(), 80, 8, 1.5, 1.5),
]


def run(command, core=CORES[0]):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    found = subprocess.run(
        ["taskset", "-c", str(core)] + command,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(found.stdout.split()[0])


def peer(*words):
    return ["/usr/bin/python3", os.path.join(HERE, "peer_train.py")] + [str(w) for w in words]


def ours(*words):
    return [PROGRAM] + [str(w) for w in words]


def compare(kind, name, layers, samples, batch, target, peak):
    mine, theirs = [], []
    for _ in range(ROUNDS):
        mine.append(run(ours(kind, name, samples, batch)))
        theirs.append(run(peer(kind, name, samples, batch)))
    a, b = statistics.median(mine), statistics.median(theirs)
    # backward: weight gradients of all layers, input gradients of all but the first
    flop = sum(layers) if kind == "infer" else 3 * sum(layers) - layers[0]
    print(
        f"{kind} {name}: ours {a:.0f}/s, PyTorch {b:.0f}/s, ratio {a / b:.2f}, target {target}, "
        f"{100 * a * flop * 1e-9 / peak:.0f} % of sgemm peak",
        flush=True,
    )


def wall(cores, *words):
    """Work per second of wall-clock time, of one process per entry of cores."""
    processes = [
        subprocess.Popen(
            ["taskset", "-c", core] + ours("wall", 3, *words), stdout=subprocess.PIPE, text=True
        )
        for core in cores
    ]
    return sum(float(process.communicate()[0].split()[0]) for process in processes)


def two_workers(name, samples, batch):
    first, second = str(CORES[0]), str(CORES[1])
    found = []
    for _ in range(ROUNDS):
        sgemm = wall([first, second], "sgemm") / wall([first], "sgemm")
        training = wall([f"{first},{second}"], "train", name, samples, batch, 2) / wall(
            [first], "train", name, samples, batch
        )
        found.append((training / sgemm, training, sgemm))
    ratio, training, sgemm = sorted(found)[ROUNDS // 2]
    print(
        f"two workers {name}: ours x{training:.2f}, sgemm x{sgemm:.2f}, ratio {ratio:.2f} "
        f"({min(found)[0]:.2f} to {max(found)[0]:.2f}), target 0.95",
        flush=True,
    )


def main():
    peak = statistics.median(run(ours("sgemm")) for _ in range(ROUNDS))
    print(f"sgemm peak of one core: {peak:.1f} GFLOP/s", flush=True)
    for name, layers, samples, batch, train_target, infer_target in CASES:
        if CHOSEN and name not in CHOSEN:
            continue
        for kind, target in (("train", train_target), ("infer", infer_target)):
            if kind in KINDS:
                compare(kind, name, layers, samples, batch, target, peak)
    if CHOSEN and "workers" not in CHOSEN:
        return
    if len(CORES) < 2:
        print("two workers: skipped, one core only")
        return
    for name, _, samples, batch, _, _ in CASES:
        if name in ("mlp", "cnn64", "residual"):
            two_workers(name, samples, batch)


main()
