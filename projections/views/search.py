"""Search: which messages are live, and an index of their words without a second copy of the text (V8 to V10)."""

import json
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from engine.domain import chat_events as c, events as e, messages, transcript
from engine.domain.encoding import Archived, Erased
from engine.domain.streams import SESSION
from engine.log.envelope import Envelope
from engine.log.protocol import Tables, TextIndex
from projections.inline import texts
from projections.inline.texts import storable
from projections.views import words
from projections.views.view import View, ViewTables
from projections.views.words import words_of

_NEW_SESSION = (
    "INSERT INTO {search_sessions} (id, session_id, inherited, undone) VALUES (?, ?, 0, '[]') "
    "ON CONFLICT (session_id) DO NOTHING"
)
_NEW_MESSAGE = "INSERT INTO {search_messages} VALUES (?,?,?,?,?,0)"
_PLACES = 1 << 20
"""More than the messages that one event can hold."""


def message_number(position: int, place: int | None) -> int:
    """Return the number of a message: its position, or for one of a rewritten history, a negative number.

    So a rewritten history comes before what is appended to it, and the commonest numbers are the smallest.
    """
    return position if place is None else place - position * _PLACES


def place_of(number: int, position: int) -> int:
    """Return the place of a message among those of the event at its position."""
    return 0 if number > 0 else number + position * _PLACES


