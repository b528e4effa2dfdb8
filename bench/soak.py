"""bench/run soak: soak.py [--requests N] [--classes K] [--part soak|together]: many deletion
requests one after another.

1. N requests (default 200) on a head of K classes (10,000) x 512 features, data-free from the means
   that each request leaves for the next; every step verified by computing it anew. Time and memory
   per request.
2. 100 classes at once against 100 single requests: equal where the method promises it, and how far
   the classes deleted first drift meanwhile.
"""
import argparse, os, pathlib, shutil, subprocess, sys, tempfile, time
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--oubli", default=os.environ.get("OUBLI_BUILD", "build/release") + "/oubli")
parser.add_argument("--requests", type=int, default=200)
parser.add_argument("--classes", type=int, default=10000)
parser.add_argument("--part", choices=("both", "soak", "together"), default="both")
options = parser.parse_args()
OUBLI = str(pathlib.Path(options.oubli).resolve())
work = pathlib.Path(tempfile.mkdtemp(prefix="oubli-soak-"))


def oubli(*arguments):
    """Seconds, seconds of processor time and peak MiB of one call, which must succeed."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [OUBLI, "--quiet", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=work,
    )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"oubli {' '.join(map(str, arguments))}: exit {process.returncode}\n{output}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def line(case, ours, target):
    print(f"{case:58} {ours:>22}   target {target}", flush=True)


def make_world(name, classes, features, samples, seed):
    """Gaussian classes and the head of their linear discriminant."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features)).astype("f4")
    y = np.arange(classes * samples) % classes
    f = np.empty((len(y), features), "f4")
    for begin in range(0, len(y), 20000):
        part = slice(begin, begin + 20000)
        f[part] = centres[y[part]] + 3 * rng.standard_normal((len(y[part]), features), dtype="f4")
    np.savez(work / f"{name}.npz", W=centres / 9, b=(-(centres**2).sum(1) / 18).astype("f4"))
    np.savez(work / f"{name}-data.npz", features=f, labels=y)
    oubli("means", f"{name}.npz", "--data", f"{name}-data.npz", "-o", f"{name}.npz.means.npz")
    return f, y


def soak():
    make_world("s0", options.classes, 512, 4, 0)
    (work / "s0-data.npz").unlink()
    steps, checks = [], []  # (seconds, processor time, MiB) of each call
    for n in range(1, options.requests + 1):
        old, new = f"s{n - 1}.npz", f"s{n}.npz"
        # Any class will do; a different place each time.
        victim = (7919 * n) % (options.classes - n + 1)
        steps.append(
            oubli("forget", old, "--class", victim, "--means", f"{old}.means.npz", "-o", new)
        )
        checks.append(
            oubli(
                "verify",
                f"{new}.receipt.json",
                "--model",
                new,
                "--original",
                old,
                "--means",
                f"{old}.means.npz",
            )
        )
        for path in work.glob(f"s{n - 1}.npz*"):
            if not path.name.endswith(".receipt.json"):
                path.unlink()
        if n % 20 == 0:
            print(
                f"  {n} requests, {np.mean(steps[-20:], 0)[0]:.2f} s each",
                file=sys.stderr,
                flush=True,
            )
    left = np.load(work / f"s{options.requests}.npz")["W"].shape
    assert left == (options.classes - options.requests, 512), left
    seconds, processor, memory = np.array(steps).T
    line(
        f"{options.requests} requests, {options.classes} x 512, one by one: seconds each",
        f"{np.median(seconds):.2f} (worst {seconds.max():.2f})",
        "-",
    )
    line("  processor time each", f"{np.median(processor):.2f} (worst {processor.max():.2f})", "-")
    line(
        "  each verified by recomputation: seconds, processor time",
        "{:.2f}, {:.2f}".format(*np.median(checks, 0)),
        "all verified",
    )
    line(
        "  peak memory of a request, first and last",
        f"{memory[0]:.0f} and {memory[-1]:.0f} MiB",
        "no growth",
    )
    assert memory.max() <= 1.05 * memory[0], memory
    for path in work.glob("s*"):
        path.unlink()


def auc(scores, positive):
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    p, n = positive.sum(), (~positive).sum()
    area = (ranks[positive].sum() - p * (p + 1) / 2) / (p * n)
    return max(area, 1 - area)


def ghost(name, f, y, c, gone):
    head = np.load(work / name)
    logits = f @ head["W"].T.astype("f8") + head["b"]
    keep = ~np.isin(y, [g for g in gone if g != c])
    return auc(-logits[keep].mean(1), y[keep] == c)


def together_or_one_by_one():
    classes, forgotten = 300, 100
    f, y = make_world("t", classes, 400, 40, 1)
    f = f.astype("f8")
    # Deleting class 0 of what is left, again and again, deletes the first hundred.
    for method, solver in (("naive", "auto"), ("normalization", "auto"), ("zeroing", "paper")):
        flags = ["--method", method, "--solver", solver]
        oubli(
            "forget",
            "t.npz",
            *sum((["--class", str(c)] for c in range(forgotten)), []),
            "--means",
            "t.npz.means.npz",
            *flags,
            "-o",
            f"{method}-at-once.npz",
        )
        previous = "t.npz"
        for n in range(forgotten):
            current = f"{method}-{n}.npz"
            oubli(
                "forget",
                previous,
                "--class",
                0,
                "--means",
                f"{previous}.means.npz",
                *flags,
                "-o",
                current,
            )
            previous = current
        a, b = np.load(work / f"{method}-at-once.npz"), np.load(work / previous)
        logits = [f @ h["W"].T.astype("f8") + h["b"] for h in (a, b)]
        scale = abs(logits[0]).max()
        if method == "normalization":  # the same after softmax: compare centred logits
            logits = [l - l.mean(1, keepdims=True) for l in logits]
        difference = abs(logits[0] - logits[1]).max() / scale
        line(
            f"{method} ({solver}): {forgotten} at once against one by one",
            f"{difference:.1e} of largest",
            "< 1e-4",
        )
        assert difference < 1e-4, (method, difference)
    first = ghost("normalization-0.npz", f, y, 0, [0])
    last = ghost(f"normalization-{forgotten - 1}.npz", f, y, 0, range(forgotten))
    once = ghost("normalization-at-once.npz", f, y, 0, range(forgotten))
    naive = ghost("naive-at-once.npz", f, y, 0, range(forgotten))
    line("ghost AUC of the class deleted first: at once", f"{once:.3f}", "-")
    line("  one by one, right after its own deletion", f"{first:.3f}", "-")
    line(f"  one by one, after {forgotten - 1} further deletions (drift)", f"{last:.3f}", "-")
    line("  naive deletion", f"{naive:.3f}", "-")
    print(
        "Advice: do pending requests together (--class A --class B ...): an earlier-deleted class "
        "drifts and cannot be\n"
        "corrected once its mean is gone."
    )


if options.part != "together":
    soak()
if options.part != "soak":
    together_or_one_by_one()
shutil.rmtree(work)
