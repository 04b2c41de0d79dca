"""The catalogue: the rows of the list of chats, one for each chain of sessions, and when each changed (W11 to W15)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import msgspec

from engine.domain import (
    chat as chats,
    chat_events as c,
    chat_messages,
    chat_rows,
    events as e,
    lineage as chains,
    session as sessions,
    session_sources,
    transcript,
)
from engine.domain.chat import Chat
from engine.domain.encoding import Archived, Content, Erased, Unknown, encode, state_decoder
from engine.domain.session import Session
from engine.domain.streams import SESSION, session_stream
from engine.log.envelope import Envelope
from engine.log.protocol import Reader, Tables
from projections.inline import backwards, last_said as said, texts
from projections.inline.last_said import last_said
from projections.inline.texts import original, storable
from projections.views import lineage
from projections.views.lineage import Line, Lineage, Shown, alone, gone
from projections.views.view import View, ViewTables

_TURN = frozenset({e.TurnBegun, e.TurnRenewed, e.TurnEnded, e.TurnInterrupted})
_QUIET = frozenset(
    {
        *(e.MessageAppended, e.MessageRewritten, e.UsageRecorded, *_TURN),
        *(c.SessionTouched, c.SessionPinned, c.SessionArchived, c.SessionMoved, c.PendingReplaced, c.UsageCarried),
        *(c.ContextReplaced, c.ToolCallsReplaced),
    }
)
"""Events that say nothing that the rows of sessions that branched off name."""
_WORDS = frozenset(
    {
        *(e.MessageAppended, e.MessageRewritten, e.TranscriptRewritten, e.SessionForked, e.TranscriptRewound),
        *(e.TranscriptRestored, c.MessageExtended, Erased, Archived),
    }
)
_SLIMMED = frozenset({e.SessionCreated, e.SessionClaimed, e.SessionImported})
_TIMES = frozenset(chat_rows.TIMES)
_BEGINS = frozenset({e.TranscriptRewritten.TOPIC, e.SessionForked.TOPIC})

_WRITE_SESSION = (
    "INSERT INTO {catalogue_sessions} VALUES (?,?,?) ON CONFLICT (session_id) DO UPDATE SET "
    "parent = excluded.parent, state = excluded.state"
)
_WRITE_ROW = (
    "INSERT INTO {catalogue_rows} VALUES (?,?,?,?,?,?) ON CONFLICT (session_id) DO UPDATE SET "
    "place = excluded.place, pinned = excluded.pinned, activity = excluded.activity, changed = excluded.changed, "
    "state = excluded.state"
)
_AT_ONCE = 50
_MARKS = ",".join("?" * _AT_ONCE)
_READ_MANY = f"SELECT session_id, state FROM {{catalogue_sessions}} WHERE session_id IN ({_MARKS})"
_READ_CHILDREN = f"SELECT parent, session_id FROM {{catalogue_sessions}} WHERE parent IN ({_MARKS}) ORDER BY session_id"
_read_line = state_decoder(Line)


class Listed(msgspec.Struct):
    """A row as it is stored: without what is None."""

    row: dict[str, Any]


class Catalogue(View):
    """The list of chats. What was said last is read again from the log after an undo, up to where the view is.

    `changed` is the position at which a row was written last. Rows that are written when the view is made anew, or
    after an erasure, count as changed at the end of the log at that time: who follows is told of all of them.
    """

    name = "catalogue"
    modules: Sequence[ModuleType] = (
        *(chats, c, chat_messages, chat_rows, chains, sessions, session_sources, transcript),
        *(backwards, said, texts, lineage),
    )
    tables: Mapping[str, Sequence[str]] = {
        "catalogue_sessions": (
            """CREATE TABLE {catalogue_sessions} (
    session_id TEXT PRIMARY KEY,
    parent     TEXT,          -- the session it came from
    state      TEXT NOT NULL  -- the fold of its events
)""",
            "CREATE INDEX {catalogue_sessions}_by_parent ON {catalogue_sessions} (parent) WHERE parent IS NOT NULL",
        ),
        "catalogue_ids": (
            """CREATE TABLE {catalogue_ids} (
    other_id   TEXT PRIMARY KEY,  -- an id that a session went on under
    session_id TEXT NOT NULL
)""",
            "CREATE INDEX {catalogue_ids}_by_session ON {catalogue_ids} (session_id)",
        ),
        "catalogue_histories": (
            """CREATE TABLE {catalogue_histories} (
    session_id TEXT NOT NULL,
    taken_from TEXT NOT NULL,  -- a session whose messages stand in its history
    PRIMARY KEY (session_id, taken_from)
)""",
            "CREATE INDEX {catalogue_histories}_by_origin ON {catalogue_histories} (taken_from)",
        ),
        "catalogue_rows": (
            """CREATE TABLE {catalogue_rows} (
    session_id TEXT PRIMARY KEY,           -- any id that a session goes by, or went by
    place      BIGINT NOT NULL,            -- 0 in no list, 1 in every list, 2 in that of the hidden ones
    pinned     BIGINT NOT NULL,            -- 1 at the top
    activity   DOUBLE PRECISION NOT NULL,  -- lists are sorted by it
    changed    BIGINT NOT NULL,            -- the position it was written at
    state      TEXT                        -- the row
)""",
            "CREATE INDEX {catalogue_rows}_in_order ON {catalogue_rows} (place, pinned, activity, session_id)",
            "CREATE INDEX {catalogue_rows}_by_change ON {catalogue_rows} (changed, session_id)",
        ),
        "catalogue_floor": (
            """CREATE TABLE {catalogue_floor} (
    name     TEXT PRIMARY KEY,  -- there is one
    position BIGINT NOT NULL  -- rows count as written there at the earliest
)""",
        ),
    }

    def __init__(self, reads: Reader) -> None:
        """Take the reads of the log that is folded."""
        self._reads = reads

    def contents(self, tables: Tables) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of each table, but for what followers alone read: positions, and ids that are in no list.

        These hang on when the view was made: an id whose event was erased since is still told to be gone.
        """
        return {
            "catalogue_sessions": tables.query("SELECT * FROM catalogue_sessions ORDER BY session_id"),
            "catalogue_ids": tables.query("SELECT * FROM catalogue_ids ORDER BY other_id"),
            "catalogue_histories": tables.query("SELECT * FROM catalogue_histories ORDER BY session_id, taken_from"),
            "catalogue_rows": tables.query(
                "SELECT session_id, place, pinned, activity, state FROM catalogue_rows "
                "WHERE place <> 0 ORDER BY session_id"
            ),
        }

    def create(self, tables: ViewTables) -> None:
        """Make the tables, empty."""
        super().create(tables)
        tables.execute("INSERT INTO {catalogue_floor} VALUES ('floor', ?)", (self._reads.last_position(),))

    def apply(self, tables: ViewTables, events: Sequence[Envelope]) -> None:
        """Bring sessions up to date, then the rows of all chains they are in."""
        fold = _Fold(tables, self._reads)
        mine = [(each.stream[len(SESSION) :], each) for each in events if each.stream.startswith(SESSION)]
        fold.load({session_id for session_id, _ in mine})
        for session_id, each in mine:
            fold.on_session(session_id, each)
        fold.write()

    def related(self, tables: ViewTables, streams: Sequence[str]) -> Sequence[str]:
        """Return the streams of sessions whose histories take messages from these, through any number of sessions."""
        found = dict.fromkeys(streams)
        for each in (queue := list(streams)):
            rows = tables.query(
                "SELECT session_id FROM {catalogue_histories} WHERE taken_from = ?", (each.removeprefix(SESSION),)
            )
            queue += [stream for (session_id,) in rows if (stream := session_stream(session_id)) not in found]
            found |= dict.fromkeys(queue)
        return list(found)

    def forget(self, tables: ViewTables, streams: Sequence[str]) -> None:
        """Remove sessions, to be folded again; those that were in a chain with them stand for themselves meanwhile."""
        tables.execute("UPDATE {catalogue_floor} SET position = ?", (self._reads.last_position(),))
        _Fold(tables, self._reads).forget([each.removeprefix(SESSION) for each in streams if each.startswith(SESSION)])


