"""The command `sessions`: parses, calls what `replay` and `engine` offer, and prints; nothing else is decided here.

Nothing of it is imported by the packages that a gateway embeds, and a verb is imported when it is used.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, **options: Any) -> None:
    """Run the command with arguments, by default those of the process; it ends with SystemExit."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started it
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, closefd=False))  # noqa: SIM115 - till the end
    try:
        from replay.cli.command import sessions

        sessions.main(arguments, prog_name="sessions", **options)
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # before anything was begun
