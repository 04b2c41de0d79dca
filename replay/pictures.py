"""A life as a picture for a terminal: time to scale, and below it what happened, in words (R14)."""

import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from replay.lives import LifeEvent, Silence, Timeline
from replay.words import counted, span

NARROWEST = 40
_LABEL = 10
_TICK = 9
_WHEN, _WIDE = 20, 70
"""The columns of a time, and how wide a terminal must be for it to stand beside what happened."""
_LEVELS = "▁▂▃▄▅▆▇█"
_LEGS = (("█", "cyan"), ("▒", "blue"))
_SILENCE = 3600.0
_STEPS = (1, 5, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 10080, 43200)
"""Minutes between two ticks."""


class Segment(NamedTuple):
    """A piece of a line, and its style: a colour or a weight by name, "" for none."""

    text: str
    style: str = ""


Line = tuple[Segment, ...]


class Sign(NamedTuple):
    """The sign of a kind of events; where several fall into one place, that of the highest rank is seen."""

    glyph: str
    style: str
    rank: int
    words: str


SIGNS = {
    "created": Sign("○", "green", 3, "created"),
    "recovered": Sign("↺", "green", 4, "recovered"),
    "imported": Sign("⇩", "green", 4, "imported"),
    "reset": Sign("●", "yellow", 7, "reset by policy"),
    "by hand": Sign("◆", "magenta", 8, "reset by hand"),
    "switched": Sign("⇄", "magenta", 6, "switched"),
    "compressed": Sign("»", "cyan", 5, "compressed"),
    "forked": Sign("<", "cyan", 3, "forked"),
    "released": Sign("-", "dim", 2, "left its session"),
    "pruned": Sign("∅", "dim", 3, "forgotten"),
    "suspended": Sign("‖", "yellow", 5, "suspended"),
    "interrupted": Sign("✕", "red", 9, "cut off"),
    "resumed": Sign("→", "green", 2, "resumed"),
    "held": Sign("◌", "yellow", 6, "reset held back"),
    "failed": Sign("!", "red", 6, "turn failed"),
    "undone": Sign("↶", "cyan", 2, "undone"),
    "restored": Sign("↷", "cyan", 2, "restored"),
    "rewritten": Sign("≠", "cyan", 3, "rewritten"),
    "ended": Sign("■", "dim", 4, "ended"),
    "reopened": Sign("□", "green", 3, "reopened"),
    "erased": Sign("#", "red", 9, "erased"),
    "crash": Sign("X", "red", 9, "crash"),
    "policy": Sign("▲", "yellow", 8, "policy changed"),
    "upgraded": Sign("△", "blue", 6, "other version"),
    "started": Sign("↑", "dim", 1, "started again"),
}
STORE = frozenset({"crash", "policy", "upgraded", "started", "erased"})
"""Kinds of what happened to the store, and not to the life alone."""
_PLAIN = Sign("·", "dim", 0, "other")


def timeline_lines(line: Timeline, width: int) -> list[Line]:
    """Return a timeline as styled lines, none wider than `width` columns, which is at least 40.

    Above, the time from left to right to scale: sessions, messages, turns, and what happened to the life and to the
    store. Below, the same in words, with the silences in between. Nothing in it acts upon a terminal.
    """
    width = max(width, NARROWEST)
    return [
        *_head(line, width),
        (),
        *_picture(line, width - _LABEL),
        (),
        *_legend(line, width),
        (),
        *_list(line, width),
    ]


def _head(line: Timeline, width: int) -> Iterator[Line]:
    yield (Segment(_cut(line.subject, width), "bold"), *_named(line, width))
    length = (line.ended - line.began).total_seconds()
    facts = [
        f"{_day(line.began)} {line.began:%H:%M} to {_day(line.ended)} {line.ended:%H:%M} ({span(length)})",
        counted(len(line.legs), "session"),
        counted(len(line.messages), "message"),
        counted(len(line.turns), "turn"),
        f"up to @{line.position}",
    ]
    if line.left_out:
        facts.append(f"{counted(line.left_out, 'older event')} left out")
    for each in textwrap.wrap(" · ".join(facts), width):
        yield (Segment(each, "dim"),)


