"""bench/run attack: the attack models and the KS distance against scikit-learn and SciPy.

137,200 training and 58,800 test points of 9 features, drawn like the logits of one class from 100 +
100 networks of 980 images; KS over 1000 directions, 98,000 against 98,000 points. Both sides run on
one core with one thread; seconds are processor time, so that other work on the machine weighs on
neither. `--threads` compares two threads with one (wall clock: the machine must be idle);
`--growth` times 10^4 to 10^6 points and fits the exponent; `--memory` audits 200 models x 10,000
samples x 10 classes and prints the peak; names of cases run those alone. `per-image` is the attack
on 100 + 100 networks x 10,000 images x 10 classes, all observers, 1, 10 and 100 answers, against
the same in NumPy.
"""
import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import tempfile
import time

CASES = "nearest-neighbours forest strong-forest adaboost logistic ks per-image audit".split()
parser = argparse.ArgumentParser()
parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES) + "; all by default")
parser.add_argument("--threads", action="store_true")
parser.add_argument("--growth", action="store_true")
parser.add_argument("--memory", action="store_true")
arguments = parser.parse_args()
for case in arguments.cases:
    if case not in CASES:
        parser.error(f"no case '{case}'; there are {', '.join(CASES)}")
OURS = os.path.join(os.environ["OUBLI_BUILD"], "attack_bench")


def wanted(case):
    return not arguments.cases or case in arguments.cases


def ours(*words, repeat=3):
    runs = [
        json.loads(subprocess.run([OURS, *map(str, words)], check=True, capture_output=True).stdout)
        for _ in range(repeat)
    ]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def growth():
    sizes = [10_000, 31_623, 100_000, 316_228, 1_000_000]
    for name in ("nearest-neighbours", "forest", "strong-forest", "adaboost", "logistic", "ks"):
        if not wanted(name):
            continue
        seconds = [ours("grow", name, n, repeat=1)["cpu"] for n in sizes]
        x, y = [math.log(n) for n in sizes], [math.log(max(s, 1e-4)) for s in seconds]
        slope = sum(
            (a - statistics.mean(x)) * (b - statistics.mean(y)) for a, b in zip(x, y)
        ) / sum((a - statistics.mean(x)) ** 2 for a in x)
        print(
            f"{name}: "
            + ", ".join(f"{n} points {s:.3f} s" for n, s in zip(sizes, seconds))
            + f"; exponent {slope:.2f}",
            flush=True,
        )


def threads(folder):
    cases = {
        name: ("attack", folder, name)
        for name in ("nearest-neighbours", "forest", "strong-forest", "adaboost")
    }
    cases["ks"] = ("ks", folder)
    cases["audit"] = ("audit",)
    for name, words in cases.items():
        if not wanted(name):
            continue
        # In turn, so that a busy moment hits both, the short ones more often; the best of each,
        # because other work on the machine can only add time. The ratio of the medians beside it
        # tells how quiet it was.
        runs = [
            [ours(*words, workers, repeat=1)["wall"] for workers in (1, 2)]
            for _ in range(61 if name in ("forest", "adaboost") else 7)
        ]
        one, two = (min(run[i] for run in runs) for i in range(2))
        median = [statistics.median(run[i] for run in runs) for i in range(2)]
        print(
            f"{name}, two threads: {one:.3f} s -> {two:.3f} s, {one / two:.2f}x (medians "
            f"{median[0] / median[1]:.2f}x), "
            f"target 1.8x {'met' if one / two >= 1.8 else 'MISSED'}",
            flush=True,
        )


def memory(folder):
    """The audit holds one class at a time: its peak memory beside the size of what it reads."""
    rng = np.random.default_rng(0)
    for name in ("seen", "unseen"):
        np.save(f"{folder}/{name}.npy", rng.standard_normal((100, 10_000, 9), dtype=np.float32))
    np.save(f"{folder}/labels.npy", np.arange(10_000) % 10)
    size = sum(os.path.getsize(f"{folder}/{name}.npy") for name in ("seen", "unseen"))
    begin = time.perf_counter()
    subprocess.run(
        [
            os.path.join(os.environ["OUBLI_BUILD"], "oubli"),
            "audit",
            "--seen",
            f"{folder}/seen.npy",
            "--unseen",
            f"{folder}/unseen.npy",
            "--labels",
            f"{folder}/labels.npy",
            "--class",
            "0",
            "--directions",
            "100",
        ],
        check=True,
        capture_output=True,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"audit of 100 + 100 models, 10,000 samples, 10 classes: peak {peak:.0f} MiB, "
        f"{size / 2**20:.0f} MiB of it the mapped "
        f"logits; {time.perf_counter() - begin:.0f} s"
    )


