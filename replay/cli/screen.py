"""The terminal, or the pipe, that text goes to: its width, its colours, and whether somebody looks at it (R2)."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

Colour = Literal["auto", "always", "never"]
_NARROWEST, _WIDEST = 20, 400


class Screen(NamedTuple):
    """Facts about standard output."""

    looked_at: bool
    """True if it is a terminal that can show more than plain lines."""
    coloured: bool
    width: int

    def console(self) -> "Console":
        """Return what prints on it."""
        from rich.console import Console

        return Console(
            width=self.width,
            force_terminal=self.coloured,
            color_system="standard" if self.coloured else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )


def screen(colour: Colour) -> Screen:
    """Return standard output as it is: `--color` wins, then NO_COLOR, FORCE_COLOR, and what the terminal is."""
    terminal = is_terminal() and os.environ.get("TERM") != "dumb"
    if colour != "auto":
        coloured = colour == "always"
    elif os.environ.get("NO_COLOR"):
        coloured = False
    else:
        coloured = terminal or bool(os.environ.get("FORCE_COLOR"))
    width = shutil.get_terminal_size((80, 24)).columns
    return Screen(terminal or coloured, coloured, min(max(width, _NARROWEST), _WIDEST))


def is_terminal() -> bool:
    """Return True if standard output is a terminal, of whatever kind."""
    return sys.stdout.isatty()


def answers() -> bool:
    """Return True if somebody sits at a terminal and can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
