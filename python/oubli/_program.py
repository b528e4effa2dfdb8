"""The command `oubli` of an installed package: the program that came with it."""

from __future__ import annotations

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "oubli")
    if not os.path.exists(program):
        sys.exit("oubli: the program is not installed with this package; build/release/oubli is it")
    os.execv(program, [program, *sys.argv[1:]])