def make_data(folder):
    def population(shift, seed):
        images, rng, d = np.random.default_rng(1), np.random.default_rng(seed), 9
        # Images differ in what they show (three dimensions) and in how clearly (a factor).
        base = images.normal(size=(980, 3)) @ images.normal(size=(3, d)) * 2 + images.normal(
            size=(980, d)
        )
        base = base * (0.5 + images.random((980, 1))) + 3 * images.normal(size=d)
        models = []
        for _ in range(100):
            mixing = np.eye(d) + 0.15 * rng.normal(size=(d, d))
            models.append(
                base @ mixing + rng.normal(size=d) + shift + 0.7 * rng.normal(size=(980, d))
            )
        return np.stack(models).astype(np.float32)

    shift = 0.5 * np.random.default_rng(3).normal(size=9) + 0.3
    seen, unseen = population(shift, 11), population(0, 12)
    for name, models in (("train", slice(0, 70)), ("test", slice(70, 100))):
        x = np.concatenate([seen[models].reshape(-1, 9), unseen[models].reshape(-1, 9)])
        np.save(os.path.join(folder, f"x_{name}.npy"), x)
        np.save(
            os.path.join(folder, f"y_{name}.npy"), np.repeat([1, 0], len(x) // 2).astype(np.uint8)
        )
    np.save(os.path.join(folder, "seen.npy"), seen.reshape(-1, 9))
    np.save(os.path.join(folder, "unseen.npy"), unseen.reshape(-1, 9))
    directions = np.random.default_rng(4).normal(size=(1000, 9))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    np.save(os.path.join(folder, "directions.npy"), directions.astype(np.float32))


def line(case, ours_s, peer_s, target, note):
    ratio = peer_s / ours_s
    print(
        f"{case}: ours {ours_s:.3f} s, peer {peer_s:.2f} s, ratio {ratio:.1f}x, target {target}x "
        f"{'met' if ratio >= target else 'MISSED'}; {note}",
        flush=True,
    )


def against_peers(folder):
    load = lambda name: np.load(os.path.join(folder, name + ".npy"))
    x, y, x_test, y_test = (load(n) for n in ("x_train", "y_train", "x_test", "y_test"))
    cases = (
        ("nearest-neighbours", lambda: KNeighborsClassifier(5), 10),
        ("forest", lambda: RandomForestClassifier(10, max_depth=5, random_state=0), 8),
        ("adaboost", lambda: AdaBoostClassifier(n_estimators=50, random_state=0), 50),
        ("logistic", lambda: LogisticRegression(), 1),
        ("strong-forest", lambda: RandomForestClassifier(100, random_state=0), 15),
    )
    for name, make, target in cases:
        if not wanted(name):
            continue
        mine = ours("attack", folder, name, 1)["cpu"]
        answers = load(name)
        begin = time.process_time()
        theirs = make().fit(x, y).predict(x_test)
        peer = time.process_time() - begin
        line(
            name,
            mine,
            peer,
            target,
            f"accuracy {np.mean(answers == y_test):.4f} and {np.mean(theirs == y_test):.4f}, "
            f"{np.sum(answers != theirs)} of {len(theirs)} answers differ",
        )
    if not wanted("ks"):
        return
    mine = ours("ks", folder, 1)
    seen, unseen, directions = load("seen"), load("unseen"), load("directions")
    begin = time.process_time()
    distances = [ks_2samp(seen @ phi, unseen @ phi, mode="asymp").statistic for phi in directions]
    peer = time.process_time() - begin
    line("ks", mine["cpu"], peer, 20, f"means {mine['mean']:.6f} and {np.mean(distances):.6f}")


def per_image(folder):
    rng = np.random.default_rng(5)
    images = rng.normal(size=(10_000, 10)).astype(np.float32) * 3
    gap = rng.normal(size=(10_000, 10)).astype(np.float32) * 0.3
    labels = np.arange(10_000) % 10
    both = []
    for name, shift in (("pi_seen", gap), ("pi_unseen", 0)):
        noise = rng.standard_normal((100, 10_000, 10), dtype=np.float32)
        both.append(images + shift + noise)
        np.save(os.path.join(folder, f"{name}.npy"), both[-1])
    mine = ours("per_image", folder)
    found = np.load(os.path.join(folder, "per_image.npy"))
    begin = time.process_time()
    theirs = peer_per_image.attack(*both, labels, 10, 70)
    peer = time.process_time() - begin
    # One answer needs no groups, which each draws in its own way.
    apart = np.abs(found - theirs)[:, :, 0].max()
    line(
        "per-image",
        mine["cpu"],
        peer,
        10,
        f"advantages of single answers differ by {apart:.1e} at most; peak {mine['peak']:.0f} MiB, "
        f"target below 300 {'met' if mine['peak'] < 300 else 'MISSED'}",
    )


if arguments.growth:
    growth()
    raise SystemExit
if not arguments.threads:
    os.sched_setaffinity(0, {0})
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
import numpy as np  # noqa: E402  (the thread count must be set first)
import sklearn  # noqa: E402
import scipy  # noqa: E402
from scipy.stats import ks_2samp  # noqa: E402
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
import peer_per_image  # noqa: E402

with tempfile.TemporaryDirectory() as temporary:
    if arguments.memory:
        memory(temporary)
        raise SystemExit
    make_data(temporary)
    if arguments.threads:
        threads(temporary)
    else:
        print(
            f"scikit-learn {sklearn.__version__}, SciPy {scipy.__version__}; one core, processor "
            "time"
        )
        against_peers(temporary)
        if wanted("per-image"):
            per_image(temporary)
