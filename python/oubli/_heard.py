"""Where lines go that the program prints to stderr: warnings, else the log "oubli"."""

from __future__ import annotations

import logging
import warnings


def heard(line: str) -> None:
    if line.startswith("warning: "):
        warnings.warn(line[len("warning: ") :], stacklevel=3)
    else:
        logging.getLogger("oubli").info(line)


class _Bar:
    """A tqdm bar per label."""

    def __init__(self, tqdm) -> None:
        self._tqdm = tqdm
        self._bar = None
        self._label = None

    def __call__(self, done: int, total: int, label: str) -> None:
        if label != self._label:
            self.close()
            self._label, self._bar = label, self._tqdm(total=total, desc=label)
        self._bar.n = done
        self._bar.refresh()
        if done >= total:
            self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = self._label = None


def progress_of(progress):
    """What the argument `progress` means: a callable, True for a bar of tqdm, or nothing."""
    if progress is None or progress is False:
        return None
    if progress is not True:
        if not callable(progress):
            from ._error import usage

            raise usage("progress: wanted True or a function of (done, total, label)")
        return progress
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None  # a bar is a comfort: the work is the same without
    return _Bar(tqdm)
