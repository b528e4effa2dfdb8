"""oubli.sklearn.forget_: each estimator, its predictions, its pickle, what it refuses."""

import copy
import pickle
import unittest
import warnings

import numpy as np

from support import Case, need

need("sklearn")
import oubli  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402

warnings.simplefilter("ignore")  # that few iterations do not converge


def problem(classes=4, samples=400, size=40, seed=0):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(classes, size))
    y = np.arange(samples) % classes
    return centres[y] + 2 * rng.normal(size=(samples, size)), y


def scores(model, X):
    out = (
        model.decision_function(X)
        if hasattr(model, "decision_function")
        else model.predict_proba(X)
    )
    return out


LINEAR = {
    "multinomial": lambda: LogisticRegression(multi_class="multinomial", max_iter=300),
    "auto": lambda: LogisticRegression(max_iter=300),
    "one-vs-rest": lambda: LogisticRegression(multi_class="ovr", max_iter=300),
    "liblinear": lambda: LogisticRegression(solver="liblinear"),
    "svc": lambda: LinearSVC(max_iter=300),
    "sgd": lambda: SGDClassifier(random_state=0),
    "sgd log": lambda: SGDClassifier(loss="log_loss", random_state=0),
    "sgd average": lambda: SGDClassifier(average=True, random_state=0),
}
NETWORK = {
    "relu": lambda: MLPClassifier((16,), max_iter=40, random_state=0),
    "tanh, two layers": lambda: MLPClassifier(
        (16, 8), activation="tanh", max_iter=40, random_state=0
    ),
    "early": lambda: MLPClassifier((16,), early_stopping=True, max_iter=40, random_state=0),
    "sgd": lambda: MLPClassifier((16,), solver="sgd", max_iter=40, random_state=0),
    "lbfgs": lambda: MLPClassifier((16,), solver="lbfgs", max_iter=40, random_state=0),
}


def last_layer(model):
    return model.coefs_[-1].T if hasattr(model, "coefs_") else model.coef_


class Estimators(Case):
    def check_pickle(self, model, rows):
        """Neither a forgotten row, nor a part of it, in either order of a matrix."""
        for protocol in (2, 5):
            text = pickle.dumps(model, protocol)
            for row in rows:
                for at in range(0, row.size - 8, 8):
                    self.assertNotIn(row[at : at + 8].tobytes(), text)

    def check_gone(self, model, numbers):
        """No array that the estimator holds, however deep, has one of these numbers."""
        seen, found = set(), []

        def look(value):
            if id(value) in seen:
                return
            seen.add(id(value))
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                found.append(np.isin(value, numbers).any())
            elif isinstance(value, (list, tuple)):
                [look(part) for part in value]
            elif hasattr(value, "__dict__"):
                [look(part) for part in vars(value).values()]

        look(model)
        self.assertGreater(len(found), 1)  # coef_ and intercept_, at least
        self.assertFalse(any(found))

    def test_naive_cuts_the_class_off(self):
        X, y = problem()
        for name, make in {**LINEAR, **NETWORK}.items():
            with self.subTest(name):
                model = make().fit(X, y)
                before = scores(model, X)
                rows = last_layer(model)[[1]].copy()
                report = oubli.sklearn.forget_(model, X, y, [1], method="naive")
                self.assertEqual(report.kept, [0, 2, 3])
                self.assertEqual(model.classes_.tolist(), [0, 2, 3])
                kept = np.array([0, 2, 3])
                np.testing.assert_array_equal(model.predict(X), kept[before[:, kept].argmax(1)])
                self.check_pickle(model, rows)
                self.check_gone(model, rows)

    def test_normalization(self):
        X, y = problem()
        for name, make in {**LINEAR, **NETWORK}.items():
            with self.subTest(name):
                model = make().fit(X, y)
                softmax = name in ("multinomial", "auto") or name in NETWORK
                before = copy.deepcopy(model)
                words = {} if softmax else {"allow_nonlinear_tail": True}
                if name == "sgd":
                    words["method"] = "normalization"
                W, b = last_layer(model).copy(), np.copy(
                    model.intercepts_[-1] if hasattr(model, "coefs_") else model.intercept_
                )
                features = X
                if hasattr(model, "coefs_"):
                    # an oracle of our own: the layers before the last, one by one
                    for weights, bias in zip(model.coefs_[:-1], model.intercepts_[:-1]):
                        features = features @ weights + bias
                        features = (
                            np.tanh(features)
                            if model.activation == "tanh"
                            else np.maximum(features, 0)
                        )
                expected = oubli.forget(W, b, features=features, labels=y, classes=[1])
                oubli.sklearn.forget_(model, X, y, [1], **words)
                # Layers of networks lie in columns, so that sums come in another order.
                np.testing.assert_allclose(last_layer(model), expected.W, rtol=1e-9, atol=1e-9)
                if softmax:
                    old = before.predict_proba(X)[:, [0, 2, 3]]
                    np.testing.assert_allclose(
                        model.predict_proba(X), old / old.sum(1, keepdims=True), atol=1e-7
                    )
                self.check_gone(model, W[1])

    def test_two_are_left(self):
        X, y = problem(classes=3)
        for name, make in {**LINEAR, **NETWORK}.items():
            with self.subTest(name):
                model = make().fit(X, y)
                before = copy.deepcopy(model)
                if name in ("one-vs-rest", "liblinear", "sgd log"):
                    # two sigmoids are not one
                    self.refuses(
                        4,
                        "two classes as one row",
                        oubli.sklearn.forget_,
                        model,
                        X,
                        y,
                        [1],
                        method="naive",
                    )
                    self.assertEqual(pickle.dumps(model), pickle.dumps(before))
                    continue
                oubli.sklearn.forget_(model, X, y, [1], method="naive")
                old = scores(before, X)[:, [0, 2]]
                np.testing.assert_array_equal(model.predict(X), np.array([0, 2])[old.argmax(1)])
                if hasattr(model, "predict_proba"):
                    old = before.predict_proba(X)[:, [0, 2]]
                    np.testing.assert_allclose(
                        model.predict_proba(X), old / old.sum(1, keepdims=True), atol=1e-9
                    )

    def test_names_and_pipelines(self):
        X, y = problem()
        names = np.array(["ant", "bee", "cat", "dog"])[y]
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, names)
        plain = LogisticRegression(max_iter=300).fit(StandardScaler().fit_transform(X), names)
        oubli.sklearn.forget_(model, X, names, ["bee", "dog"])
        oubli.sklearn.forget_(plain, StandardScaler().fit_transform(X), names, ["bee", "dog"])
        self.assertEqual(model.classes_.tolist(), ["ant", "cat"])
        self.assertSame(model[-1].coef_, plain.coef_)
        self.assertNotIn(b"bee", pickle.dumps(model))
        self.assertEqual(set(model.predict(X)), {"ant", "cat"})

    def test_transformers_that_know_classes(self):
        X, y = problem()
        model = make_pipeline(LinearDiscriminantAnalysis(), LogisticRegression()).fit(X, y)
        with self.assertWarnsRegex(UserWarning, "LinearDiscriminantAnalysis: keeps classes"):
            oubli.sklearn.forget_(model, X, y, [1])
        self.assertEqual(model.classes_.tolist(), [0, 2, 3])

    def test_they_can_be_fitted_on(self):
        X, y = problem()
        kept = y != 1
        for name in ("sgd", "sgd average"):
            model = LINEAR[name]().fit(X, y)
            oubli.sklearn.forget_(model, X, y, [1], method="naive")
            model.partial_fit(X[kept], y[kept])
            self.assertEqual(set(model.predict(X)), {0, 2, 3})
        model = NETWORK["relu"]().fit(X, y)
        oubli.sklearn.forget_(model, X, y, [1])
        model.partial_fit(X[kept], y[kept])
        self.assertGreater(model.score(X[kept], y[kept]), 0.9)