class _Fold:
    """The sessions of a batch, read when first asked for and written once."""

    def __init__(self, tables: ViewTables, reads: Reader) -> None:
        self._tables = tables
        self._reads = reads
        self._lines: dict[str, Line | None] = {}
        self._changed: dict[str, int] = {}
        self._stirred: dict[str, int] = {}
        self._stale: set[str] = set()
        self._rows: dict[str, tuple[Any, ...]] = {}
        self._came_from: dict[str, list[str]] = {}
        self._lineage = Lineage(self.find, self._children)

    # Sessions

    def load(self, session_ids: Iterable[str]) -> None:
        """Read sessions at once: a query each would cost more than everything else."""
        for some in _parts(session_ids):
            self._lines.update(dict.fromkeys(some))
            rows = self._tables.query(_READ_MANY, some)
            self._lines.update((session_id, _read_line(state)) for session_id, state in rows)

    def line(self, session_id: str) -> Line | None:
        """Return the session of a stream."""
        if session_id not in self._lines:
            rows = self._tables.query("SELECT state FROM {catalogue_sessions} WHERE session_id = ?", (session_id,))
            self._lines[session_id] = _read_line(rows[0][0]) if rows else None
        return self._lines[session_id]

    def find(self, session_id: str) -> Line | None:
        """Return the session with an id, the first it had or a later one."""
        found = self.line(session_id)
        if found is None:
            rows = self._tables.query(
                "SELECT session_id FROM {catalogue_ids} WHERE other_id = ?", (storable(session_id),)
            )
            found = self.line(rows[0][0]) if rows else None
        return found

    def _children(self, session_ids: Iterable[str]) -> list[Line]:
        self._load_children(session_ids)
        children = (child for each in session_ids for child in self._came_from[each])
        return [line for each in children if (line := self.line(each)) is not None]

    def _load_children(self, session_ids: Iterable[str]) -> None:
        """Read which sessions came from some, as it is in the tables now."""
        for some in _parts({each for each in session_ids if each not in self._came_from}):
            self._came_from.update((each, []) for each in some)
            for parent, child in self._tables.query(_READ_CHILDREN, [storable(each) for each in some]):
                self._came_from[original(parent)].append(child)

    def on_session(self, session_id: str, each: Envelope) -> None:
        """Let an event happen to a session."""
        event, kind = each.event, type(each.event)
        line = self.line(session_id) or Line(Session(session_id), Chat(session_id))
        if kind in _TURN and line.chat.stream_id is None and getattr(event, "started_at", None) is None:
            return  # that of a gateway, of which no row says anything
        chat = chats.evolve(line.chat, event, each.version) if chats.says_something(event) else line.chat
        if kind is Unknown or (kind in _TURN and chat is line.chat):
            return
        before = line.parent
        line.chat = chat
        line.head = sessions.evolve(line.head, event, each.time, each.version)
        if kind in _SLIMMED:
            line.head = _slim(line.head, event)
        self._lines[session_id] = line
        if kind in _WORDS:
            self._follow_words(line, event, each.time)
        self._changed[session_id] = each.position
        if kind not in _QUIET:
            self._stirred[session_id] = each.position
            if isinstance(event, e.TranscriptRewritten | e.SessionForked) and event.inherited is not None:
                self._note_origin(session_id, event.inherited.session_id)
            for parent in {before, line.parent} - {None}:
                self._stir(parent, each.position)

    def _stir(self, parent: str | None, position: int) -> None:
        """Look at a session's chain again, because one that came from it has changed."""
        found = None if parent is None else self.find(parent)
        if found is not None:
            self._stirred[found.head.session_id] = position

    def _note_origin(self, session_id: str, taken_from: str) -> None:
        sql = "INSERT INTO {catalogue_histories} VALUES (?,?) ON CONFLICT (session_id, taken_from) DO NOTHING"
        self._tables.execute(sql, (session_id, taken_from))

    def _follow_words(self, line: Line, event: Content, time: int) -> None:
        """Keep the times of what was said last, as `last_said` gives them; what cannot be told is read later."""
        session_id = line.head.session_id
        match event:
            case e.MessageAppended() | e.MessageRewritten():
                line.recorded_at = time
                said_at = None
                if not _TIMES.isdisjoint(event.message):
                    said_at = chat_rows.last_message_time([event.message])
                if said_at is not None:
                    line.said_at, line.timed = said_at, True
                    self._stale.discard(session_id)
            case Archived():
                line.recorded_at, line.said_at, line.timed = time, None, True
                self._stale.discard(session_id)
            case Erased() if event.topic in transcript.MESSAGES:
                line.recorded_at = time
            case Erased() if event.topic in _BEGINS:
                line.recorded_at, line.said_at = 0, None
                self._stale.discard(session_id)
            case c.MessageExtended() if _TIMES.isdisjoint(event.added) and "role" not in event.added:
                pass
            case e.TranscriptRewound() | e.TranscriptRestored():
                self._stale.add(session_id)
            case Erased() if event.topic != c.MessageExtended.TOPIC:
                pass
            case e.TranscriptRewritten() | e.SessionForked() | c.MessageExtended() | Erased():
                line.timed = True
                self._stale.add(session_id)

    def forget(self, session_ids: Sequence[str]) -> None:
        """Remove sessions, and what was in a chain with them is shown without them."""
        end = self._reads.last_position()
        lines = [line for each in session_ids if (line := self.line(each)) is not None]
        near = [each for line in lines for each in self._children(line.ids)]
        near += [found for line in lines if line.parent is not None and (found := self.find(line.parent)) is not None]
        for line in lines:
            session_id = line.head.session_id
            self._publish_changed([gone(each) for each in line.ids], end)
            self._tables.execute("DELETE FROM {catalogue_sessions} WHERE session_id = ?", (session_id,))
            self._tables.execute("DELETE FROM {catalogue_ids} WHERE session_id = ?", (session_id,))
            self._tables.execute("DELETE FROM {catalogue_histories} WHERE session_id = ?", (session_id,))
            self._lines[session_id] = None
        self._stirred = {each.head.session_id: end for each in near if self._lines.get(each.head.session_id)}
        self._came_from = {}
        self._write_rows()

    # Rows

    def write(self) -> None:
        """Write the sessions that have changed, and the rows that say something else now."""
        for session_id in self._stale:
            line = self._lines[session_id]
            if line is not None:
                line.recorded_at, line.said_at = last_said(self._reads, line.head, timed=line.timed)
        lines = [line for each in self._changed if (line := self._lines[each]) is not None]
        for line in lines:
            if not line.head.live:
                line.recorded_at, line.said_at = 0, None
        self._tables.executemany(_WRITE_SESSION, [_row(line) for line in lines])
        self._tables.executemany(
            "INSERT INTO {catalogue_ids} VALUES (?,?) ON CONFLICT (other_id) DO NOTHING",
            [(alias, line.head.session_id) for line in lines for alias in line.chat.aliases],
        )
        self._came_from = {}
        self._load_children(each for line in lines for each in line.ids)
        self._write_rows()

    def _write_rows(self) -> None:
        seen: set[str] = set()
        positions = {**self._changed, **self._stirred}
        for session_id, position in list(positions.items()):
            line = self._lines[session_id]
            if line is None:
                continue
            self._retire(line, position)
            if session_id in seen:
                continue
            if line.head.deleted:
                self._show_below(self._children(line.ids), position)
            else:
                self._show(line, seen, positions)
        if self._rows:
            ((floor,),) = self._tables.query("SELECT position FROM {catalogue_floor}")
            rows = [(*row[:-2], max(row[-2], floor), row[-1]) for row in self._rows.values()]
            self._tables.executemany(_WRITE_ROW, rows)

    def _retire(self, line: Line, position: int) -> None:
        """Take the ids that a session does not go by any more out of the list; all of them if it was deleted."""
        former = line.ids if line.head.deleted else line.ids[:-1]
        self._publish_changed([gone(each) for each in former], position)

    def _show(self, line: Line, seen: set[str], positions: Mapping[str, int]) -> None:
        """Write the rows of a session's chain, and of those that branched off it if they may say something else."""
        if line.head.deleted:
            return
        if line.parent is None and not self._children(line.ids):
            position = positions[line.head.session_id]
            if line.head.session_id in self._changed:
                self._publish(alone(line), position)
            else:
                self._publish_changed([alone(line)], position)
            return
        chain = self._lineage.chain(line)
        ids = [each.session_id for each in chain.segments]
        seen.update(ids)
        position = max(positions.get(each, 0) for each in ids)
        rows = self._lineage.shown(chain)
        if chain.tip.session_id in self._changed:
            self._publish(rows.pop(0), position)
        self._publish_changed(rows, position)
        if any(each in self._stirred for each in ids):
            self._show_below(self._lineage.branches(chain), position)

    def _show_below(self, lines: Iterable[Line], position: int) -> None:
        """Write the rows of sessions that branched off others, and of all below them, that say something else now."""
        waiting, done = list(lines), set[str]()
        for each in waiting:
            if not each.head.deleted and each.head.session_id not in done:
                chain = self._lineage.chain(each)
                done.update(segment.session_id for segment in chain.segments)
                self._publish_changed(self._lineage.shown(chain), position)
                waiting += self._lineage.branches(chain)

    def _publish_changed(self, rows: Sequence[Shown], position: int) -> None:
        """Write those of some rows that say something else than before."""
        for each in rows:
            session_id, place, pinned, activity, text = _stored(each)
            before = self._rows.get(session_id)
            if before is None:
                found = self._tables.query(
                    "SELECT place, state FROM {catalogue_rows} WHERE session_id = ?", (session_id,)
                )
                same = found == [(place, text)]
            else:
                same = (before[1], before[-1]) == (place, text)
            if not same:
                self._rows[session_id] = session_id, place, pinned, activity, position, text

    def _publish(self, shown: Shown, position: int) -> None:
        session_id, place, pinned, activity, text = _stored(shown)
        self._rows[session_id] = session_id, place, pinned, activity, position, text


def _parts(session_ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield some at a time, always as many as the statements have marks; a session that is there twice is read once."""
    found = list(session_ids)
    for first in range(0, len(found), _AT_ONCE):
        some = found[first : first + _AT_ONCE]
        yield some + some[:1] * (_AT_ONCE - len(some))


def _row(line: Line) -> tuple[str, str | None, str]:
    parent = line.parent
    return line.head.session_id, None if parent is None else storable(parent), encode(line).decode()


def _stored(shown: Shown) -> tuple[str, int, int, float, str | None]:
    row = {} if shown.row is None else {name: value for name, value in shown.row.items() if value is not None}
    text = encode(Listed(row)).decode() if row else None
    return storable(shown.session_id), shown.place, shown.pinned, shown.activity, text


def _slim(head: Session, event: Content) -> Session:
    """Return a head without what no row says: who spoke where, and how far it was imported."""
    match event:
        case e.SessionCreated() | e.SessionClaimed():
            platform = (head.source or {}).get("platform")
            source = None if platform is None else {"platform": platform}
            return msgspec.structs.replace(head, source=source, lane=None if head.lane is None else "")
        case e.SessionImported():
            return msgspec.structs.replace(head, imported={})
    return head
