"""Finding messages: questions to the search view, answered with words from the log (V8)."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content
from engine.domain.messages import text_of
from engine.domain.times import microseconds, moment
from engine.log.protocol import Reader, Tables, Term
from projections.inline.texts import original, storable
from projections.views.search import place_of
from projections.views.words import snippet_of, terms_of

Order = Literal["relevance", "newest"]


class Hit(msgspec.Struct, frozen=True):
    """A live message that was found. `snippet` is the part around the first match, with `**` around matches."""

    session_id: str
    session_key: str | None
    platform: str | None
    role: str
    time: datetime
    position: int
    snippet: str


class Hits(msgspec.Struct, frozen=True):
    """A page of hits; `next_cursor` asks for the next one, None if there is none."""

    items: list[Hit]
    next_cursor: str | None = None


class Question(NamedTuple):
    """A question: words, and of which messages."""

    text: str
    platform: str | None = None
    lane: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    role: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    order: Order = "relevance"

    def digest(self) -> str:
        """Return what a cursor is held to: one of another question is refused."""
        return blake2b(repr(self).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def find(
    tables: Tables, reader: Reader, question: Question, limit: int, cursor: str | None, zone: tzinfo | None
) -> Hits:
    """Return live messages that match a question, best or newest first."""
    terms = terms_of(question.text)
    skip = checked_place(cursor, question)
    if not any(term.kind == "words" for term in terms):
        return Hits([])
    where, bindings = _conditions(question)
    by_rank = question.order != "newest"
    order = f"{'f.rank, ' if by_rank else ''}m.position DESC, m.id DESC"
    whose = " JOIN search_sessions AS s ON s.id = m.session" if "s." in where else ""
    page = (  # of all that matches; the rest of a row is looked up for the page alone
        f"SELECT m.id AS id{', f.rank AS rank' if by_rank else ''} FROM ({tables.text.matching('search_words')}) AS f "
        f"JOIN search_messages AS m ON m.id = f.id{whose} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
    )
    rows = tables.query(
        "SELECT s.session_id, s.lane, s.platform, m.role, m.time, m.position, m.id "
        f"FROM ({page}) AS f JOIN search_messages AS m ON m.id = f.id "
        f"JOIN search_sessions AS s ON s.id = m.session ORDER BY {order}",
        (tables.text.question(terms), *bindings, limit + 1, skip),
    )
    items = _hits(reader, rows[:limit], terms, zone)
    return Hits(items, _cursor(question, skip + limit) if len(rows) > limit else None)


def _conditions(question: Question) -> tuple[str, list[Any]]:
    conditions = ["m.hidden = 0"]
    bindings: list[Any] = []
    for column in ("platform", "lane", "session_id", "user_id"):
        value = getattr(question, column)
        if value is not None:
            conditions.append(f"s.{column} = ?")
            bindings.append(storable(value))
    if question.role is None:
        conditions.append("m.role <> 'tool'")
    else:
        conditions.append("m.role = ?")
        bindings.append(storable(question.role))
    for comparison, limit in ((">=", question.since), ("<", question.until)):
        if limit is not None:
            conditions.append(f"m.time {comparison} ?")
            bindings.append(microseconds(limit))
    return " AND ".join(conditions), bindings


def _hits(reader: Reader, rows: Sequence[tuple[Any, ...]], terms: Sequence[Term], zone: tzinfo | None) -> list[Hit]:
    contents = {each.position: each.event for each in reader.recorded_at([row[5] for row in rows])}
    hits = []
    for session_id, lane, platform, role, time, position, number in rows:
        message = _message(contents.get(position), place_of(number, position))
        if message is not None:  # erased since
            key = None if lane is None else original(lane)
            known = None if platform is None else original(platform)
            words = snippet_of(text_of(message.get("content")), terms)
            hits.append(Hit(session_id, key, known, original(role), moment(time, zone), position, words))
    return hits


def _message(content: Content | None, place: int) -> Mapping[str, Any] | None:
    match content:
        case e.MessageAppended() | e.MessageRewritten():
            return content.message
        case e.TranscriptRewritten():
            return content.messages[place]
    return None


def _cursor(question: Question, place: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([question.digest(), place]).encode()).decode()


def checked_place(cursor: str | None, question: Question) -> int:
    """Return where the page of a cursor begins; raise ValueError if it was not given for this question."""
    if cursor is None:
        return 0
    try:
        digest, place = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError):
        raise ValueError(f"cursor {cursor!r:.100} is not one that search() gave") from None
    if digest != question.digest() or not isinstance(place, int):
        raise ValueError("this cursor was given for another question; ask without one to begin")
    return place
