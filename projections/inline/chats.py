"""The chats: what chat events say of sessions, and the ids that sessions went on under."""

from collections.abc import Iterable, Iterator, Sequence

from engine.domain.chat import Chat
from engine.domain.encoding import encode
from engine.log.protocol import Queries
from projections.inline.changes import Change
from projections.inline.states import THESE, States, ask, in_parts, text
from projections.inline.texts import storable

TABLES = (
    """CREATE TABLE chats (  -- What chat events say of sessions; one without any has no row.
    session_id TEXT PRIMARY KEY,
    project_id TEXT,          -- the project it was moved to
    stream_id  TEXT,          -- the stream of its open turn
    state      TEXT NOT NULL  -- the fold of the chat events in the session's stream
)""",
    "CREATE INDEX chats_by_project ON chats (project_id) WHERE project_id IS NOT NULL",
    "CREATE INDEX chats_by_stream ON chats (stream_id) WHERE stream_id IS NOT NULL",
    """CREATE TABLE session_ids (  -- The other ids that sessions went on under.
    other_id   TEXT PRIMARY KEY,  -- leads to the session like its own
    session_id TEXT NOT NULL  -- whose stream has the events
)""",
    "CREATE INDEX session_ids_by_session ON session_ids (session_id)",
)
KEYS = {"chats": "session_id", "session_ids": "other_id"}
NAMES = tuple(KEYS)

_states = States("chats", "session_id", Chat, lambda chat: (chat.session_id,))
_THESE = f"SELECT session_id, state FROM chats WHERE session_id IN {THESE}"
_WRITTEN = (
    "INSERT INTO chats VALUES (?,?,?,?) ON CONFLICT (session_id) DO UPDATE SET "
    "project_id = excluded.project_id, stream_id = excluded.stream_id, state = excluded.state"
)


def find_chat(reads: Queries, session_id: str) -> Chat:
    """Return what chat events say of a session; one without any has the defaults."""
    return _states.first(reads, "WHERE session_id = ?", (session_id,)) or Chat(session_id)


def find_chats(reads: Queries, session_ids: Sequence[str]) -> Iterator[Chat]:
    """Yield what chat events say of those of some sessions that have any."""
    for part in in_parts(session_ids):
        for row in ask(reads, "chats", _THESE, part):
            yield _states.read(*row)


def session_with(reads: Queries, other_id: str) -> str | None:
    """Return the session that went on under an id."""
    rows = ask(reads, "session_ids", "SELECT session_id FROM session_ids WHERE other_id = ?", (other_id,))
    return text("session_ids", other_id, rows[0][0]) if rows else None


def sessions_in(reads: Queries, project_id: str) -> list[str]:
    """Return the sessions of a project."""
    sql = "SELECT session_id FROM chats WHERE project_id = ? ORDER BY session_id"
    return [text("chats", project_id, found) for (found,) in ask(reads, "chats", sql, (project_id,))]


def sessions_with_turns(reads: Queries) -> list[str]:
    """Return the sessions in which a turn of a chat is open."""
    sql = "SELECT session_id FROM chats WHERE stream_id IS NOT NULL ORDER BY session_id"
    return [text("chats", None, found) for (found,) in ask(reads, "chats", sql, ())]


def possible_drafts(reads: Queries, before: int) -> list[str]:
    """Return the chats that were created before a time and may be drafts: untitled, without messages or a turn."""
    sql = (
        "SELECT chats.session_id FROM chats JOIN sessions ON sessions.session_id = chats.session_id "
        "WHERE chats.stream_id IS NULL AND sessions.title_name IS NULL AND sessions.lane IS NULL "
        "AND sessions.recoverable = 0 AND sessions.created_at < ? ORDER BY chats.session_id"
    )
    return [text("chats", None, found) for (found,) in ask(reads, "chats", sql, (before,))]


def changes_of(before: Chat, chat: Chat) -> list[Change]:
    """Return what brings a session's rows up to date."""
    own = chat.session_id
    sql = "INSERT INTO session_ids VALUES (?,?)"
    changes: list[Change] = [(sql, (other, own)) for other in chat.aliases[len(before.aliases) :]]
    if chat == Chat(own):
        return [*changes, ("DELETE FROM chats WHERE session_id = ?", (own,))]
    stream = None if chat.stream_id is None else storable(chat.stream_id)
    return [*changes, (_WRITTEN, (own, chat.project_id, stream, encode(chat).decode()))]


def removal_of(session_ids: Iterable[str]) -> Sequence[Change]:
    """Return what takes sessions out of the tables, to be folded again."""
    return [
        (f"DELETE FROM {table} WHERE session_id = ?", (session_id,)) for session_id in session_ids for table in NAMES
    ]
