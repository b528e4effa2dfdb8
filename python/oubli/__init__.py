"""Takes a class out of a trained classifier, and measures whether that worked.

The same library as the program `oubli`; docs/python.md has an overview. Arrays: `forget`, `Means`.
Files: `inspect`, `forget_file`, `verify`. Measuring: `audit`. Models of other libraries:
`oubli.torch.forget_`, `oubli.sklearn.forget_`, `oubli.hf.forget`. Failures: `Error`.
"""

from __future__ import annotations

import importlib

from . import _core
from ._audit import Audit, audit
from ._error import Code, Error
from ._files import Receipt, forget_file, inspect, verify
from ._forget import Forgotten, Report, forget
from ._means import Means

__version__ = _core.version
#: Names of the methods and solvers, as the command line takes them.
methods: tuple[str, ...] = _core.methods
solvers: tuple[str, ...] = _core.solvers

__all__ = [
    "Audit",
    "Code",
    "Error",
    "Forgotten",
    "Means",
    "Receipt",
    "Report",
    "audit",
    "forget",
    "forget_file",
    "inspect",
    "methods",
    "solvers",
    "verify",
]

_WITH_OTHERS = ("hf", "sklearn", "torch")  # loaded when they are asked for


def __getattr__(name: str):
    if name in _WITH_OTHERS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WITH_OTHERS])
