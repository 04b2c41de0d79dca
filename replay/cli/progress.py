"""Progress of what takes long: a bar with rate and time left on stderr, on a terminal only, after a second (R7)."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_AFTER_SECONDS = 1.0
Tell = Callable[[int, int], None]
"""Told how much is done, and of how much; 0 if that is not known."""


@contextmanager
def bar(what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """Yield what to tell of progress. Nothing is shown in a pipe, and nothing of what is done within a second."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _say_nothing
        return
    begun = clock()
    shown: Any = None

    def tell(done: int, total: int) -> None:
        nonlocal shown
        if shown is None:
            if clock() - begun < _AFTER_SECONDS:
                return
            shown = _started(what)
        shown.update(shown.task_ids[0], completed=done, total=total or None)

    try:
        yield tell
    finally:
        if shown is not None:
            shown.stop()


def _say_nothing(_: int, __: int) -> None:
    return


def _started(what: str) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:,.0f}/s", style="dim")

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR"))),
        transient=True,
    )
    progress.start()
    progress.add_task(what, total=None)
    return progress
