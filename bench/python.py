"""bench/run python: what Python adds to a request on arrays, and to a start of the interpreter.

The same request, k = 1000 classes of p = 2048 features, 10 samples of each: oubli.forget() against
the same C++ function called from a C++ program on the same numbers, in turns; the best of as many
runs. Then the time of `import oubli` beyond that of an interpreter that does nothing, and that of
NumPy for comparison; and how much the peak of memory grows by a request on 1 GB of features.
"""
import os
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["OUBLI_BUILD"]
sys.path.insert(0, os.path.join(BUILD, "python"))
import numpy as np  # noqa: E402  (the path must be set first)

import oubli  # noqa: E402

CLASSES, FEATURES, SAMPLES, ROUNDS = 1000, 2048, 10_000, 7


def line(case, ours, unit, target):
    met = "met" if ours <= target else "MISSED"
    print(f"{case}: {ours:.3g} {unit}, target at most {target:g} {met}", flush=True)


def overhead():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(CLASSES, FEATURES)).astype("float32")
    b = rng.normal(size=CLASSES).astype("float32")
    y = (np.arange(SAMPLES) % CLASSES).astype("int64")
    x = (W[y] + rng.normal(size=(SAMPLES, FEATURES))).astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        for name, array in {"W": W, "b": b, "x": x, "y": y}.items():
            np.save(os.path.join(folder, name + ".npy"), array)
        bench = subprocess.Popen(
            [os.path.join(BUILD, "python_bench"), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ours, peer = [], []
        for _ in range(ROUNDS):
            bench.stdin.write("go\n")
            bench.stdin.flush()
            peer.append(float(bench.stdout.readline()))
            begin = time.perf_counter()
            new = oubli.forget(W, b, features=x, labels=y, classes=[7])
            ours.append(time.perf_counter() - begin)
        bench.stdin.close()
        bench.wait()
        same = new.W.tobytes() == np.load(os.path.join(folder, "new.npy")).tobytes()
    print(
        f"forget, k = {CLASSES}, p = {FEATURES}: Python {min(ours):.3f} s, C++ {min(peer):.3f} s, "
        f"same bits: {same}"
    )
    line("overhead of Python", min(ours) / min(peer), "times the C++ call", 1.1)


def start(words):
    """The best of some starts: the rest is what else the machine does."""
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-S", "-E", "-c", words], check=True)
        times.append(time.perf_counter() - begin)
    return min(times)


def imports():
    path = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}; "
    nothing = start(path)
    line("import oubli", start(path + "import oubli") - nothing, "s", 0.1)
    print(f"for comparison, import numpy: {start(path + 'import numpy') - nothing:.3f} s")


def memory():
    words = f"""
import sys; sys.path[:0] = {[p for p in sys.path if p]!r}
import numpy as np, oubli, resource
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
n, p, k = 262144, 1024, 10
y = np.arange(n) % k
x = np.zeros((n, p), "float32")
x[np.arange(n), y] = 4
for i in range(0, n, 4096): x[i : i + 4096, :40] += np.random.default_rng(i).normal(size=(4096, 40))
before = peak()
oubli.forget(np.eye(k, p, dtype="float32"), features=x, labels=y, classes=[3])
print((peak() - before) / x.nbytes)
"""
    done = subprocess.run([sys.executable, "-c", words], check=True, capture_output=True, text=True)
    line(
        "growth of memory by a request on 1 GB of features", float(done.stdout), "times them", 0.25
    )


overhead()
imports()
memory()
