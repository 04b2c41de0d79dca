"""A list to choose a lane from: type to filter, arrows, and a preview of what is chosen (R4)."""

import os
from collections.abc import Callable
from functools import partial
from itertools import islice

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from engine.domain import events as e
from engine.domain.messages import text_of
from engine.log.sqlite.eventlog import EventLog
from engine.reader import SessionReader
from replay.cli.failures import NOT_FOUND, USAGE, Failed
from replay.cli.keys import NAMES, keys
from replay.cli.run import Run
from replay.cli.screen import answers
from replay.cli.text import as_json, in_one_line, shown
from replay.moments import FORMS
from replay.selecting import Selection, select_events

_DECISIVE = (
    *(e.LaneReset.TOPIC, e.LaneSwitched.TOPIC, e.LaneSuspended.TOPIC, e.LanePruned.TOPIC, e.TurnInterrupted.TOPIC),
    *(e.SessionCompressed.TOPIC, e.SessionEnded.TOPIC, e.ContentErased.TOPIC, e.StoreOpened.TOPIC, e.StoreClosed.TOPIC),
)
_OFFERED = 2000
_ROWS = 10
_PREVIEWED = 4


class Picker:
    """The state of a choice: what was typed, what is left of the names, and which of them is marked."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.typed = ""
        self.marked = 0

    @property
    def left(self) -> list[str]:
        """Return the names that contain every word that was typed."""
        words = self.typed.lower().split()
        return [name for name in self.names if all(word in name.lower() for word in words)]

    def press(self, key: str) -> str | None:
        """Take a key; return the name that it chooses, if it does."""
        left = self.left
        match NAMES.get(key, key):
            case "up":
                self.marked = max(self.marked - 1, 0)
            case "down":
                self.marked = min(self.marked + 1, max(len(left) - 1, 0))
            case "take" if left:
                return left[self.marked]
            case "leave":
                raise KeyboardInterrupt
            case "erase":
                self.typed, self.marked = self.typed[:-1], 0
            case typed if typed.isprintable():
                self.typed, self.marked = self.typed + typed, 0
        return None

    def shown(self, preview: list[str]) -> Group:
        """Return the list as it is on the screen, with what the marked name leads to below it."""
        left = self.left
        first = max(0, min(self.marked - _ROWS // 2, len(left) - _ROWS))
        lines = [
            Text.assemble(
                ("> ", "bold cyan"),
                in_one_line(self.typed),
                ("▏", "dim"),
                (f"  {len(left)} of {len(self.names)}", "dim"),
            )
        ]
        for at, name in enumerate(left[first : first + _ROWS], first):
            chosen = at == self.marked
            lines.append(Text(("> " if chosen else "  ") + in_one_line(name), "bold" if chosen else ""))
        lines += [Text(f"    {in_one_line(each)}", "dim") for each in preview]
        lines.append(Text("type to filter, ↑ ↓ to move, Enter to choose, Esc to leave", "dim italic"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)


def picked_lane(run: Run, reader: SessionReader) -> str:
    """Let somebody choose a lane; raise Failed where nobody can."""
    _check(run, "say which: a lane, a session or @position; `sessions list` gives names")
    names = [entry.session_key for entry in islice(reader.iter_sessions(), _OFFERED)]
    return _choose(names, partial(_last_words, reader))


def picked_moment(run: Run, log: EventLog) -> str:
    """Let somebody choose a moment among the newest decisions; raise Failed where nobody can."""
    _check(run, f"say when: {FORMS}")
    records = select_events(log, Selection(types=_DECISIVE), run.now.tzinfo, backwards=True)
    offered = {
        f"@{each.position}  {shown(each.time)}  {each.type}  {each.lane or each.session_id or each.stream}": each
        for each in islice(records, _OFFERED)
    }
    chosen = _choose(list(offered), lambda name: [offered[name].reason or "", as_json(offered[name].payload)])
    return f"@{offered[chosen].position}"


def _check(run: Run, missing: str) -> None:
    if not answers() or run.output.form != "text":
        raise Failed(missing, USAGE)
    run.progress.stop()


def _choose(names: list[str], preview: Callable[[str], list[str]]) -> str:
    if not names:
        raise Failed("there is nothing to choose from yet", NOT_FOUND)
    picker = Picker(names)
    console = Console(stderr=True, color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False)
    with keys() as pressed, Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            left = picker.left
            live.update(picker.shown(preview(left[picker.marked]) if left else []), refresh=True)
            chosen = picker.press(next(pressed))
            if chosen is not None:
                return chosen


def _last_words(reader: SessionReader, key: str) -> list[str]:
    """Return the last words said on a lane."""
    session_id = reader.peek_session_id(key)
    messages = reader.load_transcript(session_id) if session_id else []
    return [f"{each.get('role')}: {text_of(each.get('content'))}"[:200] for each in messages[-_PREVIEWED:]]
