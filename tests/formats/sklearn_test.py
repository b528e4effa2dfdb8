"""sklearn_test.py OUBLI: what pickle and joblib saved; scikit-learn loads the results, predicts.

The same request on the same head as an .npz is the reference for the new weights, bit for bit.
Exit 77 (skipped) where scikit-learn or joblib is not installed.
"""

import gzip
import pickle
import sys
import warnings

try:
    import joblib
    import numpy as np
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import (
        LogisticRegression,
        LogisticRegressionCV,
        RidgeClassifier,
        SGDClassifier,
    )
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import LabelEncoder, StandardScaler
    from sklearn.svm import SVC, LinearSVC
except ImportError:
    print("skipped: scikit-learn or joblib is not installed")
    sys.exit(77)

import checks
from checks import Evil, Head, canary_in, run

warnings.filterwarnings("ignore")
K, P, C = 5, 6, 2
KEEP = [0, 1, 3, 4]
rng = np.random.default_rng(3)
Y = np.arange(200) % K
X = rng.normal(size=(K, P))[Y] * 1.5 + rng.normal(size=(200, P))
WORDS = np.array(["ant", "bee", "cat", "dog", "eel"])


def dump(model, path, protocol=4):
    with open(path, "wb") as file:
        pickle.dump(model, file, protocol)


WRITERS = {
    "p2": lambda m, path: dump(m, path, 2),
    "p3": lambda m, path: dump(m, path, 3),
    "p4": lambda m, path: dump(m, path, 4),
    "p5": lambda m, path: dump(m, path, 5),
    "joblib": joblib.dump,
    "zlib": lambda m, path: joblib.dump(m, path, compress=("zlib", 3)),
    "gzip": lambda m, path: joblib.dump(m, path, compress=("gzip", 3)),
    "pickle.gz": lambda m, path: gzip.open(path, "wb").write(pickle.dumps(m)),
}


def load(path, writer):
    if writer == "pickle.gz":
        return pickle.loads(gzip.open(path).read())
    return (
        joblib.load(path) if writer in ("joblib", "zlib", "gzip") else pickle.load(open(path, "rb"))
    )


def last(model):
    return model.steps[-1][1] if hasattr(model, "steps") else model


def classes_of(model):
    return last(model).classes_


def check(old, new):
    """`new` is `old` without class C, as naive deletion leaves it."""
    before, after = last(old), last(new)
    assert type(new) is type(old)
    assert after.coef_.dtype == before.coef_.dtype
    # Rows that sum to zero, as a multinomial model's do, are centred again: all move alike.
    moved = after.coef_ - before.coef_[KEEP]
    assert np.allclose(moved, moved[0], rtol=0, atol=1e-12)
    if abs(moved).max() == 0:
        assert after.coef_.tobytes("C") == before.coef_[KEEP].tobytes("C")
        assert np.array_equal(after.intercept_, before.intercept_[KEEP])
    else:
        assert abs(before.coef_.sum(0)).max() < 1e-6 > abs(after.coef_.sum(0)).max()
    assert np.array_equal(classes_of(new), classes_of(old)[KEEP])
    scores = old.decision_function(X)[:, KEEP]
    shift = new.decision_function(X) - scores
    assert np.allclose(shift, shift[:, :1], rtol=1e-12, atol=1e-12)
    assert np.array_equal(new.predict(X), classes_of(old)[KEEP][scores.argmax(1)])
    if hasattr(old, "predict_proba"):
        want = old.predict_proba(X)[:, KEEP]
        assert np.allclose(new.predict_proba(X), want / want.sum(1, keepdims=True), atol=1e-12)
    for name, value in vars(before).items():
        if name in ("coef_", "intercept_", "classes_", "_label_binarizer", "loss_function_"):
            continue
        now = vars(after)[name]
        if isinstance(value, np.ndarray):
            assert np.array_equal(now, value[KEEP] if value.shape[:1] == (K,) else value), name
        else:
            assert now == value, name


