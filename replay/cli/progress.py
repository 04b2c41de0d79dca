"""Progress of what takes long: a bar with rate and time left on stderr, on a terminal only, after a second (R7)."""

import os
import sys
import threading
from typing import Any

_AFTER_SECONDS = 1.0


class Bar:
    """A bar that shows itself when a verb has not begun to answer after a second, and goes when it does."""

    def __init__(self, what: str, after: float = _AFTER_SECONDS) -> None:
        self._what = what
        self._after = after
        self._mutex = threading.Lock()
        self._timer: threading.Timer | None = None
        self._shown: Any = None
        self._done = (0, 0)

    def start(self) -> None:
        """Begin to wait; nothing is ever shown where nobody looks."""
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._timer = threading.Timer(self._after, self._show)
            self._timer.daemon = True
            self._timer.start()

    def tell(self, done: int, total: int) -> None:
        """Take in how much is done, and of how much; 0 if that is not known."""
        with self._mutex:
            self._done = done, total
            self._update()

    def stop(self) -> None:
        """Take the bar away."""
        if self._timer is not None:
            self._timer.cancel()
        with self._mutex:
            self._timer, shown, self._shown = None, self._shown, None
            if shown is not None:
                shown.stop()

    def _show(self) -> None:
        with self._mutex:
            if self._timer is not None and self._shown is None:
                self._shown = _started(self._what)
                self._update()

    def _update(self) -> None:
        if self._shown is not None:
            done, total = self._done
            self._shown.update(self._shown.task_ids[0], completed=done, total=total or None)


def _started(what: str) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")

    plain = bool(os.environ.get("NO_COLOR"))
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, color_system=None if plain else "auto"),
        transient=True,
    )
    progress.add_task(what, total=None)
    progress.start()
    return progress
