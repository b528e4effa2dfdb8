"""Could anyone tell from its logits that a model has seen the forgotten class?"""

from __future__ import annotations

import html
import io
import json
import os
import tempfile
from typing import Any

from . import _arrays, _core
from ._error import Code, Error, usage
from ._forget import count
from ._heard import progress_of


class Audit:
    """What an audit found. `print(audit)` shows the tables; a notebook, the verdict's picture.

    Every member of `to_dict()` is an attribute, too: `audit.leaks`, `audit.quality`, ...
    """

    def __init__(self, result: _core.AuditResult) -> None:
        self._result = result
        self._fields = json.loads(result.json())

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return self._result.sentence()

    @property
    def outcome(self) -> str | None:
        """In words: told apart, faint trace, not told apart, too few networks; None: none."""
        return self._fields["verdict"].get("outcome")

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"'Audit' has no attribute {name!r}; it has {', '.join(fields)}")

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._fields])

    def to_dict(self) -> dict:
        """Everything, as `oubli audit --json` prints it."""
        return self._fields

    def to_json(self) -> str:
        """The same bytes."""
        return self._result.json()

    def to_csv(self) -> str:
        """One line per class, observer and attack, as `oubli audit --csv` writes them."""
        return self._result.csv()

    def to_dataframe(self):
        """The same lines as a table of pandas."""
        try:
            import pandas
        except ImportError:
            raise Error("to_dataframe: pandas is not installed", Code.MISSING) from None
        return pandas.read_csv(io.StringIO(self.to_csv()))

    def report(self, path, *, title: str = "", force: bool = False) -> None:
        """Draws an HTML page, as `oubli report` does of an audit."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "audit.json")
            with open(file, "w", encoding="utf-8") as out:
                out.write(self.to_json())
            _core.write_report([file], path, force, "", title)

    def __str__(self) -> str:
        return self._result.text()

    def __repr__(self) -> str:
        return f"<oubli.Audit: {self.sentence}>"

    def _repr_html_(self) -> str:
        page = html.escape(self._result.answer_page(), quote=True)
        style = "width:100%;height:28em;border:0"
        return f'<iframe sandbox srcdoc="{page}" style="{style}" title="Audit"></iframe>'


def _population(x, what: str) -> list[_core.Given]:
    """models x samples x columns in one array, or samples x columns in one array per model."""
    if x is None:
        return []
    if isinstance(x, (list, tuple)):
        if not x:
            raise usage(f"{what}: empty; wanted at least one model")
        return [
            _arrays.floats(one, f"{what}[{i}]", 2).given(f"{what}[{i}]") for i, one in enumerate(x)
        ]
    array = _arrays.floats(x, what)
    if array.data.ndim not in (2, 3):
        raise usage(f"{what}: {array.data.ndim} dimensions; wanted models x samples x columns")
    return [array.given(what)]


def _layers(**given) -> list:
    """Features of one layer, or {name: features} of several; seen, unseen, before."""
    by_name = {
        what: x if isinstance(x, dict) else {"": x} for what, x in given.items() if x is not None
    }
    layers = []
    for name in dict.fromkeys(name for features in by_name.values() for name in features):
        populations = [_population(by_name.get(what, {}).get(name), what) for what in given]
        layers.append((str(name), *populations))
    return layers


def audit(
    seen: Any,
    unseen: Any,
    labels: Any,
    classes,
    *,
    unseen2: Any = None,
    before: Any = None,
    features: Any = None,
    unseen_features: Any = None,
    before_features: Any = None,
    class_names: list[str] | None = None,
    attack: list[str] | None = None,
    observer: list[str] | None = None,
    answers: list[int] | None = None,
    images: int = 0,
    images_retained: int = 0,
    forgotten_only: bool = False,
    all: bool = False,
    ignore_accuracy: bool = False,
    train_share: float = 0.7,
    splits: int = 1,
    directions: int = 1000,
    bootstrap: int = 1000,
    seed: int = 0,
    jobs: int | None = None,
    progress=None,
) -> Audit:
    """Tells models that forgot a class from models that never saw it, as an attacker would.

    seen: logits of models trained on everything, then unlearned: models x samples x retained
    classes, or a list of samples x retained classes. unseen: the same of models trained without the
    class; unseen2: more of them, for the floor. labels: true classes of the samples, `classes` the
    forgotten ones, both in the original numbering. Fails if labels look misaligned with what the
    retrained models say, unless `ignore_accuracy`. Of very large arrays an evenly spread part is
    looked at, which a warning of the result describes, unless `all`. `splits` of the models into
    those attacks learn from and the rest give intervals over both. The result does not depend on
    `jobs`.

    >>> import numpy as np, oubli
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(120) % 3
    >>> seen, unseen = rng.normal(size=(2, 6, 120, 2)).astype("float32")
    >>> seen += 3 * (labels[:, None] == [0, 2])  # what they learned of the classes that stay
    >>> unseen += 3 * (labels[:, None] == [0, 2])
    >>> audit = oubli.audit(seen, unseen, labels, classes=[1], attack=["logistic"],
    ...                     directions=50, bootstrap=100)
    >>> audit.models, audit.forgotten
    ({'seen': 6, 'unseen': 6}, [1])
    """
    if not 0.05 <= train_share <= 0.95:
        raise usage(f"train_share: {train_share!r}; wanted 0.05 to 0.95")
    options = {
        "seen": _population(seen, "seen"),
        "unseen": _population(unseen, "unseen"),
        "unseen2": _population(unseen2, "unseen2"),
        "before": _population(before, "before"),
        "layers": _layers(
            features=features, unseen_features=unseen_features, before_features=before_features
        ),
        "labels": _arrays.labels(labels),
        "classes": _arrays.class_words(classes),
        "class_names": _arrays.names(class_names),
        "attack": _list(attack),
        "observer": _list(observer),
        "answers": [count(n, "answers", 1) for n in ([] if answers is None else answers)],
        "images": count(images, "images"),
        "images_retained": count(images_retained, "images_retained"),
        "forgotten_only": bool(forgotten_only),
        "all": bool(all),
        "ignore_accuracy": bool(ignore_accuracy),
        "train_share": float(train_share),
        "splits": count(splits, "splits", 1),
        "directions": count(directions, "directions"),
        "bootstrap": count(bootstrap, "bootstrap"),
        "seed": count(seed, "seed"),
        "jobs": 0 if jobs is None else min(count(jobs, "jobs", 1), 1024),
    }
    if not options["seen"] or not options["unseen"]:
        raise usage("seen and unseen: wanted logits of both kinds of models")
    return Audit(_core.audit(options, progress_of(progress)))


def _list(words) -> list[str]:
    if words is None:
        return []
    return words.split(",") if isinstance(words, str) else [str(word) for word in words]
