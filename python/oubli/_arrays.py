"""Arrays of NumPy, torch and whoever speaks DLPack, as the library takes them: without a copy where
they lie row by row in memory, and given back as what they came as."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from . import _core
from ._error import bad_input, usage

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class Array(NamedTuple):
    """A NumPy array that shares memory with what was given, and the name of its element type."""

    data: Any
    dtype: str
    origin: Any  # what was given

    def row_major(self):
        """Itself, or a copy whose rows lie one after the other."""
        import numpy as np

        data = self.data
        if not data.dtype.isnative:
            data = data.astype(data.dtype.newbyteorder("="))
        return self._replace(data=np.ascontiguousarray(data).reshape(data.shape))

    def given(self, what: str) -> _core.Given:
        return _core.Given(self.row_major().data, self.dtype, what)

    def back(self, result):
        """`result`, of this element type, as what `origin` is: a torch tensor or a NumPy array."""
        if self.dtype == "bfloat16":
            if _is_torch(self.origin):
                torch = sys.modules["torch"]
                return torch.from_numpy(result.view("int16")).view(torch.bfloat16)
            return result.view(self.origin.dtype)  # of ml_dtypes
        return sys.modules["torch"].from_numpy(result) if _is_torch(self.origin) else result


def _is_torch(x) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _from_torch(x, what: str):
    torch = sys.modules["torch"]
    if x.device.type != "cpu":
        raise usage(f"{what}: is on the device {x.device}; wanted the CPU's memory: use .cpu()")
    if x.layout != torch.strided:
        raise bad_input(f"{what}: {x.layout} tensor; wanted a dense one: use .to_dense()")
    x = x.detach().resolve_neg().resolve_conj()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view("uint16"), "bfloat16"
    try:
        array = x.numpy()
    except (TypeError, RuntimeError) as error:
        raise bad_input(f"{what}: {x.dtype}; wanted floats or integers ({error})") from None
    return array, array.dtype.name


def _from_dlpack(x, what: str):
    import numpy as np

    if x.__dlpack_device__()[0] not in (1, 3):  # the CPU's memory, or what a GPU shares with it
        raise usage(f"{what}: is on another device; wanted the CPU's memory")
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise bad_input(f"{what}: cannot be read as an array: {error}") from None
    return array, array.dtype.name


def take(x, what: str) -> Array:
    """The array that `x` is, without a copy; lists become arrays."""
    import numpy as np

    if isinstance(x, Array):
        return x
    if _is_torch(x):
        array, dtype = _from_torch(x, what)
        return Array(array, dtype, x)
    if isinstance(x, np.ma.MaskedArray):
        raise bad_input(f"{what}: a masked array; wanted one whose elements all count")
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        array, dtype = _from_dlpack(x, what)
        return Array(array, dtype, array)
    try:
        array = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise bad_input(f"{what}: no array: {error}") from None
    if array.dtype.name == "bfloat16":  # of ml_dtypes
        return Array(array.view("uint16"), "bfloat16", array)
    if array.dtype.kind not in "fiub":
        kind = "text" if array.dtype.kind in "US" else array.dtype.name
        raise bad_input(f"{what}: elements of type {kind}; wanted numbers")
    if array.dtype.kind == "b":
        return Array(array, "bool", x)
    return Array(array, array.dtype.newbyteorder("=").name, array)


def floats(x, what: str, ndim: int | None = None) -> Array:
    """The same for what must be floats."""
    array = take(x, what)
    if array.dtype not in _FLOATS:
        raise bad_input(f"{what}: {array.dtype}; wanted one of {', '.join(_FLOATS)}")
    if ndim is not None and array.data.ndim != ndim:
        raise bad_input(f"{what}: {array.data.ndim} dimensions; wanted {ndim}")
    return array


def labels(x, what: str = "labels") -> _core.Given:
    """Class labels: integers that number the classes from 0 on."""
    if _is_text(x):
        raise bad_input(
            f"{what}: text; wanted the index of each sample's class, from 0 on, as in "
            "numpy.unique(labels, return_inverse=True)"
        )
    array = take(x, what)
    if array.dtype in _FLOATS or array.dtype == "bool":
        raise bad_input(f"{what}: {array.dtype}; wanted integers")
    return array.given(what)


def _is_text(x) -> bool:
    import numpy as np

    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        return False
    try:
        array = np.asarray(x)
    except (ValueError, TypeError):
        return False
    objects = array.dtype.kind == "O" and array.size  # columns of pandas are such
    return array.dtype.kind in "US" or bool(objects and isinstance(array.flat[0], str))


class Head(NamedTuple):
    """The last layer as the library takes it: a matrix that lies in columns is given transposed."""

    weights: Array
    bias: Array | None
    transposed: bool  # `given_weights` is features x classes
    turned: bool  # `given_weights` is the transpose of `weights`
    given_weights: _core.Given
    given_bias: _core.Given | None

    def back(self, weights, bias):
        """New weights and bias as what the old ones were."""
        if self.turned:
            weights = weights.T
        if bias is None:
            return self.weights.back(weights), None
        origin = self.bias if self.bias is not None else self.weights
        return self.weights.back(weights), origin.back(bias)


def head(W, b, *, transposed: bool = False) -> Head:
    weights = floats(W, "W", 2)
    bias = None if b is None else floats(b, "b", 1)
    data = weights.data
    turned = not data.flags.c_contiguous and data.T.flags.c_contiguous
    given = weights._replace(data=data.T) if turned else weights
    return Head(
        weights,
        bias,
        transposed != turned,
        turned,
        given.given("W"),
        None if bias is None else bias.given("b"),
    )


def class_words(classes, what: str = "classes") -> list[str]:
    """Classes by index or name, in the words of the command line."""
    if isinstance(classes, (str, int)) or not hasattr(classes, "__iter__"):
        classes = [classes]
    words = []
    for c in classes:
        if isinstance(c, str):
            words.append(c)
        elif hasattr(c, "__index__") and not isinstance(c, bool) and c.__index__() >= 0:
            words.append(f"index:{c.__index__()}")
        else:
            raise usage(f"{what}: {c!r}; wanted the index of a class, from 0 on, or its name")
    if not words:
        raise usage(f"{what}: empty; wanted at least one class to forget")
    return words


def names(class_names) -> list[str]:
    if class_names is None:
        return []
    if isinstance(class_names, (str, bytes)):
        raise usage(f"class_names: {class_names!r}; wanted a list of names, one for each class")
    return [str(name) for name in class_names]
