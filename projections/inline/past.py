"""The state tables as they were at a position of the log; what was erased since is erased there too.

They are those of now, but for the streams that changed since: their states are folded again up to the position, from
their own events. Where that is most of the log, all of it is folded instead. What is written meanwhile changes nothing
in the past: streams that change later are folded again before the next answer.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from engine.domain import events as e
from engine.domain.chat import Chat, without_turn
from engine.domain.session import with_messages
from engine.domain.streams import LANE, LOG, PROJECT, SESSION, lane_stream, session_stream
from engine.domain.transcript import MESSAGES
from engine.log.envelope import Envelope
from engine.log.errors import SAYS_NOTHING, CorruptLogError, LogError
from engine.log.mutex import Mutex
from engine.log.protocol import Answer, Bounds, Log, Payload, Queries
from projections.inline import chats, erasing, lanes, message_ids, projection, sessions, turns
from projections.inline.changes import Change, run
from projections.inline.fingerprint import fingerprint
from projections.inline.fold import TURNS
from projections.inline.quarantine import NAME, quarantined
from projections.inline.shadow import STATE
from projections.inline.streams_at import fold_streams

OF_STREAMS = {
    "lanes": (LANE, "lane_id"),
    "lane_sessions": (LANE, "lane_id"),
    "sessions": (SESSION, "session_id"),
    "turns": (SESSION, "session_id"),
    "chats": (SESSION, "session_id"),
    "session_ids": (SESSION, "session_id"),
    "projects": (PROJECT, "project_id"),
}
"""Tables whose rows are each of one stream: its kind, and the column that has its id."""
_OF_POSITIONS = {"message_ids": "conversation_id", "copies": None, "quarantine": None}
"""Tables to which a position only adds, but for what else is said of it: a history that is rewritten frees ids."""
_PER_STREAM, _PER_EVENT = 25, 2
"""Finding a stream costs as much as reading so many events in the order of the log, and one of them so many of its."""


def tables_at(log: Log, position: int, *, from_start: bool | None = None) -> "Past | Refolded":
    """Return the state tables as they were at a position, the cheaper of two ways unless one is asked for."""
    return Past(log, position, from_start) if usable_at(log, position) else Refolded(log, position)


def quarantined_at(log: Log, position: int) -> dict[int, str]:
    """Return the events up to a position that could not be used, with their errors."""
    if usable_at(log, position):
        return dict(quarantined(log.reader))
    tables = Refolded(log, position)
    try:
        return dict(quarantined(tables))
    finally:
        tables.close()


def usable_at(log: Log, position: int) -> bool:
    """Return True if the tables of now are of this definition, and not behind the position."""
    try:
        found = projection.definition(log.reader, NAME)
        return found is not None and found.fingerprint == fingerprint() and projection.position(log.reader) >= position
    except (CorruptLogError, *SAYS_NOTHING):
        raise
    except LogError:  # no such table
        return False


class _Events:
    """The events of a log up to a position."""

    def __init__(self, log: Log, position: int) -> None:
        self._log = log
        self._reads = log.reader
        self.position = position

    def last_position(self) -> int:
        """Return the position."""
        return self.position

    def payloads(
        self,
        stream: str,
        after: int = 0,
        upto: int | None = None,
        *,
        until_position: int | None = None,
        without: Sequence[str] = (),
    ) -> list[Payload]:
        """Return a stream's events with after < version <= upto, by version, not decoded."""
        until = self.position if until_position is None else min(until_position, self.position)
        return self._reads.payloads(stream, after, upto, until_position=until, without=without)

    def changed_streams(self, after: int, upto: int, ignoring: Sequence[str] = ()) -> list[str]:
        """Return the streams with an event at after < position <= upto whose topic is not ignored, each once."""
        return self._reads.changed_streams(after, min(upto, self.position), ignoring)

    def recorded(self, after: int, upto: int) -> list[Envelope]:
        """Return the events at after < position <= upto, by position."""
        return self._reads.recorded(after, min(upto, self.position))

    def recorded_at(self, positions: Sequence[int]) -> list[Envelope]:
        """Return the events at these positions, by position."""
        return self._reads.recorded_at([each for each in positions if each <= self.position])

    def positions_of(self, streams: Sequence[str], upto: int) -> list[int]:
        """Return the sorted positions, up to one, of all events of these streams."""
        return self._reads.positions_of(streams, min(upto, self.position))


