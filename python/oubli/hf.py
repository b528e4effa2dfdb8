"""Forgetting in model folders of Hugging Face: config.json beside model.safetensors."""

from __future__ import annotations

import os
from typing import Any

from . import _arrays
from ._error import bad_input, usage
from ._files import Receipt, forget_file, inspect
from ._means import Means


def forget(folder, data: Any, classes, *, out, **options) -> Receipt:
    """Takes classes out of a model folder: a new folder `out`, its receipt and means beside it.

    data: what is known of the inputs of the last layer: (features, labels); {"features": ...,
    "labels": ...}; a dataset with columns of these names (`datasets.Dataset`; "label" will do); an
    iterable of such batches or samples, which are not kept; `Means`, or the path of a means file;
    None for methods that need nothing. With `run_with="MODEL.onnx"`, an export of the same model,
    data is what that is run on: a path as for `--data`, (inputs, labels), or a dataset with a
    column image, images, pixel_values or x. `classes`: by index, or by name as in id2label.
    Options are those of `forget_file`.

    >>> import json, os, numpy as np, oubli
    >>> os.mkdir("vit")
    >>> with open("vit/config.json", "w") as file:
    ...     json.dump({"id2label": {"0": "ant", "1": "bee", "2": "cat"}}, file)
    >>> tensor = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
    >>> header = json.dumps({"classifier.weight": tensor}).encode()
    >>> with open("vit/model.safetensors", "wb") as file:
    ...     _ = file.write(len(header).to_bytes(8, "little") + header)
    ...     _ = file.write(np.eye(3, 4, dtype="float32").tobytes())
    >>> receipt = oubli.hf.forget("vit", None, ["bee"], out="vit-2", method="naive")
    >>> json.load(open("vit-2/config.json"))["id2label"]
    {'0': 'ant', '1': 'cat'}
    """
    if not os.path.isdir(folder):
        raise usage(f"{os.fspath(folder)}: no folder; wanted one with config.json")
    return forget_file(
        folder, classes=classes, output=out, **_known(data, folder, options), **options
    )


_FEATURES = ("features",)
_INPUTS = ("image", "images", "pixel_values", "x")
_LABELS = ("labels", "label")
_AT_ONCE = 1024  # single samples that are gathered to a batch


def _known(data, folder, options) -> dict:
    """What forget_file is to be told of the data."""
    if data is None:
        return {}
    is_path = isinstance(data, (str, os.PathLike))
    if options.get("run_with") is not None:
        if isinstance(data, Means):
            raise usage("data: means, and run_with; wanted what the model is to be run on")
        return {"data": data if is_path else _columns(data, _INPUTS, folder, options)}
    if is_path or isinstance(data, Means):
        return {"means": data}
    pair = isinstance(data, (list, tuple)) and len(data) == 2 and _is_array(data[0])
    if isinstance(data, dict) or _is_dataset(data) or pair:
        return dict(zip(("features", "labels"), _columns(data, _FEATURES, folder, options)))
    means = Means(_inspected(folder, options)["head"]["classes"])
    for x, y in _batches(data):
        means.update(x, y)
    return {"means": means}


def _inspected(folder, options) -> dict:
    named = ("weights", "bias", "no_bias", "transposed", "rows_are_classes")
    return inspect(folder, **{name: options[name] for name in named if name in options})


def _is_array(x) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _is_dataset(x) -> bool:
    return all(hasattr(x, name) for name in ("column_names", "__getitem__", "__len__"))


def _columns(data, names, folder, options):
    """Two arrays: of the column that has one of these names, and of the labels."""
    if not _is_dataset(data):
        return _pair(data, names)
    columns = [_one_of(data.column_names, names), _one_of(data.column_names, _LABELS)]
    _check_names(data, columns[1], folder, options)
    if hasattr(data, "with_format"):
        data = data.with_format("numpy")
    return tuple(_array(data[column], f"data: {column}") for column in columns)


def _array(column, what: str):
    """What arrays are made of, or of several of one shape."""
    if not _is_array(column):
        column = [part if isinstance(part, (list, int, float)) else _plain(part) for part in column]
    return _arrays.take(column, what)


def _plain(x):
    import numpy as np

    return np.asarray(x)  # pictures of PIL, arrays


def _check_names(data, column, folder, options) -> None:
    """A dataset that names its classes names them as the model does: numbers alone can mislead."""
    features = getattr(data, "features", None)
    names = getattr(features[column], "names", None) if hasattr(features, "keys") else None
    known = _inspected(folder, options).get("class_names") or []
    if names is None or not known or list(names) == list(known):
        return
    differ = next((j for j, pair in enumerate(zip(names, known)) if pair[0] != pair[1]), None)
    if differ is None:
        found = f"{len(names)} classes, but the model has {len(known)}"
    else:
        found = f"class {differ} is {names[differ]!r}, but the model's is {known[differ]!r}"
    raise bad_input(
        f"data: {column}: {found}; wanted the model's numbering: align_labels_with_mapping"
    )


def _one_of(found, names) -> str:
    there = [name for name in names if name in found]
    if len(there) != 1:
        raise usage(
            f"data: has {', '.join(map(str, found))}; wanted one of {', '.join(names)} and "
            f"{' or '.join(_LABELS)}"
        )
    return there[0]


def _pair(batch, names=_FEATURES):
    if hasattr(batch, "keys"):
        return batch[_one_of(list(batch), names)], batch[_one_of(list(batch), _LABELS)]
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return tuple(batch)
    raise usage(f"data: gives {type(batch).__name__}; wanted ({names[0]}, labels)")


def _batches(data):
    """Batches as they come; of single samples, many at once."""
    waiting = []
    for item in data:
        x, y = _pair(item)
        x = _arrays.floats(x, "data: features")
        if x.data.ndim != 1:
            yield x, y
            continue
        waiting.append((x, y))
        if len(waiting) == _AT_ONCE:
            yield _stacked(waiting)
            waiting = []
    if waiting:
        yield _stacked(waiting)


def _stacked(samples):
    import numpy as np

    first = samples[0][0]
    if any(x.dtype != first.dtype or x.data.shape != first.data.shape for x, _ in samples):
        raise bad_input("data: samples of different shapes or types; wanted them all alike")
    labels = np.array([_arrays.take(y, "data: labels").data for _, y in samples])
    return first._replace(data=np.stack([x.data for x, _ in samples])), labels
