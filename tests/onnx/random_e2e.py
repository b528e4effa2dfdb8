#!/usr/bin/python3
"""random_e2e.py OUBLI [COUNT [FIRST]]: random classifiers (random_graphs.py), a class or two taken
out of each, old and new file run by ONNX Runtime. NumPy says what every output of both must be;
what no deletion concerns must be there byte for byte."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx

    import ort
    import random_graphs

    ort.runtime()
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

OUBLI = os.path.abspath(sys.argv[1])
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 100
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 0


class Wrong(Exception):
    pass


def require(condition, *what):
    if not condition:
        raise Wrong(*what)


def tolerance(case, z):
    return (1e-9 if case.double else 3e-5) * (np.abs(z).max() + 10)


def compare(case, run, z, names, shift_free, which):
    """Outputs of one file against `z`. `shift_free`: z is known but for a shift of every row."""
    slack = tolerance(case, z)
    order = np.sort(z, 1)
    clear = (np.diff(order, axis=1).min(1) if order.shape[1] > 1 else order[:, 0]) > 4 * slack
    for name, of in case.expected.items():
        found = run[name]
        if of is None:
            made, source = case.zipped
            require(made == name)
            keys = [n.item() for n in names]
            require(set(found[0]) == set(keys), which, name, found[0], keys)
            rows = np.array([[row[key] for key in keys] for row in found], np.float32)
            require(np.array_equal(rows, run[source]), which, name)
            continue
        want = of(z, names)
        require(found.shape == want.shape, which, name, found.shape, want.shape)
        if found.dtype.kind in "iO":
            same = np.array_equal(found[clear].astype(str), want[clear].astype(str))
            require(same, which, name, "answers differ")
            continue
        if shift_free and getattr(case, "kind", "") == "logits" and name not in fixed(case):
            found = found - found.mean(1, keepdims=True)
            want = want - want.mean(1, keepdims=True)
        worst = np.abs(found - want).max()
        require(worst <= 4 * slack, which, name, "differs by %g, slack %g" % (worst, slack))


def fixed(case):
    """Outputs that do not come from the logits."""
    return {case.features, getattr(case, "second", None)}


def forget(case, folder, old, new):
    """How a class was taken out: (classes, method)."""
    gone = sorted(case.rng.choice(case.k, case.choose([1, 1, 2]), replace=False).tolist())
    y = case.z.argmax(1)
    method = case.choose(["naive", "normalization"])
    if np.bincount(y, minlength=case.k).min() < 8:
        method = "naive"
    words = [OUBLI, "forget", old, "-o", new, "--method", method]
    for c in gone:
        words += ["--class", "index:%d" % c]
    if hasattr(case, "second"):
        main = case.choose([o.name for o in case.outputs if o.name not in fixed(case)])
        words += ["--head", main]
    if method != "naive":
        np.save(os.path.join(folder, "f.npy"), case.f.astype(np.float32))
        np.save(os.path.join(folder, "y.npy"), y)
        words += ["--features", os.path.join(folder, "f.npy")]
        words += ["--labels", os.path.join(folder, "y.npy")]
    done = subprocess.run(words, capture_output=True, text=True)
    if method != "naive" and case.shows:
        require(done.returncode == 4, "a shift shows, and %s passed" % method, done.stderr)
        words[words.index("--method") + 1] = method = "naive"
        done = subprocess.run(words, capture_output=True, text=True)
    require(done.returncode == 0, method, gone, done.stderr)
    require(not (method != "naive" and case.shows))
    return gone, method


def check_untouched(case, old, new):
    """Tensors of the body and of other heads are there byte for byte."""
    before = {t.name: t.SerializeToString() for t in old.graph.initializer}
    after = {t.name: t.SerializeToString() for t in new.graph.initializer}
    for name, content in before.items():
        if name.startswith(("body_", "second_")):
            require(after.get(name) == content, "tensor changed", name)


def check(seed, folder):
    case = random_graphs.make(seed)
    model = case.model()
    old, new = os.path.join(folder, "old.onnx"), os.path.join(folder, "new.onnx")
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    onnx.save_model(model, old)
    if case.checkable:
        onnx.checker.check_model(model, full_check=True)
    inputs = {"x": case.x}
    compare(case, ort.Session(old).run(inputs), case.z, case.labels, False, "old file")
    gone, method = forget(case, folder, old, new)
    made = onnx.load(new)
    if case.checkable:
        onnx.checker.check_model(made, full_check=True)
    kept = np.delete(case.z, gone, 1)
    names = np.delete(case.labels, gone)
    compare(case, ort.Session(new).run(inputs), kept, names, method != "naive", "new file")
    check_untouched(case, model, made)
    return method


def main():
    failed, methods = [], {}
    with tempfile.TemporaryDirectory(prefix="oubli-random-") as folder:
        for seed in range(FIRST, FIRST + COUNT):
            try:
                method = check(seed, folder)
                methods[method] = methods.get(method, 0) + 1
            except Exception as error:  # the seed says which graph it was
                failed.append(seed)
                print("seed %d: %s: %s" % (seed, type(error).__name__, error))
    print("%d graphs, %d failed; %s" % (COUNT, len(failed), methods))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
