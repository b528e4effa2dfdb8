"""Model files: what the program does, by the same code and with the same bytes."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any

from . import _arrays, _core
from ._error import Error, usage
from ._heard import progress_of
from ._means import Means


class Receipt:
    """What `oubli forget` did: its receipt, which lies beside the new model."""

    def __init__(self, fields: dict, model: str | None) -> None:
        self._fields = fields
        self.model = model  #: the new model; None after a dry run

    @property
    def path(self) -> str | None:
        """Of the receipt; None after a dry run."""
        return None if self.model is None else self.model + ".receipt.json"

    @property
    def warnings(self) -> list[str]:
        return self._fields["warnings"]

    @property
    def leaks(self) -> dict | None:
        """What the remaining logits still tell; None if no data was given."""
        return self._fields["leak_check"]

    def to_dict(self) -> dict:
        return self._fields

    def report(self, path, *, title: str = "", force: bool = False) -> None:
        """Draws the receipt as an HTML page, as `oubli report` does."""
        if self.path is None:
            raise usage("report: a dry run leaves no receipt")
        _core.write_report([self.path], path, force, "", title)

    def __repr__(self) -> str:
        asked = self._fields["request"]
        where = "dry run" if self.model is None else self.model
        return f"<oubli.Receipt: classes {asked['forget']} forgotten by {asked['method']}: {where}>"


class _Words:
    """A command line under way. Arrays are written to files that live as long as this."""

    def __init__(self, *words: str) -> None:
        self._words = list(words)
        self._files = contextlib.ExitStack()
        self._folder: str | None = None

    def __enter__(self) -> _Words:
        return self

    def __exit__(self, *raised) -> None:
        self._files.close()

    def argument(self, path) -> None:
        text = _text(path)
        # What looks like an option is none.
        self._words.append(os.path.join(".", text) if text.startswith("-") else text)

    def options(self, **options) -> None:
        """Named as on the command line, with _ for -."""
        for name, value in options.items():
            word = "--" + name.replace("_", "-")
            if value is None or value is False:
                continue
            if value is True:
                self._words.append(word)
            elif isinstance(value, (list, tuple)):
                self._words += [f"{word}={_text(part)}" for part in value]
            else:
                self._words.append(f"{word}={_text(value)}")

    def array(self, name: str, value) -> None:
        """A path (FILE or FILE:NAME), or an array."""
        if value is None or isinstance(value, (str, os.PathLike)):
            return self.options(**{name: value})
        import numpy as np

        path = os.path.join(self.folder(), name + ".npy")
        np.save(path, _for_file(value, name))
        self.options(**{name: path})

    def data(self, data) -> None:
        """A path or a data set's name, or inputs and labels."""
        if data is not None and not isinstance(data, (str, os.PathLike)):
            import numpy as np

            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise usage(f"data: {type(data).__name__}; wanted a path, or (inputs, labels)")
            path = os.path.join(self.folder(), "data.npz")
            np.savez(path, x=_for_file(data[0], "data"), y=_for_file(data[1], "labels"))
            data = path
        self.options(data=data)

    def means(self, means) -> None:
        if isinstance(means, Means):
            path = os.path.join(self.folder(), "means.npz")
            means.save(path)
            means = path
        self.options(means=means)

    def class_names(self, names) -> None:
        """A path, or a list of names."""
        if names is not None and not isinstance(names, (str, os.PathLike)):
            path = os.path.join(self.folder(), "class-names.txt")
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(str(name) + "\n" for name in names)
            names = path
        self.options(class_names=names)

    def folder(self) -> str:
        if self._folder is None:
            self._folder = self._files.enter_context(tempfile.TemporaryDirectory())
        return self._folder

    def run(self, progress=None) -> Any:
        return json.loads(_core.command(self._words, progress_of(progress)))


def _for_file(value, what: str):
    """The NumPy array that a file can hold."""
    array = _arrays.take(value, what).row_major()
    if array.dtype == "bfloat16":
        raise usage(f"{what}: .npy files hold no bfloat16; use .float()")
    return array.data


def _text(value) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    text = repr(value) if isinstance(value, float) else str(value)
    if "\0" in text:
        raise usage(f"{text!r}: holds a zero byte")
    return text


def _numbers(values) -> str | None:
    if values is None:
        return None
    if not hasattr(values, "__iter__"):
        values = [values]
    return ",".join(repr(float(value)) for value in values)


def _add_model(words: _Words, given: dict) -> None:
    """The options by which forget, inspect and verify name a model and what is known of it."""
    for name in ("features", "logits", "labels"):
        words.array(name, given.pop(name))
    words.data(given.pop("data"))
    words.means(given.pop("means"))
    words.class_names(given.pop("class_names"))
    words.options(mean=_numbers(given.pop("mean")), std=_numbers(given.pop("std")))
    size = given.pop("size")
    words.options(size=size if size is None or isinstance(size, str) else f"{size[0]}x{size[1]}")
    words.options(**given)


