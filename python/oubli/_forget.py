"""Forgetting in arrays."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from . import _arrays, _core
from ._error import usage
from ._heard import progress_of
from ._means import Means


class Report:
    """What was asked, done and measured: `print(report)` for people, `to_dict()` for programs."""

    def __init__(self, fields: dict, text: str, means: Means | None, kept: list[int]) -> None:
        self._fields = fields
        self._text = text
        self.means = means  #: means of the classes that stay, for the next request; may be None
        self.kept = kept  #: kept[i] is the old index of the new class i

    @property
    def method(self) -> str:
        return self._fields["request"]["method"]

    @property
    def forgotten(self) -> list[int]:
        return self._fields["request"]["forget"]

    @property
    def solver(self) -> dict | None:
        """How the correction was solved for; None for methods that solve nothing."""
        return self._fields.get("solver")

    @property
    def warnings(self) -> list[str]:
        return self._fields.get("warnings", [])

    @property
    def leaks(self) -> dict | None:
        """What the remaining logits still tell; None if no data was given."""
        return self._fields.get("leak_check")

    def to_dict(self) -> dict:
        """Everything, as `oubli forget --dry-run --json` prints it."""
        return self._fields

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<oubli.Report: classes {self.forgotten} forgotten by {self.method}>"


class Forgotten(NamedTuple):
    """The new layer, and how it came about."""

    W: Any
    b: Any
    report: Report


def request(
    head: _arrays.Head,
    *,
    classes,
    space: str = "features",
    values: _core.Given | None = None,
    labels: _core.Given | None = None,
    means: Means | None = None,
    class_names=None,
    method: str = "normalization",
    solver: str = "auto",
    target=None,
    explain: float | None = None,
    seed: int = 0,
    samples: int | None = None,
    random_samples: bool = False,
    shift_shows: bool = False,
    allow_nonlinear_tail: bool = False,
    ignore_accuracy: bool = False,
    progress=None,
) -> Forgotten:
    if means is not None and not isinstance(means, Means):
        raise usage(
            f"means: {type(means).__name__}; wanted oubli.Means, as Means.load() gives them"
        )
    class_names = _arrays.names(class_names)
    if not class_names and means is not None:
        class_names = means.class_names
    options = {
        "space": space,
        "values": values,
        "labels": labels,
        "means": None if means is None else means._means,
        "classes": _arrays.class_words(classes),
        "class_names": class_names,
        "method": str(method),
        "solver": str(solver),
        "target": None if target is None else _arrays.floats(target, "target").given("target"),
        "explain": None if explain is None else number(explain, "explain"),
        "seed": count(seed, "seed"),
        "samples": None if samples is None else count(samples, "samples", 1),
        "random_samples": bool(random_samples),
        "shift_shows": shift_shows,
        "allow_nonlinear_tail": bool(allow_nonlinear_tail),
        "ignore_accuracy": bool(ignore_accuracy),
    }
    weights, bias, fields, text, kept_means, kept = _core.forget(
        head.given_weights, head.given_bias, head.transposed, options, progress_of(progress)
    )
    report = Report(
        json.loads(fields), text, None if kept_means is None else Means._of(kept_means), kept
    )
    return Forgotten(*head.back(weights, bias), report)


def count(value, what: str, least: int = 0) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise usage(f"{what}: {value!r}; wanted a whole number from {least} on")
    if value.__index__() >= 2**64:
        raise usage(f"{what}: {value!r}; wanted a number below 2^64")
    return value.__index__()


def number(value, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise usage(f"{what}: {value!r}; wanted a number") from None


def forget(
    W: Any,
    b: Any = None,
    *,
    classes,
    features: Any = None,
    logits: Any = None,
    labels: Any = None,
    means: Means | None = None,
    class_names: list[str] | None = None,
    method: str = "normalization",
    solver: str = "auto",
    target: Any = None,
    explain: float | None = None,
    seed: int = 0,
    samples: int | None = None,
    random_samples: bool = False,
    transposed: bool = False,
    ignore_accuracy: bool = False,
    progress=None,
) -> Forgotten:
    """Takes classes out of a linear layer, logits = W f + b, without training.

    W: classes x features (features x classes if `transposed`, as Keras keeps it); b may be None.
    What the method must know of the classes comes from `features`, the inputs of the layer, with
    their `labels`; or from the layer's `logits`; or from `means` gathered before. Methods that
    need nothing (naive, centre) take nothing; with data, what still leaks is measured.

    Gives back (W, b, report): new arrays of the old kind and type; what was given is not changed.
    A layer without a bias may gain one.

    >>> import numpy as np, oubli
    >>> rng = np.random.default_rng(0)
    >>> W, b = rng.normal(size=(4, 8)).astype("float32"), np.zeros(4, "float32")
    >>> labels = np.arange(400) % 4
    >>> features = (W[labels] + rng.normal(size=(400, 8))).astype("float32")
    >>> new = oubli.forget(W, b, features=features, labels=labels, classes=[2])
    >>> new.W.shape, new.W.dtype.name, new.b.shape
    ((3, 8), 'float32', (3,))
    >>> new.report.kept
    [0, 1, 3]

    Months later, without data:

    >>> newer = oubli.forget(new.W, new.b, means=new.report.means, classes=[0])
    >>> newer.W.shape
    (2, 8)
    """
    if features is not None and logits is not None:
        raise usage("features and logits: give one of them")
    head = _arrays.head(W, b, transposed=transposed)
    what, values = ("logits", logits) if logits is not None else ("features", features)
    if labels is not None and values is None:
        raise usage("labels: labels of what? features or logits is missing")
    if values is not None and labels is None:
        raise usage(f"{what}: whose samples are these? labels is missing")
    return request(
        head,
        classes=classes,
        space=what,
        values=None if values is None else _arrays.floats(values, what, 2).given(what),
        labels=None if labels is None else _arrays.labels(labels),
        means=means,
        class_names=class_names,
        method=method,
        solver=solver,
        target=target,
        explain=explain,
        seed=seed,
        samples=samples,
        random_samples=random_samples,
        ignore_accuracy=ignore_accuracy,
        progress=progress,
    )
