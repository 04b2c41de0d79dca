"""Failures in words for a person and in exit codes for a script (R5)."""

import errno
import os
import sys
from typing import IO, Any

import click

from replay.cli.text import safe

OK, FAILURE, USAGE, NOT_FOUND, INTEGRITY, CONFLICT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

_CODES = {
    **dict.fromkeys(("bad_moment", "ambiguous", "unsafe_query"), USAGE),
    **dict.fromkeys(("no_store", "not_a_log", "unknown_subject", "unknown_session", "unknown_lane"), NOT_FOUND),
    **dict.fromkeys(("corrupt", "corrupt_state", "archive"), INTEGRITY),
    **dict.fromkeys(("conflict", "tracking_conflict", "locked", "turn_in_progress", "turn_lost"), CONFLICT),
    **dict.fromkeys(("replaced_tables", "export_conflict"), CONFLICT),
}
_FULL = "there is no space left for what is to be written; free some, or write it elsewhere"
_NEXT = {
    "corrupt": "`sessions verify` says where it is damaged, `sessions salvage TO` takes what can be read elsewhere",
    "corrupt_state": "`sessions verify` compares the tables with the log, which is not concerned",
    "newer_schema": "install the newer session-engine, or look at a backup from before",
    "not_a_log": "name a folder with sessions.db, or such a file",
    "locked": "look at what the other process does, and try again",
}


class Failed(click.ClickException):
    """A failure that ends the command: its words, the lines below them, and the exit code."""

    def __init__(self, message: str, code: int, *more: str) -> None:
        super().__init__(message)
        self._code = code
        self.more = more

    @property
    def exit_code(self) -> int:  # type: ignore[override] # of the class in Click
        """Return the exit code."""
        return self._code

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on stderr."""
        out = sys.stderr if file is None else file
        click.echo(f"sessions: {safe(self.format_message())}", file=out)
        for line in self.more:
            click.echo(f"  {safe(line)}", file=out)


def failure_of(error: BaseException) -> Failed | None:
    """Return an error as a failure of the command; None for one that nobody expected, to be seen whole."""
    if isinstance(error, KeyboardInterrupt):
        return Failed("interrupted; nothing was left half done", INTERRUPTED)
    code = getattr(error, "code", None)
    if isinstance(code, str) and isinstance(error, Exception):  # an EngineError, told by its code: nothing is imported
        listed = tuple(getattr(error, "candidates", ()))
        following = (_NEXT[code],) if code in _NEXT else ()
        return Failed(str(error), _CODES.get(code, FAILURE), *listed, *following)
    if isinstance(error, ValueError):
        return Failed(str(error), USAGE)
    if isinstance(error, OSError):
        full = error.errno == errno.ENOSPC
        return Failed(_FULL if full else str(error), FAILURE)
    return None


def leave_quietly() -> None:
    """Let what is still buffered for a reader that went away go nowhere, without a word."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        return  # a stream that is no file
    finally:
        os.close(nowhere)