def _named(line: Timeline, width: int) -> Iterator[Segment]:
    name = _clean(line.name or "")
    if name and columns(line.subject) + columns(name) + 2 <= width:
        yield Segment(f"  {name}")


class _Scale:
    """From moments to columns."""

    def __init__(self, line: Timeline, wide: int) -> None:
        self.began, self.wide = line.began, wide
        self._seconds = max((line.ended - line.began).total_seconds(), 1e-6)

    def column(self, at: datetime) -> int:
        part = (at - self.began).total_seconds() / self._seconds
        return min(max(int(part * self.wide), 0), self.wide - 1)

    def ticks(self) -> list[tuple[int, str]]:
        """Return columns with what stands over them: full hours, or the days that begin there."""
        minutes = next((each for each in _STEPS if self.wide * each * 60 / self._seconds >= _TICK), _STEPS[-1])
        step, found = timedelta(minutes=minutes), []
        midnight = self.began.replace(hour=0, minute=0, second=0, microsecond=0)
        at = midnight + step * -(-(self.began - midnight) // step)
        end = self.began + timedelta(seconds=self._seconds)
        while at <= end:
            words = _day(at) if (at.hour, at.minute) == (0, 0) else f"{at:%H:%M}"
            found.append((self.column(at), words))
            at += step
        return found


def _picture(line: Timeline, wide: int) -> Iterator[Line]:
    scale = _Scale(line, wide)
    yield from _axis(scale)
    yield _row("sessions", _sessions(line, scale))
    yield _row("messages", _density(line, scale))
    yield _row("turns", _turns(line, scale))
    yield _row("events", _signs(line, scale, lambda kind: kind not in STORE))
    yield _row("store", _signs(line, scale, lambda kind: kind in STORE))


def _axis(scale: _Scale) -> Iterator[Line]:
    words, marks, free = [" "] * scale.wide, ["─"] * scale.wide, 0
    for column, text in scale.ticks():
        marks[column] = "┬"
        if column >= free and column + len(text) <= scale.wide:
            words[column : column + len(text)] = text
            free = column + len(text) + 1
    yield (Segment(" " * _LABEL), Segment("".join(words).rstrip(), "dim"))
    yield (Segment(" " * _LABEL), Segment("".join(marks), "dim"))


def _row(label: str, cells: Sequence[Segment]) -> Line:
    """Return a row of the picture, neighbours of one style in one piece."""
    found = [Segment(label.ljust(_LABEL), "dim")]
    for cell in cells:
        if found[-1].style == cell.style and len(found) > 1:
            found[-1] = Segment(found[-1].text + cell.text, cell.style)
        else:
            found.append(cell)
    return tuple(found)


def _sessions(line: Timeline, scale: _Scale) -> list[Segment]:
    """Return which session it was on; neighbours have different shades, also where a short one is not seen."""
    there = [-1] * scale.wide
    for number, leg in enumerate(line.legs):
        first, last = scale.column(leg.began), scale.column(leg.ended or line.ended)
        for column in range(first, max(last, first + 1) if leg.ended else last + 1):
            there[column] = number
    cells, shade = [], 1
    for before, number in zip([-1, *there], there, strict=False):
        shade += number not in (before, -1)
        cells.append(Segment("·", "dim") if number < 0 else Segment(*_LEGS[shade % 2]))
    return cells


def _density(line: Timeline, scale: _Scale) -> list[Segment]:
    counts = [0] * scale.wide
    for each in line.messages:
        counts[scale.column(each.time)] += 1
    most = max(counts, default=0)
    return [Segment(_LEVELS[-(-each * 8 // most) - 1] if each else " ", "green") for each in counts]


def _turns(line: Timeline, scale: _Scale) -> list[Segment]:
    cells = [Segment(" ")] * scale.wide
    for turn in line.turns:
        column = scale.column(turn.began)
        if turn.outcome in ("interrupted", "failed"):
            sign = SIGNS[turn.outcome]
            cells[column] = Segment(sign.glyph, sign.style)
        elif cells[column].text == " ":
            cells[column] = Segment("│", "green" if turn.outcome == "finished" else "yellow")
    return cells


def _signs(line: Timeline, scale: _Scale, wanted: Callable[[str], bool]) -> list[Segment]:
    cells, ranks = [Segment(" ")] * scale.wide, [-1] * scale.wide
    for each in line.marks:
        sign, column = SIGNS.get(each.kind, _PLAIN), scale.column(each.time)
        if wanted(each.kind) and sign.rank > ranks[column]:
            cells[column], ranks[column] = Segment(sign.glyph, sign.style), sign.rank
    return cells


def _legend(line: Timeline, width: int) -> Iterator[Line]:
    """Return what the signs mean that are there."""
    there = {each.kind for each in line.marks}
    row: list[Segment] = []
    for sign in [sign for kind, sign in SIGNS.items() if kind in there]:
        used = sum(len(each.text) for each in row)
        if row and used + len(sign.words) + 5 > width:
            yield tuple(row)
            row = []
        row += [Segment(f"{sign.glyph} ", sign.style), Segment(f"{sign.words}   ", "dim")]
    if row:
        yield tuple(row)


def _list(line: Timeline, width: int) -> Iterator[Line]:
    """Return what happened in words, in the order of time, with the long silences in between."""
    pauses = [each for each in line.silences if each.seconds >= _SILENCE]
    entries: list[tuple[datetime, LifeEvent | Silence]] = [(each.time, each) for each in line.marks]
    entries += [(each.began, each) for each in pauses]
    beside = _WHEN if width >= _WIDE else 0
    for at, entry in sorted(entries, key=lambda each: each[0]):
        if isinstance(entry, Silence):
            yield (_when(at, beside), Segment(f"┆ {span(entry.seconds)} of silence", "dim"))
        else:
            yield from _entry(at, entry, width, beside)


def _entry(at: datetime, event: LifeEvent, width: int, beside: int) -> Iterator[Line]:
    """Return an event with its time beside it, or on a narrow terminal, above it."""
    sign = SIGNS.get(event.kind, _PLAIN)
    who = "" if event.actor == "gateway" else f" (by {event.actor}{f': {event.reason}' if event.reason else ''})"
    lines = _wrapped(f"{event.sentence}{who}  @{event.position}", width - beside - 2)
    first = (Segment(f"{sign.glyph} ", sign.style), Segment(lines[0]))
    if beside:
        yield (_when(at, beside), *first)
    else:
        yield (_when(at, _WHEN),)
        yield first
    for more in lines[1:]:
        yield (Segment(" " * (beside + 2)), Segment(more))


def _when(at: datetime, width: int) -> Segment:
    """Return a time for a column that is so wide, or may have no room."""
    return Segment(f"{_day(at)} {at:%H:%M:%S}".ljust(width) if width else "", "dim")


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines that no terminal acts upon and that are no wider than so many columns."""
    found: list[str] = []
    for line in textwrap.wrap(_clean(text), width) or [""]:
        while columns(line) > width:
            head = _cut(line, width, "")
            found.append(head)
            line = line[len(head) :]
        found.append(line)
    return found


def _day(at: datetime) -> str:
    return f"{at:%a} {at.day} {at:%b}"


def _clean(text: str) -> str:
    """Return a text without what a terminal acts upon."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def columns(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _cut(text: str, width: int, mark: str = "…") -> str:
    clean = _clean(text)
    if columns(clean) <= width:
        return clean
    while clean and columns(clean) + len(mark) > width:
        clean = clean[:-1]
    return clean + mark
