"""Class means, batch by batch."""

from __future__ import annotations

from typing import Any

from . import _arrays, _core
from ._error import usage


class Means:
    """The mean of the features (or logits) over each class, from any number of batches.

    With it a deletion needs no data, now or later. It holds what is to be forgotten: afterwards it
    must go as the old model must; `forget(...).report.means` has those of the classes that stay.

    >>> import numpy as np, oubli
    >>> rng = np.random.default_rng(1)
    >>> means = oubli.Means(classes=3)
    >>> for _ in range(4):
    ...     y = rng.integers(0, 3, 50)
    ...     means.update(rng.normal(size=(50, 8)).astype("float32"), y)
    >>> means
    <oubli.Means of 8 features for 3 classes, 200 samples>
    >>> int(means.counts.sum()), means.means.shape
    (200, (3, 8))

    Parts that were gathered apart are merged; files are those of `oubli means`:

    >>> part = oubli.Means(classes=3)
    >>> part.update(np.ones((3, 8), "float32"), [0, 1, 2])
    >>> means.merge(part)
    >>> means.save("means.npz")
    >>> oubli.Means.load("means.npz").counts.sum() == 203
    True
    """

    _means: _core.Means

    def __init__(
        self, classes: int, *, space: str = "features", class_names: list[str] | None = None
    ) -> None:
        if isinstance(classes, bool) or not hasattr(classes, "__index__") or classes < 1:
            raise usage(f"classes: {classes!r}; wanted the number of classes")
        self._means = _core.Means(int(classes), space, _arrays.names(class_names))

    @classmethod
    def _of(cls, means: _core.Means) -> Means:
        made = cls.__new__(cls)
        made._means = means
        return made

    @classmethod
    def load(cls, path) -> Means:
        """Means that save(), `oubli means` or `oubli forget` wrote."""
        return cls._of(_core.Means.load(path))

    def update(self, x: Any, y: Any) -> None:
        """Adds a batch: x, samples x features, and the class of each sample.

        All of it, or nothing: if a number is not finite or a label is not a class, nothing changes.
        """
        self._means.update(_arrays.floats(x, "x", 2).given("x"), _arrays.labels(y, "y"))

    def merge(self, other: Means) -> None:
        """Adds what `other` gathered."""
        if not isinstance(other, Means):
            raise usage(f"merge: {type(other).__name__}; wanted oubli.Means")
        self._means.merge(other._means)

    def save(self, path, *, W: Any = None, b: Any = None, force: bool = False) -> None:
        """Writes a means file. W and b, if given, say whose: forgetting then warns of others."""
        digest = ""
        if W is not None:
            head = _arrays.head(W, b)
            digest = _core.head_digest(head.given_weights, head.given_bias, head.transposed)
        self._means.save(path, digest, force)

    @property
    def classes(self) -> int:
        return self._means.classes

    @property
    def space(self) -> str:
        """What these are means of: "features" or "logits"."""
        return self._means.space

    @property
    def class_names(self) -> list[str]:
        return self._means.class_names

    @property
    def means(self):
        """A copy: classes x features, float64."""
        return self._means.means()

    @property
    def counts(self):
        """Samples per class."""
        import numpy as np

        return np.array(self._means.counts(), dtype=np.uint64)

    @property
    def within_variance(self) -> float:
        """Variance within classes per feature, pooled; NaN if no class has two samples."""
        return self._means.within_variance()

    def __repr__(self) -> str:
        try:
            means = self._means.means()
        except Exception:  # nothing yet
            return f"<oubli.Means of {self.space} for {self.classes} classes, no samples>"
        samples = int(self.counts.sum())
        return (
            f"<oubli.Means of {means.shape[1]} {self.space} for {self.classes} classes, "
            f"{samples} samples>"
        )
