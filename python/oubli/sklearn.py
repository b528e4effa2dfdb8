"""Forgetting in scikit-learn's linear classifiers and networks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as _np

from . import _arrays
from ._error import bad_input, unfilterable, usage
from ._forget import Report, request
from ._means import Means


def forget_(
    estimator: Any,
    X: Any,
    y: Any,
    classes,
    *,
    means: Means | None = None,
    method: str = "normalization",
    solver: str = "auto",
    target: Any = None,
    explain: float | None = None,
    seed: int = 0,
    samples: int | None = None,
    random_samples: bool = False,
    allow_nonlinear_tail: bool = False,
    ignore_accuracy: bool = False,
    progress=None,
) -> Report:
    """Takes classes out of a fitted classifier, in place: afterwards it does not know them.

    LogisticRegression, LinearSVC, SGDClassifier and MLPClassifier; in a Pipeline, its last step. X
    and y are data that the classifier was, or could have been, fitted on, the forgotten classes
    included; `classes` and y are labels as in `estimator.classes_`. X and y may be None for methods
    that need no data (naive, centre), or with `means`.

    Where probabilities are no softmax of the scores (one-vs-rest), a shift of all scores shows in
    them: use method="naive", or say allow_nonlinear_tail=True.

    Fails with `oubli.Error`, the estimator untouched.

    >>> import oubli
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=False)
    >>> names = load_iris().target_names[y]
    >>> model = LogisticRegression(max_iter=1000).fit(X, names)
    >>> report = oubli.sklearn.forget_(model, X, names, ["setosa"])
    >>> model.classes_.tolist(), model.predict(X[60:62]).tolist()
    (['versicolor', 'virginica'], ['versicolor', 'versicolor'])
    """
    steps, final = _last_step(estimator)
    kind = _kind_of(final)
    if not hasattr(final, "classes_"):
        raise usage(f"estimator: this {type(final).__name__} is not fitted")
    known = final.classes_
    if isinstance(known, list) or known.ndim != 1:
        raise unfilterable("estimator: tells several things at once; wanted one label per sample")
    indices = _indices(classes, known, "classes")
    kept = [j for j in range(len(known)) if j not in indices]
    head = kind(final)
    head.check_left(len(kept))
    values = labels = None
    if X is not None or y is not None:
        if X is None or y is None:
            raise usage("X and y go together")
        for step in steps:
            X = step.transform(X)
        values = _arrays.floats(head.features(_dense(X)), "X", 2).given("X")
        labels = _arrays.labels(_np.asarray(_indices(y, known, "y", every=True)), "y")
    found = _arrays.head(head.W, head.b)
    names = [str(label) for label in known]
    new = request(
        found,
        classes=indices,
        values=values,
        labels=labels,
        means=means,
        class_names=names if len(set(names)) == len(names) and not names[0].isdigit() else None,
        method=method,
        solver=solver,
        target=target,
        explain=explain,
        seed=seed,
        samples=samples,
        random_samples=random_samples,
        shift_shows=head.shift_shows,
        allow_nonlinear_tail=allow_nonlinear_tail,
        ignore_accuracy=ignore_accuracy,
        progress=progress,
    )
    head.replace(new.W, new.b, _np.asarray(new.report.kept))
    for step in steps:
        if hasattr(step, "classes_"):
            warnings.warn(
                f"{type(step).__name__}: keeps classes of its own, which stay; fit it without "
                "the forgotten ones",
                stacklevel=2,
            )
    return new.report


def _last_step(estimator) -> tuple[list, Any]:
    """The transformers of a pipeline, and the classifier at its end."""
    steps = []
    while hasattr(estimator, "steps"):
        steps += [step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]
        estimator = estimator.steps[-1][1]
    return steps, estimator


def _dense(X):
    if hasattr(X, "toarray"):
        return X.toarray()
    X = _np.asarray(X)
    return X if X.dtype.kind == "f" else X.astype(_np.float64)


def _indices(labels, known, what: str, every: bool = False) -> list[int]:
    """Where labels stand in classes_."""
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        labels = [labels]
    position = {label: j for j, label in enumerate(known.tolist())}
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    found = []
    for label in labels:
        if isinstance(label, float) and label.is_integer() and label not in position:
            label = int(label)
        if label not in position:
            some = ", ".join(str(name) for name in known[:10])
            raise (bad_input if every else usage)(
                f"{what}: {label!r} is none of the classifier's classes: {some}"
            )
        found.append(position[label])
    if not found:
        raise usage(f"{what}: empty")
    return found


def _kind_of(estimator):
    for base in type(estimator).__mro__:
        if base.__module__.startswith("sklearn.") and base.__name__ in _KINDS:
            return _KINDS[base.__name__]
    raise unfilterable(
        f"estimator: {type(estimator).__name__}; wanted one of {', '.join(_KINDS)}, or a Pipeline "
        "that ends in one"
    )


class _Linear:
    """coef_ and intercept_, one row or number per class."""

    def __init__(self, estimator) -> None:
        self.estimator = estimator
        self.W = estimator.coef_
        if hasattr(self.W, "toarray"):
            raise unfilterable("estimator: its coefficients are sparse; use .densify() first")
        if self.W.shape[0] != len(estimator.classes_):
            raise unfilterable(
                "estimator: tells two classes apart by one row; none can be forgotten"
            )
        intercept = _np.asarray(estimator.intercept_)
        self.b = intercept if intercept.ndim == 1 else None  # 0.0: fitted without

    shift_shows = True
    #: The one row of two classes is this times the difference of theirs; None: does not exist.
    two: float | None = 1.0

    def check_left(self, left: int) -> None:
        if left == 2 and self.two is None:
            raise unfilterable(
                "estimator: scikit-learn keeps two classes as one row, which for one-vs-rest "
                "probabilities does not give the old ones; forget in coef_ and intercept_ with "
                "oubli.forget instead"
            )

    def features(self, X):
        return X

    def replace(self, W, b, kept) -> None:
        estimator = self.estimator
        if b is not None and self.b is None:
            raise unfilterable(
                "estimator: the solver needs a bias, and this one was fitted without; use "
                "solver='paper'"
            )
        n_iter = getattr(estimator, "n_iter_", None)
        if isinstance(n_iter, _np.ndarray) and n_iter.shape == (len(estimator.classes_),):
            estimator.n_iter_ = n_iter[kept]
        if len(kept) == 2:
            W = (W[1:] - W[:1]) * self.two
            b = None if b is None else (b[1:] - b[:1]) * self.two
        estimator.coef_ = _np.ascontiguousarray(W)
        if b is not None:
            estimator.intercept_ = b
        estimator.classes_ = estimator.classes_[kept].copy()


class _Logistic(_Linear):
    def __init__(self, estimator) -> None:
        super().__init__(estimator)
        multi = getattr(estimator, "multi_class", "auto")
        automatic = multi in ("auto", "deprecated")
        softmax = multi == "multinomial" or (
            automatic and estimator.solver not in ("liblinear", "newton-cholesky")
        )
        self.shift_shows = not softmax
        # Two classes are told by softmax(-s, s) if "multinomial", else by a sigmoid of s.
        self.two = None if not softmax else 0.5 if multi == "multinomial" else 1.0


class _Descent(_Linear):
    """SGDClassifier keeps averages and what it was before them, too."""

    def __init__(self, estimator) -> None:
        super().__init__(estimator)
        if estimator.loss in ("log_loss", "log", "modified_huber"):
            self.two = None  # one-vs-rest probabilities

    def replace(self, W, b, kept) -> None:
        estimator = self.estimator
        super().replace(W, b, kept)
        # Further fitting begins from what is there now: old averages would tell what it was.
        for name, now in (("coef", estimator.coef_), ("intercept", estimator.intercept_)):
            for part in ("_standard_", "_average_"):
                if getattr(estimator, part + name, None) is not None:
                    setattr(estimator, part + name, _np.atleast_1d(now).copy())
        weights = getattr(estimator, "_expanded_class_weight", None)
        if weights is not None:
            estimator._expanded_class_weight = _np.asarray(weights)[kept]


class _Network(_Linear):
    """The last layer of an MLPClassifier: coefs_[-1], features x classes."""

    shift_shows = False  # a softmax follows

    def __init__(self, estimator) -> None:
        self.estimator = estimator
        if estimator.out_activation_ != "softmax":
            raise unfilterable(
                f"estimator: its outputs pass through '{estimator.out_activation_}'; wanted three "
                "classes or more, one label per sample"
            )
        self.W = estimator.coefs_[-1].T
        self.b = estimator.intercepts_[-1]

    def features(self, X):
        from sklearn.neural_network._base import ACTIVATIONS

        for weights, bias in zip(self.estimator.coefs_[:-1], self.estimator.intercepts_[:-1]):
            X = X @ weights + bias
            ACTIVATIONS[self.estimator.activation](X)
        return X

    def replace(self, W, b, kept) -> None:
        estimator = self.estimator
        if len(kept) == 2:  # one output through a sigmoid, which is their softmax
            W, b = W[1:] - W[:1], b[1:] - b[:1]
            estimator.out_activation_ = "logistic"
        estimator.coefs_[-1] = _np.ascontiguousarray(W.T)
        estimator.intercepts_[-1] = _np.ascontiguousarray(b)
        estimator.n_outputs_ = W.shape[0]
        estimator.classes_ = estimator.classes_[kept].copy()
        binarizer = estimator._label_binarizer
        binarizer.classes_ = estimator.classes_
        binarizer.y_type_ = "binary" if len(kept) == 2 else "multiclass"
        # What training kept of the layer: it begins anew from what is there now.
        for name in (
            "_optimizer",
            "_best_coefs",
            "_best_intercepts",
            "_coef_grads",
            "_intercept_grads",
        ):
            estimator.__dict__.pop(name, None)
        estimator._no_improvement_count = 0


_KINDS = {
    "LogisticRegression": _Logistic,
    "LinearSVC": _Linear,
    "SGDClassifier": _Descent,
    "MLPClassifier": _Network,
}