class Refolded(_Events):
    """The tables folded from the beginning in memory: those of the log are of another version, or none."""

    def __init__(self, log: Log, position: int) -> None:
        super().__init__(log, position)
        self._mutex = Mutex()
        self._fold()

    def _fold(self) -> None:
        self._log_version = self._log.version(LOG)
        self._tables = self._log.scratch()
        projection.make(self._tables, began_at=projection.BEYOND)
        projection.replay(self._tables, self.position)

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the tables."""
        with self._mutex.once():
            if self._log.version(LOG) != self._log_version:  # something may have been erased
                self._tables.close()
                self._fold()
            return self._tables.query(sql, bindings)

    def close(self) -> None:
        """Forget the tables."""
        self._tables.close()


class Past(_Events):
    """The tables of now with those streams in their former state that changed since."""

    def __init__(self, log: Log, position: int, from_start: bool | None = None) -> None:
        super().__init__(log, position)
        self._tables = log.overlay()
        self._own = cast(Queries, _Own(self._tables.own_query))
        self._versions: dict[str, int] = {}
        self._rewritten: dict[str, set[str]] = {}
        self._seen = self._ids_seen = position
        self._from_start = from_start
        self._asked = False
        try:
            with self._tables.one_state():
                self._begin()
        except BaseException:
            self._tables.close()
            raise

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the tables."""
        with self._tables.one_state():
            self._follow()
            if "message_ids" in sql:
                self._follow_rewrites()
            return self._tables.query(sql, bindings)

    def ask(self, sql: str, bounds: Bounds) -> Answer:
        """Return what a query on the tables, the log and its views gives that anybody may have written."""
        with self._tables.one_state():
            self._follow()
            self._follow_rewrites()
            if not self._asked:
                self._tables.cover_events(self.position)
                self._asked = True
            return self._tables.ask(sql, bounds)

    def close(self) -> None:
        """Forget the tables."""
        self._tables.close()

    def _begin(self) -> None:
        last = projection.position(self._own)
        self._cover()
        projection.mark(self._tables, self.position)
        self._bring_up(last)

    def _cover(self) -> None:
        for statement in (*projection.BESIDE, *(each for module in STATE for each in module.TABLES)):
            if not statement.startswith("CREATE TABLE"):
                continue
            table = statement.removeprefix("CREATE TABLE ").removeprefix("IF NOT EXISTS ").split()[0]
            if table in OF_STREAMS:
                self._tables.cover(statement, hidden_by=OF_STREAMS[table][1])
            elif table in _OF_POSITIONS:
                self._tables.cover(statement, hidden_by=_OF_POSITIONS[table], upto=self.position)
            else:
                self._tables.cover(statement, own=False)

    def _follow(self) -> None:
        last = projection.position(self._own)
        if last != self._seen:
            self._bring_up(last)

    def _bring_up(self, last: int) -> None:
        """Take back what was written since the last answer, and show as erased what was erased since then."""
        since = self._reads.streams_since(self._seen, last)
        streams = {stream: first - 1 for stream, first in since.items() if stream not in self._versions}
        self._hide(streams)
        self._fold_back(self._take_back(streams, last))
        self._show_older_visits(streams)
        if self._seen != self.position:  # else the tables and the events of now know of it
            erased: set[str] = set()
            for each in self._log.events(self._seen, last, (e.ContentErased.TOPIC,)):
                if isinstance(each.event, e.ContentErased):
                    erased.update(found.stream for found in self._reads.recorded_at(each.event.positions))
            self._forget(erased)
        self._tables.execute("UPDATE projections SET erased_at = ?", (_erased_at(self._own),))
        self._seen = last

    def _hide(self, streams: dict[str, int]) -> None:
        """Hide what the tables say of streams now."""
        for table, (kind, _) in OF_STREAMS.items():
            self._tables.hide(table, [each.removeprefix(kind) for each in streams if each.startswith(kind)])
        self._versions.update(streams)

    def _take_back(self, streams: dict[str, int], last: int) -> dict[str, int]:
        """Take back from heads what only counts, messages and turns that are over; return the other streams."""
        topics = self._reads.topics_since(self._seen, last, (*MESSAGES, e.LaneTouched.TOPIC))
        bad = {each.stream for each in self._reads.recorded_at([at for at, _ in quarantined(self._own)])}
        others = {stream: version for stream, version in streams.items() if version > 0}
        heads = {
            stream.removeprefix(SESSION): len(topics.get(stream, ()))
            for stream in others
            if stream.startswith(SESSION) and stream not in bad and _only_counts(topics.get(stream))
        }
        changes = []
        taken: dict[str, bool] = {}
        for head in sessions.find_sessions(self._own, list(heads)):
            stream = session_stream(head.session_id)
            changes.append(sessions.change_of(None, with_messages(head, streams[stream], -heads[head.session_id])))
            taken[head.session_id] = bool(topics.get(stream))
            del others[stream]
        run(self._tables, changes + self._beside(taken))
        return others

    def _beside(self, taken: dict[str, bool]) -> list[Change]:
        """Return what stands beside heads that were taken back: what chats are, and turns that were open already.

        Of those that had turns since, none was open before.
        """
        changes: list[Change] = []
        for chat in chats.find_chats(self._own, list(taken)):
            then = without_turn(chat) if taken[chat.session_id] else chat
            changes += chats.changes_of(Chat(chat.session_id), then)
        for turn in turns.open_turns(self._own) if taken else ():
            if taken.get(turn.session_id) is False:
                changes.append(turns.change_of(turn.conversation_id, turn))
        return changes

    def _follow_rewrites(self) -> None:
        """Take back what rewrites since have done to platform ids. Only who asks for ids pays for looking."""
        for each in self._log.events(self._ids_seen, self._seen, (e.TranscriptRewritten.TOPIC,)):
            if not (isinstance(each.event, e.TranscriptRewritten) and each.event.cause == "compress"):
                self._bring_back_ids(each.stream)
        self._ids_seen = self._seen

    def _fold_back(self, streams: dict[str, int]) -> None:
        """Show streams as they were."""
        cost = _PER_STREAM * len(streams) + sum(streams.values()) // _PER_EVENT
        in_order = cost > self.position if self._from_start is None else self._from_start
        fold = fold_streams(self._reads, streams, self.position, self._bad(), in_order=in_order)
        run(self._tables, fold.state_changes())

    def _show(self, streams: dict[str, int]) -> None:
        """Show streams as they were, in the place of what is said of them."""
        if streams:
            self._hide(streams)
            self._fold_back(streams)

    def _show_older_visits(self, streams: dict[str, int]) -> None:
        """Bring back who led a key to a session before a lane that did so again since: it may be another lane.

        A key that was pruned begins a new stream, which may recover the session that the former one led to.
        """
        keys = {
            key
            for key, session_id, lane_id in lanes.visits_since(self._own, self.position)
            if lane_stream(lane_id) in streams
            and self._versions.get(session_stream(session_id), 1) > 0  # it was there at the position
            and session_id not in lanes.sessions_of(cast(Queries, self._tables), key)
        }
        if keys:
            others = self._reads.streams_begun_with(LANE, "key", sorted(keys))
            self._show({each: projection.BEYOND for each in others if each not in self._versions})

    def _bring_back_ids(self, stream: str) -> None:
        """Fold the platform ids of a conversation again: a rewrite frees those of the messages it leaves out."""
        session_id = stream.removeprefix(SESSION)
        heads = sessions.segments_of(self._own, session_id)
        streams = {stream, *(session_stream(each.session_id) for each in heads)}
        conversation = heads[0].conversation_id if heads else session_id
        scratch = self._log.scratch()
        try:
            projection.make(scratch, began_at=projection.BEYOND)
            erasing.apply_all(
                scratch, self._reads.positions_of(sorted(streams), self.position), projection.apply_usable
            )
            rows = message_ids.rows_of(scratch, conversation)
        finally:
            scratch.close()
        self._tables.hide("message_ids", [conversation])
        run(self._tables, message_ids.rows_again(rows))
        self._rewritten[conversation] = streams

    def _forget(self, erased: set[str]) -> None:
        """Take back what was erased while this is open: it is erased in the past too."""
        self._show({stream: self._versions[stream] for stream in erased & self._versions.keys()})
        for streams in [each for each in self._rewritten.values() if each & erased]:
            self._bring_back_ids(min(streams))

    def _bad(self) -> dict[int, str]:
        return {at: error for at, error in quarantined(self._own) if at <= self.position}


def _only_counts(topics: Sequence[str] | None) -> bool:
    """Return True if what happened to a session since is messages, and turns of which none was open before."""
    return not topics or (topics[0] == e.TurnBegun.TOPIC and TURNS.issuperset(topics))


class _Own:
    """The log's own tables, as they are now."""

    def __init__(self, query: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._query = query

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._query(sql, bindings)


def _erased_at(own: Queries) -> int:
    """Return the position of the last erasure that the tables of now know of: what was read before it is not kept."""
    ((found,),) = own.query("SELECT erased_at FROM projections WHERE name = ?", (NAME,))
    return int(found)