def every_kind_and_writer(folder):
    models = dict(
        logistic=LogisticRegression().fit(X, Y),
        rest=LogisticRegression(multi_class="ovr").fit(X, WORDS[Y]),
        liblinear=LogisticRegression(solver="liblinear").fit(X, Y * 3 + 1),
        words=LogisticRegression().fit(X, WORDS[Y]),
        objects=LogisticRegression().fit(X, WORDS[Y].astype(object)),
        svc=LinearSVC().fit(X, Y),
        sgd=SGDClassifier(average=True).fit(X, WORDS[Y]),
        ridge=RidgeClassifier().fit(X, Y),
        lda=LinearDiscriminantAnalysis().fit(X, Y),
        single=SGDClassifier().fit(X.astype("f4"), Y),
        pipeline=make_pipeline(StandardScaler(), LogisticRegression()).fit(X, WORDS[Y]),
        pipeline_svc=make_pipeline(StandardScaler(), LinearSVC()).fit(X, WORDS[Y].astype(object)),
    )
    for name, model in models.items():
        for writer, write in WRITERS.items():
            if writer == "p2":
                continue
            path, out = folder / f"{name}.{writer}", folder / f"{name}-new.{writer}"
            write(model, path)
            run("forget", path, "--class", f"index:{C}", "--method", "naive", "-o", out)
            check(model, load(out, writer))
    assert load(folder / "words-new.p4", "p4").classes_.tolist() == ["ant", "bee", "dog", "eel"]
    # By the label
    run(
        "forget",
        folder / "words.p4",
        "--class",
        "cat",
        "--method",
        "naive",
        "-o",
        folder / "by-name.pkl",
    )
    assert (folder / "by-name.pkl").read_bytes() == (folder / "words-new.p4").read_bytes()
    assert b"c\0\0\0a\0\0\0t" not in (folder / "words-new.p4").read_bytes()
    assert b"cat" not in (folder / "objects-new.joblib").read_bytes()
    # joblib maps arrays into memory at aligned places, before and after
    mapped = joblib.load(folder / "logistic-new.joblib", mmap_mode="r")
    moved = mapped.coef_ - models["logistic"].coef_[KEEP]  # centred again
    assert mapped.coef_.ctypes.data % 16 == 0 and np.allclose(moved, moved[0], 0, 1e-12)
    # Bytes of protocol 2 are text: not taken, and said so.
    WRITERS["p2"](models["logistic"], folder / "two.pkl")
    run(
        "forget",
        folder / "two.pkl",
        "--class",
        2,
        "--method",
        "naive",
        "-o",
        folder / "x.pkl",
        code=4,
    )


def weights_are_those_of_arrays(folder):
    for name, model in dict(rows=LogisticRegression().fit(X, Y), columns=None).items():
        if model is None:  # in Fortran's order
            model = LogisticRegression().fit(X, Y)
            model.coef_ = np.asfortranarray(model.coef_)
        path = folder / f"{name}.pkl"
        dump(model, path, 5)
        turned = model.coef_.flags.f_contiguous
        head = Head(folder / "npz", model.coef_, model.intercept_)
        if turned:  # the same numbers in the same order
            np.savez(
                folder / "npz" / "head.npz",
                W=np.ascontiguousarray(model.coef_.T),
                b=model.intercept_,
            )
        run("forget", path, "--class", C, *head.data, "-o", folder / f"{name}-new.pkl")
        W, b = head.forgotten(C, *head.data, *(["--transposed"] if turned else []))
        new = load(folder / f"{name}-new.pkl", "p5")
        assert np.array_equal(new.coef_, W.T if turned else W) and np.array_equal(new.intercept_, b)
        want = model.predict_proba(X)[:, KEEP]
        assert np.allclose(new.predict_proba(X), want / want.sum(1, keepdims=True), atol=1e-9)
        run(
            "verify",
            f"{folder}/{name}-new.pkl.receipt.json",
            "--model",
            folder / f"{name}-new.pkl",
            "--original",
            path,
            *head.data,
            says="passed",
        )


def three_to_two(folder):
    """One row of differences, as scikit-learn itself keeps two classes."""
    few = Y < 3
    x, y = X[few], Y[few]
    models = dict(
        auto=LogisticRegression().fit(x, WORDS[y]),
        multinomial=LogisticRegression(multi_class="multinomial").fit(x, y),
        lda=LinearDiscriminantAnalysis().fit(x, y),
        svc=LinearSVC().fit(x, y),
    )
    for name, model in models.items():
        for writer in ["p4", "joblib"]:
            path, out = folder / f"{name}.{writer}", folder / f"{name}-new.{writer}"
            WRITERS[writer](model, path)
            run("forget", path, "--class", "index:1", "--method", "naive", "-o", out)
            new = load(out, writer)
            assert new.coef_.shape == (1, P) and new.intercept_.shape == (1,), name
            scores = model.decision_function(x)[:, [0, 2]]
            assert np.array_equal(new.predict(x), model.classes_[[0, 2]][scores.argmax(1)]), name
            if name != "svc":
                want = model.predict_proba(x)[:, [0, 2]]
                want /= want.sum(1, keepdims=True)
                assert np.allclose(new.predict_proba(x), want, atol=1e-12), name
            run("verify", f"{out}.receipt.json", "--model", out, "--original", path, says="passed")
            run("inspect", out, says="no class can be forgotten")
    dump(LogisticRegression(multi_class="ovr").fit(x, y), folder / "rest.pkl")
    naive = ["--class", "index:1", "--method", "naive", "-o", folder / "x"]
    run("forget", folder / "rest.pkl", *naive, code=4, says="keeps two classes as one row")


