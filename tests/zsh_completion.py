#!/usr/bin/python3
"""zsh_completion.py FOLDER: what a person gets who types Tab in zsh, with the completion _oubli of
FOLDER: commands, options, files. Exit 77 (skipped) without zsh."""
import os
import pathlib
import pty
import re
import select
import shutil
import sys
import tempfile
import time

PROMPT = "ready> "
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x07")


class Shell:
    """An interactive zsh on a terminal, without anybody's settings."""

    def __init__(self, completions, home):
        child, self.terminal = pty.fork()
        if child == 0:
            os.chdir(home)
            os.environ.update(HOME=home, ZDOTDIR=home, TERM="xterm", PS1=PROMPT)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.say(f"fpath=({completions} $fpath); autoload -Uz compinit; compinit -D -u")
        self.say("unsetopt beep; setopt no_prompt_sp; bindkey -e")
        self.say("print start''ed")
        self.until("started")

    def say(self, text):
        os.write(self.terminal, text.encode() + b"\n")

    def until(self, words, seconds=60):
        """What appears until `words` do, without the terminal's control sequences."""
        seen, end = b"", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                seen += os.read(self.terminal, 65536)
            text = CONTROL.sub("", seen.decode("utf-8", "replace"))
            if re.search(words, text):
                return text
        raise AssertionError(f"no {words!r} in {seen!r}")

    def completed(self, text, wanted):
        """Types `text` and Tab, then looks for `wanted`; empties the line again."""
        os.write(self.terminal, text.encode() + b"\t")
        found = self.until(wanted)
        os.write(self.terminal, b"\x15")
        return found


def main():
    if shutil.which("zsh") is None:
        print("skipped: no zsh")
        return 77
    with tempfile.TemporaryDirectory() as home:
        (pathlib.Path(home) / "a-model.onnx").write_text("")
        shell = Shell(os.path.abspath(sys.argv[1]), home)
        shell.completed("oubli insp", r"oubli inspect ")
        shell.completed("oubli forget --ignore-a", r"--ignore-accuracy ")
        # Once: what is common; twice: the list.
        shell.completed("oubli forget --cla\t", r"--class +--class-names")
        shell.completed("oubli forget a-mo", r"oubli forget a-model\.onnx ")
        shell.completed("oubli verify --rec", r"--recompute ")
        shell.say("exit")
    print("zsh completes commands, options and files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
