"""Everything that belongs to a person: their own lanes whole, and of shared ones what says that it is theirs."""

from engine.domain import events as e
from engine.domain.encoding import Archived
from engine.domain.session import Session
from engine.domain.streams import LANE, SESSION
from engine.erasure.archives import Archives
from engine.erasure.content import source_of
from engine.erasure.identity import Identity, is_private, senders_of
from engine.erasure.report import Left
from engine.erasure.scope import Scope, is_personal
from engine.log.envelope import Envelope
from projections.inline.sessions import find_session

_MESSAGES = (e.MessageAppended, e.MessageRewritten)
_TELL_WHOSE = tuple(kind.TOPIC for kind in (e.LaneRouted, e.LaneReset, e.SessionCreated, e.SessionClaimed))


class Person:
    """Reads the whole log for one person."""

    def __init__(self, scope: Scope, user_id: str, platform: str | None, archives: Archives) -> None:
        self.scope = scope
        self._archives = archives
        self._untold: dict[str, list[int]] = {}
        self.shared: dict[str, Session] = {}
        """Sessions that lose what says whose they were, and are to be claimed again for the place alone."""
        self._who = Identity(user_id, platform)
        self._keys: dict[str, tuple[str, str | None]] = {}
        self._theirs: dict[str, list[Envelope]] = {}
        self._private: set[str] = set()
        self._said: dict[str, list[tuple[Envelope, set[str]]]] = {}
        self._said_in_archives: dict[int, set[str]] = {}
        self._beside: dict[tuple[str, str], list[int]] = {}

    def read(self) -> None:
        """Read the log and take in what belongs to the person."""
        for envelope in self.scope.log.events(topics=_TELL_WHOSE):
            self._who.learn(source_of(envelope.event) or {})
        self._said_in_archives = self._archives.said_by(self._who)
        for envelope in self.scope.log.events():
            self._look_at(envelope)
        for stream in self._theirs:
            if stream.startswith(LANE):
                self._lane(stream)
        for stream, envelopes in self._theirs.items():
            if stream.startswith(SESSION):
                self._session(stream.removeprefix(SESSION), envelopes)
        for stream, messages in self._said.items():
            self._messages(stream.removeprefix(SESSION), messages)
        for (field, name), positions in self._beside.items():
            self.scope.left.append(
                Left(f"the {field} {name!r}", "it stands beside the payload, where nothing is erased", tuple(positions))
            )

    def _look_at(self, envelope: Envelope) -> None:
        event, stream = envelope.event, envelope.stream
        if isinstance(event, e.LaneRouted) and event.key is not None:
            self._keys[stream] = event.key, event.identity
        source = source_of(event)
        if source is not None and self._who.has(source):
            self._theirs.setdefault(stream, []).append(envelope)
            if is_private(source):
                self._private.add(stream)
        elif isinstance(event, _MESSAGES) or envelope.position in self._said_in_archives:
            senders = senders_of(event.message) if isinstance(event, _MESSAGES) else set[str]()
            senders |= self._said_in_archives.get(envelope.position, set())
            if self._who.anywhere_among(senders):
                self._said.setdefault(stream, []).append((envelope, senders))
        elif isinstance(event, Archived) and envelope.position not in self._archives.positions:
            self._untold.setdefault(stream, []).append(envelope.position)
        for field in ("actor", "reason", "metadata"):
            value = getattr(envelope, field)
            if value and any(name in value for name in self._who.names):
                self._beside.setdefault((field, value), []).append(envelope.position)

    def _lane(self, stream: str) -> None:
        key, identity = self._keys.get(stream, ("", None))
        if key and (stream in self._private or is_personal(identity)):
            self.scope.lane(key, stream.removeprefix(LANE))
        else:
            self._take(self._theirs[stream])

    def _session(self, session_id: str, envelopes: list[Envelope]) -> None:
        if session_id in self.scope.whole:
            return
        head = find_session(self.scope.log.reader, session_id)
        if SESSION + session_id in self._private or (head is not None and self._is_theirs(head)):
            self.scope.session(session_id)
            return
        self._take(envelopes)
        self.scope.left.append(
            Left(f"session {session_id}", "several people wrote in it: messages that do not name their sender stay")
        )
        untold = self._untold.get(SESSION + session_id)
        if untold:
            why = "these messages are in an archive, where nobody looked who sent them; name it in archives=[…]"
            self.scope.left.append(Left(f"session {session_id}", why, tuple(untold)))
        if head is not None and head.lane is not None:
            self.shared[session_id] = head

    def _messages(self, session_id: str, messages: list[tuple[Envelope, set[str]]]) -> None:
        """Take in the person's messages of a session that is not erased whole."""
        if session_id in self.scope.whole:
            return
        head = find_session(self.scope.log.reader, session_id)
        platform = str(((head and head.source) or {}).get("platform"))
        self._take([envelope for envelope, senders in messages if self._who.among(senders, platform)])

    def _is_theirs(self, head: Session) -> bool:
        return any(key == head.lane and is_personal(identity) for key, identity in self._keys.values())

    def _take(self, envelopes: list[Envelope]) -> None:
        for envelope in envelopes:
            self.scope.add(envelope)
