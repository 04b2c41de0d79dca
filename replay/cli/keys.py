"""Keys that somebody presses on a terminal, one by one and at once."""

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = {
    "\x1b[A": "up", "\x1bOA": "up", "\x10": "up",
    "\x1b[B": "down", "\x1bOB": "down", "\x0e": "down",
    "\x1b[C": "right", "\x1bOC": "right", "\x06": "right",
    "\x1b[D": "left", "\x1bOD": "left", "\x02": "left",
    "\r": "take", "\n": "take",
    "\x7f": "erase", "\b": "erase",
    "\x1b": "leave", "\x03": "leave", "\x04": "leave",
}  # fmt: skip
"""What keys are called, those of Emacs too."""
_KEY = re.compile("\x1b(?:[\\[O][0-9;]*[A-Za-z~])?|.", re.DOTALL)
_CUT = re.compile("\x1b(?:[\\[O][0-9;]*)?$")
"""The end of what was read, if it may be the beginning of a key."""


@contextmanager
def keys() -> Iterator[Iterator[str]]:
    """Yield the keys that are pressed, one by one; the terminal is as it was afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _pressed(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(descriptor: int) -> Iterator[str]:
    while data := os.read(descriptor, 32):
        text = data.decode("utf-8", "ignore")
        if _CUT.search(text) and select.select([descriptor], [], [], 0.05)[0]:
            text += os.read(descriptor, 8).decode("utf-8", "ignore")
        yield from _KEY.findall(text)
    raise KeyboardInterrupt
