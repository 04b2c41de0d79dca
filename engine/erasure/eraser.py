"""Erasing: what others need is kept first, then everything in the scope is erased in bounded transactions."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from engine.acting import acting_now
from engine.archived import archives_of
from engine.command import Command
from engine.commands.transcripts import rewrite_transcript
from engine.domain import events as e
from engine.domain.errors import ArchivedError
from engine.domain.platforms import Platform
from engine.domain.session import Session
from engine.domain.streams import session_stream
from engine.erasure.archives import Archives
from engine.erasure.content import nobodys
from engine.erasure.person import Person
from engine.erasure.report import ErasureReport, Left
from engine.erasure.scope import Scope
from engine.log.protocol import Log
from engine.reader import SessionReader
from engine.runner import Runner
from engine.validation import checked_id, checked_name, checked_platform, checked_positions
from engine.work import Work
from projections.inline.sessions import find_session

_ROUNDS = 5
"""What arrives while something is erased is erased in another round."""


class Wanted:
    """The thing to be erased: exactly one of a session, a lane, a person, or positions."""

    def __init__(
        self,
        session_id: str | None,
        lane: str | None,
        user_id: str | int | None,
        platform: str | Platform | None,
        positions: Sequence[int] | None,
    ) -> None:
        given = [each for each in (session_id, lane, user_id, positions) if each is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of session_id, lane, user_id and positions")
        if platform is not None and user_id is None:
            raise ValueError("platform goes with user_id: the same id may be another person elsewhere")
        self.session_id = None if session_id is None else checked_name("session_id", session_id)
        self.lane = None if lane is None else checked_name("lane", lane)
        self.user_id = None if user_id is None else checked_id("user_id", user_id)
        self.platform = None if platform is None else checked_platform(platform)
        self.positions = None if positions is None else checked_positions(positions)

    def found(self, log: Log, archives: Archives) -> tuple[Scope, dict[str, Session]]:
        """Return what is to be erased now, and the shared sessions that are to be claimed for their place alone."""
        scope = Scope(log)
        if self.session_id is not None:
            scope.session(self.session_id)
        elif self.lane is not None:
            scope.lane(self.lane)
        elif self.user_id is not None:
            person = Person(scope, self.user_id, self.platform, archives)
            person.read()
            return scope, person.shared
        else:
            positions = self.positions or []
            recorded = log.reader.recorded_at(positions)
            if len(recorded) < len(positions):
                raise ValueError(f"no event is at one of these positions: {positions!r:.200}")
            for envelope in recorded:
                scope.add(envelope)
        return scope, {}


class Eraser:
    """Erases what is wanted, once."""

    def __init__(
        self, runner: Runner, reader: SessionReader, archives: Archives, actor: str, reason: str, request: str | None
    ) -> None:
        self._runner = runner
        self._archives = archives
        self._reader = reader
        self._log = reader.log
        given = acting_now()
        self._actor = actor if given is None else given.actor
        self._reason = checked_name("reason", reason)
        self._request = None if request is None else checked_name("request", request)

    def run(self, wanted: Wanted, now: datetime, *, dry_run: bool) -> ErasureReport:
        """Erase, or with `dry_run` only look; return what was found."""
        scope, shared = wanted.found(self._log, self._archives)
        first, positions = scope, scope.everything()
        erased: set[int] = set()
        for _ in range(_ROUNDS):
            if dry_run or not positions:
                break
            self._keep(scope, shared)
            erased.update(self._log.erase(positions, actor=self._actor, reason=self._reason, request=self._request))
            scope, shared = wanted.found(self._log, self._archives)
            scope.again(first)
            positions = scope.everything()
            first.messages |= scope.messages
            first.archived |= scope.archived
        self._tell_of_archives(first)
        rewritten = () if dry_run else self._archives.rewrite(now)
        return _report(first, positions if dry_run else sorted(erased), rewritten, dry_run=dry_run)

    def _tell_of_archives(self, scope: Scope) -> None:
        """Name the archives that have what is erased here, and were not given to be written anew."""
        still: defaultdict[str, list[int]] = defaultdict(list)
        for position, archive in archives_of(self._log.reader, scope.archived - self._archives.positions).items():
            still[archive].append(position)
        for archive, positions in still.items():
            why = "the file still holds these messages; erase again with archives=[…], or delete it"
            scope.left.append(Left(f"archive {archive}", why, tuple(sorted(positions))))

    def _keep(self, scope: Scope, shared: dict[str, Session]) -> None:
        """Keep for others what would go along: shared sessions stay their place's, and carried messages in view."""
        for session_id, owned in shared.items():
            self._runner.run(Command("erase", _claim, (session_id, owned.lane, nobodys(owned.source or {}))))
        for session_id in sorted(scope.sessions - scope.whole):
            head = find_session(self._log.reader, session_id)
            if head is not None and _begins_in(self._log, head, scope.positions):
                try:
                    told = self._reader.recorded_messages(session_id)
                except ArchivedError:  # nobody reads it before it is restored
                    continue
                kept = [each.message for each in told if each.position not in scope.positions]
                if kept:
                    self._runner.run(rewrite_transcript(session_id, kept, None))


def _begins_in(log: Log, head: Session, positions: set[int]) -> bool:
    """Return True if the event that a session's history begins with is to be erased."""
    at = head.history_from
    rows = log.reader.payloads(session_stream(head.session_id), at - 1, at) if at else []
    return any(position in positions for _, _, _, position, _ in rows)


def _claim(work: Work, session_id: str, lane: str, source: dict[str, object]) -> None:
    session = work.session(session_id)
    if session is not None and not session.deleted:  # that one is nobody's place any more
        work.on_session(session, e.SessionClaimed(lane=lane, source=source), "a person was erased, the place stays")


def _report(scope: Scope, positions: Sequence[int], archives: tuple[str, ...], *, dry_run: bool) -> ErasureReport:
    return ErasureReport(
        events=len(positions),
        messages=len(scope.messages.intersection(positions)),
        sessions=tuple(sorted(scope.sessions)),
        lanes=len(scope.lanes),
        positions=tuple(positions),
        left=tuple(scope.left),
        dry_run=dry_run,
        archives=archives,
    )
