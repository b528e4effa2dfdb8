"""The one exception of the package."""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """What went wrong, numbered as the program's exit codes."""

    BUG = 1
    USAGE = 2
    BAD_INPUT = 3
    UNFILTERABLE = 4
    SELF_CHECK = 5
    IO = 6
    MISSING = 7
    SOME_FAILED = 8
    UNDECIDED = 9
    INTERRUPTED = 130


class Error(Exception):
    """Whatever goes wrong, in the words of the program, with its exit code as `code`.

    >>> import oubli
    >>> try:
    ...     oubli.inspect("not-there.npz")
    ... except oubli.Error as error:
    ...     print(error.code, error.code.name)
    6 IO
    """

    code: Code
    output: str  #: what a command printed before it failed

    def __init__(self, message: str, code: int = Code.USAGE, output: str = "") -> None:
        super().__init__(message)
        self.code = Code(code)
        self.output = output

    def __reduce__(self):
        return type(self), (str(self), int(self.code), self.output)


def usage(message: str) -> Error:
    return Error(message, Code.USAGE)


def bad_input(message: str) -> Error:
    return Error(message, Code.BAD_INPUT)


def unfilterable(message: str) -> Error:
    return Error(message, Code.UNFILTERABLE)
