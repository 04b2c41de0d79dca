"""A life as one HTML page: the picture, the transcript and the decisions, and a slider that moves them through time.

The page needs no network and no other file. Everything in it is escaped, and its policy lets no script run but its own.
Without JavaScript it is a plain list.
"""

import hashlib
import html
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from importlib.resources import files
from typing import Any

from engine.clock import local_now
from engine.domain import chat_events as c, events as e
from engine.domain.lane import Lane
from engine.domain.streams import SESSION
from engine.domain.times import moment
from engine.log.protocol import Log
from replay.lives import MOST_EVENTS, Life, LifeEvent, Timeline, life_of
from replay.moments import Moment, shown
from replay.pictures import SIGNS, STORE, Sign
from replay.said import Said, said_in
from replay.settings import History, settings_of
from replay.words import counted, rules, span

_UNSENT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_STEPS = frozenset({"usage", "touched"})
_TICKS = (5, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 10080, 43200)
_MOST_TICKS = 11
_PAUSE = 3600.0
_CLOSE = {"w": 3.2, "n": 8.0}
"""How near to each other signs cannot stand in a row, in hundredths, on a wide and on a narrow page."""
_ROWS = 4
_PLAIN = Sign("·", "dim", 0, "other")

Change = Callable[[str], str]
"""Changes a text before it is shown: to redact it, say."""


def timeline_html(
    log: Log,
    subject: str,
    at: Moment | int | None = None,
    *,
    zone: tzinfo | None = None,
    most: int = MOST_EVENTS,
    change: Change | None = None,
) -> str:
    """Return the life of a lane or a conversation as one self-contained page.

    Arguments are those of `timeline`. `change` is applied to every text of the store before it is escaped.
    """
    here = local_now().tzinfo if zone is None else zone
    life = life_of(log, subject, at, zone=here, most=most)
    return _Page(log, life, here, change or str).text()