class Refusals(Case):
    def untouched(self, code, words, model, *request, **more):
        before = pickle.dumps(model)
        self.refuses(code, words, oubli.sklearn.forget_, model, *request, **more)
        self.assertEqual(pickle.dumps(model), before)

    def test_each_with_a_clear_exception(self):
        X, y = problem()
        model = LogisticRegression(max_iter=300).fit(X, y)
        self.untouched(2, "7 is none of the classifier's classes", model, X, y, [7])
        self.untouched(2, "classes: empty", model, X, y, [])
        self.untouched(3, "y: 9 is none", model, X, np.where(y == 3, 9, y), [1])
        self.untouched(3, "columns", model, X[:, :5], y, [1])
        self.untouched(3, "labels for", model, X, y[1:], [1])
        self.untouched(2, "go together", model, X, None, [1])
        self.untouched(4, "", model, X, y, [0, 1, 2])
        bad = X.copy()
        bad[3, 3] = np.nan
        self.untouched(3, "row 3", model, bad, y, [1])
        ovr = LogisticRegression(multi_class="ovr", max_iter=300).fit(X, y)
        self.untouched(4, "non-linear step", ovr, X, y, [1])
        svc = LinearSVC(fit_intercept=False, max_iter=300).fit(X, y)
        self.untouched(
            4, "fitted without", svc, X, y, [1], solver="affine", allow_nonlinear_tail=True
        )
        two = LogisticRegression().fit(X[y < 2], y[y < 2])
        self.untouched(4, "one row", two, X[y < 2], y[y < 2], [1])
        self.untouched(2, "not fitted", LogisticRegression(), X, y, [1])
        self.untouched(4, "Ridge", Ridge().fit(X, y), X, y, [1])
        several = MLPClassifier((4,), max_iter=5).fit(X, np.eye(4, dtype=int)[y] | (X[:, :4] > 0))
        self.untouched(4, "", several, X, y, [1])
        sparse = SGDClassifier(random_state=0).fit(X, y).sparsify()
        self.untouched(4, "sparse", sparse, X, y, [1])


if __name__ == "__main__":
    unittest.main()
