"""Forgetting in model folders of Hugging Face: config.json beside model.safetensors."""

from __future__ import annotations

import os
from typing import Any

from ._error import usage
from ._files import Receipt, forget_file, inspect
from ._means import Means


def forget(folder, data: Any, classes, *, out, **options) -> Receipt:
    """Takes classes out of a model folder: a new folder `out`, its receipt and means beside it.

    data: what is known of the inputs of the last layer: (features, labels); {"features": ...,
    "labels": ...}; an iterable of such batches, which are not kept; `Means`, or the path of a means
    file; None for methods that need nothing. `classes`: by index, or by name as in id2label.
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


def _known(data, folder, options) -> dict:
    if data is None:
        return {}
    if isinstance(data, (Means, str, os.PathLike)):
        return {"means": data}
    if isinstance(data, dict):
        return dict(zip(("features", "labels"), _pair(data)))
    if isinstance(data, (list, tuple)) and len(data) == 2 and _is_array(data[0]):
        return dict(zip(("features", "labels"), _pair(data)))
    named = ("weights", "bias", "no_bias", "transposed", "rows_are_classes")
    head = inspect(folder, **{name: options[name] for name in named if name in options})["head"]
    means = Means(head["classes"])
    for batch in data:
        means.update(*_pair(batch))
    return {"means": means}


def _is_array(x) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _pair(batch):
    if isinstance(batch, dict):
        if "features" not in batch or "labels" not in batch:
            raise usage(f"data: has {', '.join(map(str, batch))}; wanted features and labels")
        return batch["features"], batch["labels"]
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return batch
    raise usage(f"data: gives {type(batch).__name__}; wanted (features, labels)")
