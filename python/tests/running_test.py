"""oubli in a running process: threads, signals, forks, messages, memory."""

import gc
import importlib.util
import resource
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
import unittest.mock
import warnings

import numpy as np

import oubli
from support import Case, toy


class Running(Case):
    def test_threads_at_once(self):
        problems = [toy(classes=30, features=64, samples=3000, seed=seed) for seed in range(4)]
        alone = [oubli.forget(W, b, features=x, labels=y, classes=[5]) for W, b, x, y in problems]
        found = [None] * 4

        def work(i):
            W, b, x, y = problems[i]
            found[i] = oubli.forget(W, b, features=x, labels=y, classes=[5])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for a, b in zip(alone, found):
            self.assertSame(a.W, b.W)
            self.assertEqual(a.report.to_dict(), b.report.to_dict())

    def test_gil_is_released(self):
        W, b, x, y = toy(classes=60, features=128, samples=60000)
        turns, ended = [0], threading.Event()

        def count():
            while not ended.wait(0.001):
                turns[0] += 1

        other = threading.Thread(target=count)
        other.start()
        begin = time.monotonic()
        oubli.forget(W, b, features=x, labels=y, classes=[1])
        seconds = time.monotonic() - begin
        ended.set()
        other.join()
        # Were the lock kept, it would not have had a single turn.
        self.assertGreater(turns[0], 2, f"in {seconds} s")

    def test_progress(self):
        W, b, x, y = toy()
        heard = []
        oubli.forget(
            W, b, features=x, labels=y, classes=[1], progress=lambda *step: heard.append(step)
        )
        self.assertEqual(heard[-1], (3, 3, "forget"))

        def interrupt(done, total, label):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            oubli.forget(W, b, features=x, labels=y, classes=[1], progress=interrupt)

    def test_tqdm(self):
        """The bar that people see, in a terminal's place; without tqdm, none and the same work."""
        script = """
import sys
if len(sys.argv) > 1:
    sys.modules["tqdm"] = None  # as if it were not installed
import numpy as np, oubli
labels = np.arange(400) % 4
x = (4 * np.eye(4, 8)[labels] + np.random.default_rng(0).normal(size=(400, 8))).astype("float32")
new = oubli.forget(np.eye(4, 8), features=x, labels=labels, classes=[1], progress=True)
print(new.W.tobytes().hex())
"""
        if importlib.util.find_spec("tqdm") is None:
            self.skipTest("tqdm is not installed")
        done = [
            subprocess.run([sys.executable, "-c", script, *more], capture_output=True, text=True)
            for more in ([], ["without"])
        ]
        for one in done:
            self.assertEqual(one.returncode, 0, one.stderr)
        self.assertRegex(done[0].stderr, r"forget: 100%\|.*\| 3/3 ")
        self.assertEqual(done[1].stderr, "")
        self.assertEqual(done[0].stdout, done[1].stdout)

    def test_bar(self):
        W, b, x, y = toy()
        bars = []

        class Bar:
            def __init__(self, total, desc):
                self.total, self.desc, self.n, self.closed = total, desc, 0, False
                bars.append(self)

            def refresh(self):
                pass

            def close(self):
                self.closed = True

        auto = types.ModuleType("tqdm.auto")
        auto.tqdm = Bar
        with unittest.mock.patch.dict(
            sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto}
        ):
            oubli.forget(W, b, features=x, labels=y, classes=[1], progress=True)
        self.assertEqual(
            [(bar.desc, bar.n, bar.total, bar.closed) for bar in bars], [("forget", 3, 3, True)]
        )
        with unittest.mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            oubli.forget(W, b, features=x, labels=y, classes=[1], progress=True)  # none: no bar

    def test_interrupt(self):
        """Ctrl-C ends work that would take minutes, and the interpreter goes on."""
        script = """
import numpy as np, oubli, sys
rng = np.random.default_rng(0)
seen, unseen = rng.normal(size=(2, 40, 3000, 9)).astype("float32")
print("begins", flush=True)
try:
    oubli.audit(seen, unseen, np.arange(3000) % 10, classes=[1], jobs=1, ignore_accuracy=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(oubli.forget(np.eye(4), classes=[1], method="naive").W.shape)
"""
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "begins\n")
        time.sleep(1)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        out = child.communicate(timeout=60)[0]
        self.assertEqual(out, "interrupted\n(3, 4)\n")
        self.assertEqual(child.returncode, 0)
        self.assertLess(time.monotonic() - begin, 50)

    def test_warnings_are_pythons(self):
        np.savez("head.npz", W=np.eye(4, 8, dtype="float32"))
        with open("names.txt", "w") as names:
            names.write("a\nb\nc\nd\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            oubli._heard.heard("warning: look out")
        self.assertEqual([str(w.message) for w in caught], ["look out"])
        with self.assertLogs("oubli", "INFO") as log:
            oubli._heard.heard("report: here")
        self.assertEqual(log.records[0].getMessage(), "report: here")

    def test_no_copy_of_large_arrays(self):
        """Peak memory grows by far less than the array that is given: 256 MB here."""
        script = """
import numpy as np, oubli, resource
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
n, p, k = 65536, 1024, 10
x = np.empty((n, p), "float32")
x[:] = np.random.default_rng(0).normal(size=p).astype("float32")
y = np.arange(n) % k
x[np.arange(n), y] += 4
x[:, 10:20] += np.random.default_rng(1).normal(size=(n, 10)).astype("float32")
W = np.eye(k, p, dtype="float32")
small = np.ascontiguousarray(x[:1000])
oubli.forget(W, features=small, labels=y[:1000], classes=[3])
means = oubli.Means(classes=k); means.update(small, y[:1000])
before = peak()
oubli.forget(W, features=x, labels=y, classes=[3])
means.update(x, y)
print(peak() - before, x.nbytes)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        grown, given = map(int, done.stdout.split())
        self.assertLess(grown, given / 4)

    def test_no_memory_is_kept(self):
        W, b, x, y = toy(classes=100, features=512, samples=1000)
        for _ in range(5):
            oubli.forget(W, b, features=x, labels=y, classes=[1])
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(40):
            oubli.forget(W, b, features=x, labels=y, classes=[1])
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        self.assertLess(grown, 20 * W.nbytes)  # half of what forty kept heads would take


if __name__ == "__main__":
    unittest.main()