def forget_file(
    model,
    *,
    classes,
    output=None,
    method: str = "normalization",
    solver: str = "auto",
    target: Any = None,
    explain: float | None = None,
    features: Any = None,
    logits: Any = None,
    labels: Any = None,
    data=None,
    means: Any = None,
    samples: int | None = None,
    random_samples: bool = False,
    seed: int = 0,
    class_names: Any = None,
    head: str | None = None,
    weights: str | None = None,
    bias: str | None = None,
    no_bias: bool = False,
    transposed: bool = False,
    rows_are_classes: bool = False,
    scale: float | None = None,
    mean: Any = None,
    std: Any = None,
    layout: str | None = None,
    size: Any = None,
    grey: bool = False,
    colour: bool = False,
    runtime=None,
    run_with=None,
    note: str | None = None,
    previous=None,
    sign=None,
    attest: bool = False,
    no_attest: bool = False,
    bundle: bool = False,
    report=None,
    keep_seed: bool = False,
    dry_run: bool = False,
    allow_nonlinear_tail: bool = False,
    ignore_accuracy: bool = False,
    force: bool = False,
    progress=None,
    **options: Any,
) -> Receipt:
    """Takes classes out of a model file: `oubli forget`, with its names and its bytes.

    Writes `output`, its receipt and its means beside it, all or nothing; the model is not changed.
    `features`, `logits`, `labels` and `target` are paths (FILE.npy, FILE.npz:NAME) or arrays, which
    are written to temporary files first; `means` a path or `Means`; `data` a path, a data set's
    name, or (inputs, labels). Options that are not named here are handed on as they are; the
    program says what it does not know.

    >>> import numpy as np, oubli
    >>> rng = np.random.default_rng(0)
    >>> W, y = rng.normal(size=(4, 8)), np.arange(400) % 4
    >>> np.savez("head.npz", W=W)
    >>> receipt = oubli.forget_file("head.npz", classes=[2], output="new.npz",
    ...                             features=W[y] + rng.normal(size=(400, 8)), labels=y)
    >>> receipt
    <oubli.Receipt: classes [2] forgotten by normalization: new.npz>
    >>> np.load("new.npz")["W"].shape
    (3, 8)
    >>> oubli.verify(receipt.path, model="new.npz")["passed"]
    True
    """
    apart = ("model", "classes", "output", "target", "progress", "options")
    given = {name: value for name, value in locals().items() if name not in (*apart, "apart")}
    given.update(options)
    with _Words("forget", "--json") as words:
        words.argument(model)
        words.options(**{"class": _arrays.class_words(classes)}, output=output)
        words.array("target", target)
        _add_model(words, given)
        fields = words.run(progress)
    if output is None or dry_run:
        return Receipt(fields, None)
    new = _text(output)
    return Receipt(fields, new.rstrip("/") or new)


def inspect(model, *, classes=None, progress=None, **options: Any) -> dict:
    """What a model file holds, and what forgetting would do: `oubli inspect --json`.

    Options are those of `forget_file` that name the head, the data and the method.

    >>> import numpy as np, oubli
    >>> np.savez("head.npz", W=np.eye(4, 8, dtype="float32"), b=np.zeros(4, "float32"))
    >>> head = oubli.inspect("head.npz")["head"]
    >>> head["classes"], head["features"], head["dtype"]
    (4, 8, 'float32')
    """
    given = {**dict.fromkeys((*_MODEL, "target")), **options}
    with _Words("inspect", "--json") as words:
        words.argument(model)
        if classes is not None:
            words.options(**{"class": _arrays.class_words(classes)})
        words.array("target", given.pop("target"))
        _add_model(words, given)
        return words.run(progress)


def verify(
    receipt,
    *,
    model,
    key=None,
    threshold: int | None = None,
    recompute: bool = False,
    original=None,
    previous=None,
    target: Any = None,
    seed: int | None = None,
    progress=None,
    **options: Any,
) -> dict:
    """Checks a receipt against the files it names: `oubli verify --json`.

    `receipt`: NEW.receipt.json, NEW.intoto.jsonl or NEW.sigstore.json; `model`: the new model; with
    `original`, the old one, and its means or data the new head is computed anew. Options are those
    of `forget_file` that name the head and the data. Raises `Error` with code 5 if a check fails;
    its `result` then says which.

    >>> import numpy as np, oubli
    >>> np.savez("old.npz", W=np.eye(4, 8), b=np.zeros(4))
    >>> receipt = oubli.forget_file("old.npz", classes=[2], output="cut.npz", method="naive")
    >>> result = oubli.verify(receipt.path, model="cut.npz", original="old.npz")
    >>> result["passed"], [step["state"] for step in result["steps"] if step["state"] == "FAILED"]
    (True, [])
    """
    given = {**dict.fromkeys(_MODEL), **options}
    with _Words("verify", "--json") as words:
        words.argument(receipt)
        words.options(model=model, original=original, threshold=threshold, recompute=recompute)
        words.options(key=[key] if isinstance(key, (str, os.PathLike)) else key)
        words.options(previous=previous, seed=seed)
        words.array("target", target)
        _add_model(words, given)
        try:
            return words.run(progress)
        except Error as error:
            if error.output:
                error.result = json.loads(error.output)
            raise


# What is more than a word of the command line.
_MODEL = ("features", "logits", "labels", "data", "means", "class_names", "mean", "std", "size")