def refusals(folder):
    def saved(model, name="m.pkl"):
        dump(model, folder / name)
        return folder / name

    naive = ["--class", "index:0", "--method", "naive", "-o", folder / "x"]
    run(
        "forget",
        saved(RandomForestClassifier(2).fit(X, Y)),
        *naive,
        code=4,
        says="RandomForestClassifier",
    )
    run(
        "forget",
        saved(make_pipeline(StandardScaler(), SVC(kernel="linear")).fit(X, Y)),
        *naive,
        code=4,
        says="SVC",
    )
    run(
        "forget",
        saved(OneVsRestClassifier(LinearSVC()).fit(X, Y)),
        *naive,
        code=4,
        says="5 linear classifiers",
    )
    run(
        "forget",
        saved(LogisticRegressionCV(Cs=2, cv=2).fit(X, Y)),
        *naive,
        code=4,
        says="coefs_paths_",
    )
    run("forget", saved(LogisticRegression().fit(X, Y > 2)), *naive, code=4, says="at least two")
    run("forget", saved([1, 2]), *naive, code=4, says="no model")
    run(
        "inspect",
        saved({"model": LogisticRegression().fit(X, Y), "names": LabelEncoder().fit(WORDS)}),
        says="has a list of classes of its own",
    )
    joblib.dump(LogisticRegression().fit(X, Y), folder / "m.xz", compress=("xz", 3))
    run("forget", folder / "m.xz", *naive, code=3, says="xz")
    copied = LogisticRegression().fit(X, Y)
    copied.backup = copied.coef_.copy()  # found in what the file unpacks to
    equal = LinearSVC().fit(X, Y)
    equal.coef_[1] = equal.coef_[0]  # a class that stays has the row of the one that goes
    for name, model in dict(copied=copied, equal=equal).items():
        for writer in ("p4", "joblib", "zlib", "gzip", "pickle.gz"):
            path, out = folder / f"{name}.{writer}", folder / f"{name}-new.{writer}"
            WRITERS[writer](model, path)
            run("forget", path, *naive[:-1], out, says="still holds the weights")
            passed = run("verify", f"{out}.receipt.json", "--model", out, "--original", path)
            assert "passed" in passed, passed
            assert np.array_equal(load(out, writer).classes_, [1, 2, 3, 4])
    svc = saved(LinearSVC().fit(X, Y), "svc.pkl")
    head = Head(folder / "npz", LinearSVC().fit(X, Y).coef_, None)
    run("forget", svc, "--class", 0, *head.data, "-o", folder / "x", code=4, says="--method naive")
    run("forget", svc, "--class", 0, *head.data, "-o", folder / "y", "--allow-nonlinear-tail")
    rest = saved(LogisticRegression(multi_class="ovr").fit(X, Y), "rest.pkl")
    run("forget", rest, "--class", 0, *head.data, "-o", folder / "x", code=4, says="--method naive")
    assert not (folder / "x").exists()


def hostile(folder):
    canary = canary_in(folder)
    model = LogisticRegression().fit(X, Y)
    model.extra = Evil()
    dump(model, folder / "evil.pkl")
    run("inspect", folder / "evil.pkl", says="loading this file in Python runs code: posix.system")
    run("forget", folder / "evil.pkl", "--class", 0, "--method", "naive", "-o", folder / "new.pkl")
    assert not canary.exists(), "code of a file was run"
    load(folder / "new.pkl", "p4")
    assert canary.exists()  # it can sing
    good = pickle.dumps(LogisticRegression().fit(X, Y), 4)
    for name, content in dict(
        cut=good[:-30],
        longer=good.replace(
            (240).to_bytes(1, "little") + model.coef_.tobytes(),
            b"\xf1" + model.coef_.tobytes() + b"x",
        ),
        frame=good[:3] + b"\xff" * 7 + good[10:],
        bomb=gzip.compress(bytes(200 << 20)),
        # A hundred thousand objects that share a state of as many attributes: no work for each
        shared=b"\x80\x02}q\0("
        + b"".join(b"X\4\0\0\0%04xK\1" % (i % 65536) for i in range(100_000))
        + b"u0]("
        + b"csklearn.x\nY\n)\x81h\0b" * 100_000
        + b"e.",
    ).items():
        (folder / name).write_bytes(content)
        run("inspect", folder / name, code=4 if name in ("longer", "shared") else 3)


if __name__ == "__main__":
    checks.run_parts(
        [every_kind_and_writer, weights_are_those_of_arrays, three_to_two, refusals, hostile]
    )