class Search(View):
    """The search view: live messages by session, and the index of their words."""

    name = "search"
    modules: Sequence[ModuleType] = (messages, transcript, texts, words)

    def __init__(self, text: TextIndex) -> None:
        self._text = text
        self.tables: Mapping[str, Sequence[str]] = {
            "search_sessions": (
                """CREATE TABLE {search_sessions} (
    id         BIGINT PRIMARY KEY,  -- the position of its first event
    session_id TEXT NOT NULL UNIQUE,
    lane       TEXT,             -- the key of its lane
    platform   TEXT,             -- where it was begun, or given to its lane
    user_id    TEXT,             -- by whom
    inherited  BIGINT NOT NULL,  -- how many live messages its history takes from other sessions
    undone     TEXT NOT NULL     -- of each undo that can be restored: its position, and how many inherited it hid
)""",
            ),
            "search_messages": (
                """CREATE TABLE {search_messages} (
    id       BIGINT PRIMARY KEY,  -- see message_number: in a session they grow in the order of the messages
    session  BIGINT NOT NULL,     -- search_sessions.id
    position BIGINT NOT NULL,     -- of the event that recorded it
    time     BIGINT NOT NULL,     -- when it was recorded
    role     TEXT NOT NULL,       -- who said it: a user, an assistant, a tool
    hidden   BIGINT NOT NULL      -- the position of the undo that hides it, or 0
)""",
                "CREATE INDEX {search_messages}_by_session ON {search_messages} (session, hidden)",
            ),
            "search_words": (text.ddl("{search_words}"), *text.settings("{search_words}")),
        }
        self._insert = text.insert("{search_words}")
        self._delete = text.delete("{search_words}")

    def contents(self, tables: Tables) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of each table, and of the index its words."""
        return {
            "search_sessions": tables.query("SELECT * FROM search_sessions ORDER BY id"),
            "search_messages": tables.query("SELECT * FROM search_messages ORDER BY id"),
            "search_words": tables.query_words("search_words", "SELECT * FROM vocabulary ORDER BY 1, 2, 3"),
        }

    def apply(self, tables: ViewTables, events: Sequence[Envelope]) -> None:
        """Index new messages and follow what is undone, rewritten and restored."""
        batch = _Batch(tables, self._insert)
        for each in events:
            if each.stream.startswith(SESSION):
                self._on_session(batch, each.stream.removeprefix(SESSION), each)
        batch.write()

    def _on_session(self, batch: "_Batch", session_id: str, envelope: Envelope) -> None:
        event, tables = envelope.event, batch.tables
        match event:
            case e.MessageAppended() | e.MessageRewritten():
                batch.add(batch.session(session_id, envelope), envelope, None, event.message)
            case e.SessionCreated() | e.SessionClaimed():
                _placed(tables, batch.session(session_id, envelope), event.lane, event.source)
            case e.TranscriptRewritten():
                session = batch.session(session_id, envelope)
                self._empty(batch, session)
                for place, message in enumerate(event.messages):
                    batch.add(session, envelope, place, message)
                _inherits(tables, session, 0 if event.inherited is None else len(event.inherited))
            case e.SessionForked():
                _inherits(tables, batch.session(session_id, envelope), len(event.inherited))
            case e.TranscriptRewound():
                _hide(batch, batch.session(session_id, envelope), event.rewound_count, envelope.position)
            case c.SessionDeleted():
                self._empty(batch, batch.session(session_id, envelope))
                _inherits(tables, batch.session(session_id, envelope), 0)
            case e.TranscriptRestored():
                _restore(batch, batch.session(session_id, envelope))
            case Erased() | Archived():
                self._on_erased(batch, batch.session(session_id, envelope), envelope, event.topic)

    def _on_erased(self, batch: "_Batch", session: int, envelope: Envelope, topic: str) -> None:
        """Keep the place of an erased message: what counts places still counts right."""
        if topic in transcript.MESSAGES:
            batch.add(session, envelope, None, {"role": ""})
        elif topic in (e.TranscriptRewritten.TOPIC, e.SessionForked.TOPIC):
            self._empty(batch, session)
            _inherits(batch.tables, session, 0)

    def _empty(self, batch: "_Batch", session: int) -> None:
        tables = batch.written()
        found = tables.query("SELECT id FROM {search_messages} WHERE session = ?", (session,))
        tables.executemany(self._delete, found)
        tables.execute("DELETE FROM {search_messages} WHERE session = ?", (session,))

    def forget(self, tables: ViewTables, streams: Sequence[str]) -> None:
        """Remove the messages and words of sessions, to be indexed again."""
        for stream in streams:
            rows = tables.query(
                "SELECT id FROM {search_sessions} WHERE session_id = ?", (stream.removeprefix(SESSION),)
            )
            for (session,) in rows:
                self._empty(_Batch(tables, self._insert), session)
                tables.execute("DELETE FROM {search_sessions} WHERE id = ?", (session,))


class _Batch:
    """The additions of a batch, gathered for two statements and written before anything looks at them."""

    def __init__(self, tables: ViewTables, insert: str) -> None:
        self.tables = tables
        self._insert = insert
        self._sessions: dict[str, int] = {}
        self._rows: list[tuple[int, int, int, int, str]] = []
        self._words: list[tuple[int, str]] = []

    def session(self, session_id: str, envelope: Envelope) -> int:
        """Return the number of a session; its first event gives it one."""
        session = self._sessions.get(session_id)
        if session is None:
            self.tables.execute(_NEW_SESSION, (envelope.position, session_id))
            ((session,),) = self.tables.query("SELECT id FROM {search_sessions} WHERE session_id = ?", (session_id,))
            self._sessions[session_id] = session
        return int(session)

    def add(self, session: int, envelope: Envelope, place: int | None, message: Mapping[str, Any]) -> None:
        """Add a live message to a session, and its words to the index."""
        number = message_number(envelope.position, place)
        role = storable(str(message.get("role", "unknown")))
        self._rows.append((number, session, envelope.position, envelope.time, role))
        found = words_of(message)
        if found:
            self._words.append((number, found))

    def write(self) -> None:
        """Write what was gathered."""
        self.tables.executemany(_NEW_MESSAGE, self._rows)
        self.tables.executemany(self._insert, self._words)
        self._rows, self._words = [], []

    def written(self) -> ViewTables:
        """Return the tables with everything in them."""
        self.write()
        return self.tables


def _placed(tables: ViewTables, session: int, lane: str | None, source: Mapping[str, Any] | None) -> None:
    known = source or {}
    values = (lane, known.get("platform"), known.get("user_id"))
    tables.execute(
        "UPDATE {search_sessions} SET lane = ?, platform = ?, user_id = ? WHERE id = ?",
        (*(None if value is None else storable(str(value)) for value in values), session),
    )


def _inherits(tables: ViewTables, session: int, count: int) -> None:
    """Begin a history: nothing of the former one can be restored."""
    _set_undone(tables, session, count, [])


def _hide(batch: _Batch, session: int, count: int, position: int) -> None:
    """Hide the last live messages; where a session has fewer of its own, those that its history inherits."""
    tables = batch.written()
    own = tables.query(
        "UPDATE {search_messages} SET hidden = ? WHERE id IN (SELECT id FROM {search_messages} "
        "WHERE session = ? AND hidden = 0 ORDER BY id DESC LIMIT ?) RETURNING id",
        (position, session, count),
    )
    inherited, undone = _undone(tables, session)
    taken = min(count - len(own), inherited)
    _set_undone(tables, session, inherited - taken, [*undone, [position, taken]])


def _restore(batch: _Batch, session: int) -> None:
    tables = batch.written()
    inherited, undone = _undone(tables, session)
    if undone:
        position, taken = undone.pop()
        tables.execute("UPDATE {search_messages} SET hidden = 0 WHERE session = ? AND hidden = ?", (session, position))
        _set_undone(tables, session, inherited + taken, undone)


def _undone(tables: ViewTables, session: int) -> tuple[int, list[list[int]]]:
    ((inherited, undone),) = tables.query("SELECT inherited, undone FROM {search_sessions} WHERE id = ?", (session,))
    return int(inherited), json.loads(undone)


def _set_undone(tables: ViewTables, session: int, inherited: int, undone: list[list[int]]) -> None:
    tables.execute(
        "UPDATE {search_sessions} SET inherited = ?, undone = ? WHERE id = ?", (inherited, json.dumps(undone), session)
    )