class _Page:
    """Puts a page together."""

    def __init__(self, log: Log, life: Life, zone: tzinfo | None, change: Change) -> None:
        self._line: Timeline = life.timeline
        self._life = life
        self._zone = zone
        self._change = change
        self._seconds = max((self._line.ended - self._line.began).total_seconds(), 1e-6)
        self._history = settings_of(log.reader, self._line.position)
        found = [each for name in life.sessions for each in said_in(log.reader, name, self._line.position)]
        self._said = found[-MOST_EVENTS:]
        self._steps = [each for each in self._line.events if each.kind not in _NO_STEPS]
        self._numbers = {each.position: number for number, each in enumerate(self._steps)}

    def text(self) -> str:
        template = files("replay").joinpath("page.html").read_text("utf-8")
        script = files("replay").joinpath("page.js").read_text("utf-8")
        parts = {
            "TITLE": self._shown(self._line.subject),
            "BODY": "\n".join(self._body()),
            "DATA": _json({"steps": list(self._data())}),
            "SCRIPT": script,
            "HASH": b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        }
        return re.sub("@@([A-Z]+)@@", lambda found: parts[found[1]], template)

    def _shown(self, text: str) -> str:
        """Return a text of the store as it may stand in HTML, also in an attribute."""
        return html.escape(_UNSENT.sub("\ufffd", self._change(text)), quote=True)

    def _x(self, at: datetime) -> float:
        part = (at - self._line.began).total_seconds() / self._seconds
        return round(min(max(part, 0.0), 1.0) * 100, 3)

    def _body(self) -> Iterator[str]:
        line = self._line
        name = f"<small>{self._shown(line.name)}</small>" if line.name else ""
        yield f"<h1>{self._shown(line.subject)}{name}</h1>"
        yield '<ul class="facts">' + "".join(f"<li>{each}</li>" for each in self._facts()) + "</ul>"
        if line.left_out:
            yield f'<p class="note">{counted(line.left_out, "older event")} left out: the page shows the latest.</p>'
        yield from self._picture()
        yield '<div class="columns"><section class="card"><h2>Transcript</h2>'
        yield '<p class="note no-js">All messages in their order, session by session. Those that are struck through'
        yield "were undone or rewritten.</p>"
        yield from self._transcript()
        yield '<p class="empty js-only" id="none" hidden>No message is live at this moment.</p></section>'
        yield '<div class="right">'
        yield from _state_card()
        yield '<section class="card tale"><h2>What happened, and why</h2>'
        yield from self._story()
        yield "</section></div></div>"
        if self._steps:
            yield from _bar()

    def _facts(self) -> Iterator[str]:
        line = self._line
        yield f"<b>{_day(line.began)} {line.began:%H:%M}</b> to <b>{_day(line.ended)} {line.ended:%H:%M}</b>"
        yield f"{line.kind}, <b>{span((line.ended - line.began).total_seconds())}</b>"
        for number, noun in ((len(line.legs), "session"), (len(line.messages), "message"), (len(line.turns), "turn")):
            words = counted(number, noun).split(" ")
            yield f"<b>{words[0]}</b> {words[1]}"
        if line.silences:
            yield f"longest silence <b>{span(line.silences[0].seconds)}</b>"
        yield f"up to <b>@{line.position}</b>"
        yield self._shown(shown(line.ended).partition(" ")[2].partition(" ")[2])

    def _picture(self) -> Iterator[str]:
        line = self._line
        yield '<section class="card picture" aria-label="The life as a picture"><div class="grid">'
        yield f'<span></span><div class="track axis">{"".join(self._ticks())}<i class="head"></i></div>'
        legs = "".join(
            f'<i class="leg{" b" if number % 2 else ""}" title="{self._shown(leg.session_id)}" '
            f'style="left:{self._x(leg.began)}%;width:{self._wide(leg.began, leg.ended)}%"></i>'
            for number, leg in enumerate(line.legs)
        )
        yield f'<span>sessions</span><div class="track legs">{legs}<i class="head"></i></div>'
        dots = "".join(f'<i class="dot" style="left:{x}%"></i>' for x in dict.fromkeys(map(self._at, line.messages)))
        yield f'<span>messages</span><div class="track">{dots}<i class="head"></i></div>'
        turns = "".join(
            f'<i class="turn {turn.outcome}" style="left:{self._x(turn.began)}%;'
            f'width:{self._wide(turn.began, turn.ended)}%"></i>'
            for turn in line.turns
        )
        yield f'<span>turns</span><div class="track">{turns}<i class="head"></i></div>'
        yield from self._signs("events", [each for each in line.marks if each.kind not in STORE])
        yield from self._signs("store", [each for each in line.marks if each.kind in STORE])
        yield f'</div><ul class="legend">{"".join(_legend(line))}</ul></section>'

    def _at(self, event: LifeEvent) -> float:
        return round(self._x(event.time), 1)

    def _wide(self, began: datetime, ended: datetime | None) -> float:
        return round(self._x(ended or self._line.ended) - self._x(began), 3)

    def _ticks(self) -> Iterator[str]:
        line = self._line
        minutes = next((each for each in _TICKS if self._seconds / 60 / each <= _MOST_TICKS), _TICKS[-1])
        step, midnight = timedelta(minutes=minutes), line.began.replace(hour=0, minute=0, second=0, microsecond=0)
        at, number = midnight + step * -(-(line.began - midnight) // step), 0
        while at <= line.ended:
            day = (at.hour, at.minute) == (0, 0)
            x, words = self._x(at), _day(at) if day else f"{at:%H:%M}"
            edge = " first" if x < 5 else " last" if x > 95 else ""
            minor = "" if day or (number % 4 == 0 and minutes < 240) else " minor"
            yield f'<span class="tick{" day" if day else ""}{edge}{minor}" style="left:{x}%"><i>{words}</i></span>'
            at, number = at + step, number + 1

    def _signs(self, label: str, marks: Sequence[LifeEvent]) -> Iterator[str]:
        """Yield a row of signs: those that would cover each other stand below one another."""
        if not marks:
            return
        places = [self._x(each.time) for each in marks]
        rows = {size: _rows(places, close) for size, close in _CLOSE.items()}
        heights = ";".join(f"--{size}:{max(each) + 1}" for size, each in rows.items())
        signs = "".join(
            self._sign(event, ";".join(f"--{size}:{each[number]}" for size, each in rows.items()))
            for number, event in enumerate(marks)
        )
        yield f'<span>{label}</span><div class="track signs" style="{heights}">{signs}<i class="head"></i></div>'

    def _sign(self, event: LifeEvent, row: str) -> str:
        sign, said = (
            SIGNS.get(event.kind, _PLAIN),
            self._shown(f"{_day(event.time)} {event.time:%H:%M} {event.sentence}"),
        )
        return (
            f'<button class="sign g-{sign.style}" style="left:{self._x(event.time)}%;{row}" '
            f'data-go="{self._numbers.get(event.position, 0)}" title="{said}" aria-label="{said}">{sign.glyph}</button>'
        )

    def _transcript(self) -> Iterator[str]:
        yield '<ol class="said">'
        legs = {leg.session_id: leg for leg in reversed(self._line.legs)}
        for name in self._life.sessions:
            leg = legs.get(name)
            since = f" since {_day(leg.began)} {leg.began:%H:%M}" if leg else ""
            yield f'<li class="part" data-s="{self._shown(name)}">Session <code>{self._shown(name)}</code>{since}</li>'
            yield from (self._message(each) for each in self._said if each.session_id == name)
        yield "</ol>"

    def _message(self, said: Said) -> str:
        over = said.live[-1][1] is not None
        live = _json(said.live)
        at = moment(said.time, self._zone)
        head = _time(at)
        where = f'data-s="{self._shown(said.session_id)}" data-v="{html.escape(live)}"'
        if said.erased:
            return f'<li class="erased" {where}><header><b>erased</b>{head}</header>This message was erased.</li>'
        beside = ""
        if said.beside:
            beside = f"<details><summary>more</summary><pre>{self._shown(said.beside)}</pre></details>"
        kind = " ".join(filter(None, ["user" if said.role == "user" else "", "was" if over else ""]))
        return (
            f'<li class="{kind}" {where}><header><b>{self._shown(said.role)}</b>{head}</header>'
            f'<p dir="auto">{self._shown(said.text)}</p>{beside}</li>'
        )

    def _story(self) -> Iterator[str]:
        line = self._line
        entries: list[tuple[datetime, int, str]] = [
            (each.time, self._numbers[each.position], self._told(each)) for each in line.marks
        ]
        for pause in line.silences:
            if pause.seconds >= _PAUSE:
                after = next((n for n, step in enumerate(self._steps) if step.time >= pause.ended), len(self._steps))
                words = f"{span(pause.seconds)} of silence from {_day(pause.began)} {pause.began:%H:%M}"
                entries.append((pause.began, after, f'<li class="pause" data-from="{after}">{words}</li>'))
        yield '<ol class="story">'
        yield from (words for _, _, words in sorted(entries, key=lambda each: each[:2]))
        yield "</ol>"

    def _told(self, event: LifeEvent) -> str:
        sign = SIGNS.get(event.kind, _PLAIN)
        reason = f" · {self._shown(event.reason)}" if event.reason else ""
        return (
            f'<li data-i="{self._numbers[event.position]}">'
            f'<b class="g-{sign.style}" aria-hidden="true">{sign.glyph}</b><header>{_time(event.time)}'
            f"<span>@{event.position}</span><span>{self._shown(event.actor)} · {self._shown(event.command)}{reason}"
            f"</span></header>{self._shown(event.sentence)}</li>"
        )

    def _data(self) -> Iterator[dict[str, Any]]:
        """Yield what the slider needs of each step: where it is, what it says, and what it changed."""
        states = _states(self._life, self._history)
        before: dict[str, Any] = {}
        for event in self._steps:
            now = states[event.position]
            changed = {key: value for key, value in now.items() if before.get(key, "") != value}
            before = now
            yield {
                "p": event.position,
                "t": f"{_day(event.time)} {event.time:%H:%M:%S}",
                "w": _UNSENT.sub("\ufffd", self._change(event.sentence)),
                "x": self._x(event.time),
                "m": int(event.is_mark),
                "s": {
                    key: self._change(each) if isinstance(each, str) and key != "session" else each
                    for key, each in changed.items()
                },
            }


def _rows(places: Sequence[float], close: float) -> list[int]:
    """Return a row for each place, so that none in a row is closer to another than that; the rest share one."""
    last: list[float] = []
    found = []
    for x in places:
        free = (number for number, before in enumerate(last) if x - before >= close)
        row = next(free, len(last) if len(last) < _ROWS else 0)
        last[row : row + 1] = [x]
        found.append(row)
    return found


def _states(life: Life, history: History) -> dict[int, dict[str, Any]]:
    """Return what a lane or a conversation was like after each event: what the page's card shows."""
    lanes: dict[int, Lane] = {step.position: step.after for steps in life.lanes for step in steps}
    events = {each.position: each for each in life.envelopes}
    of_lane = life.timeline.kind == "lane"
    lane = Lane("")
    session: str | None = None
    titles: dict[str, str | None] = {}
    ends: dict[str, str | None] = {}
    running: set[str] = set()
    found = {}
    for position in sorted({*lanes, *(each.position for each in life.timeline.events)}):
        lane = lanes.get(position, lane)
        envelope = events.get(position)
        if envelope is not None and envelope.stream.startswith(SESSION):
            own, event = envelope.stream.removeprefix(SESSION), envelope.event
            session = session if of_lane else own
            match event:
                case e.SessionTitled():
                    titles[own] = event.title
                case e.SessionEnded():
                    ends[own] = event.end_reason
                case e.SessionCompressed():
                    ends[own] = "compression"
                case c.SessionDeleted():
                    ends[own] = "deleted"
                case e.SessionReopened():
                    ends[own] = None
                case e.TurnBegun():
                    running.add(own)
                case e.TurnEnded() | e.TurnInterrupted():
                    running.discard(own)
        if of_lane:
            session = lane.session_id
        found[position] = {
            "session": session or "",
            "title": titles.get(session or "") or "",
            "ended": ends.get(session or "") or "",
            "turn": int(session in running),
            "suspended": int(lane.suspended),
            "pending": int(lane.resume_pending),
            "model": (lane.model_override or {}).get("model", ""),
            "policy": rules(history.rules(lane, position)) if of_lane else "",
        }
    return found


def _state_card() -> Iterator[str]:
    names = ("session", "position", "policy", "event", "flags", "messages", "title", "model")
    rows = "".join(f'<dt>{name}</dt><dd id="st-{name}"></dd>' for name in names)
    yield f'<section class="card state js-only" aria-live="off"><h2>At this moment</h2><dl>{rows}</dl></section>'


def _bar() -> Iterator[str]:
    yield (
        '<nav class="bar js-only" aria-label="Time"><div class="where"><b id="when"></b><span id="what"></span></div>'
        '<div class="knobs"><button id="back" aria-label="One event back">◀</button>'
        '<button id="play" class="play" aria-pressed="false">Play</button>'
        '<button id="on" aria-label="One event on">▶</button>'
        '<input id="slider" type="range" min="0" value="0" step="1" aria-label="Event">'
        '<span class="keys"><kbd>←</kbd> <kbd>→</kbd> one event · <kbd>⇧</kbd> one decision · '
        "<kbd>space</kbd> plays</span></div></nav>"
    )


def _legend(line: Timeline) -> Iterator[str]:
    there = {each.kind for each in line.marks}
    for kind, sign in SIGNS.items():
        if kind in there:
            yield f'<li><b class="g-{sign.style}">{sign.glyph}</b>{sign.words}</li>'


def _time(at: datetime) -> str:
    return f'<time datetime="{at.isoformat()}">{_day(at)} {at:%H:%M:%S}</time>'


def _day(at: datetime) -> str:
    return f"{at:%a} {at.day} {at:%b}"


def _json(value: object) -> str:
    """Return JSON that can stand in a script element: nothing in it ends one, or begins a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
