"""Turns: one at a time per conversation, across lanes and processes, and what a crash leaves of them (G36)."""

from engine.claims import GIVEN_UP, TurnClaim
from engine.command import Command
from engine.commands.lanes import RESTART_INTERRUPTED, mark_resume
from engine.domain import events as e
from engine.domain.keys import check_session_key
from engine.domain.turn import TurnState, over
from engine.errors import TurnInProgressError, UnknownLaneError
from engine.holders import is_gone
from engine.validation import checked_lease, checked_text
from engine.work import Work
from projections.inline.turns import open_turns, turn_with


def begin_turn(session_key: str, lease_seconds: float | None, claim: TurnClaim) -> Command[str]:
    return Command("begin_turn", _begin, (check_session_key(session_key), checked_lease(lease_seconds), claim))


def _begin(work: Work, key: str, lease_seconds: float | None, claim: TurnClaim) -> str:
    """Take the lease of a lane's conversation; a turn whose worker is gone is interrupted first."""
    if claim.given_up:
        return claim.token
    lane = work.lane(key)
    session = None if lane is None else work.session(lane.session_id or "")
    if lane is None or session is None:
        raise UnknownLaneError(key)
    running = work.fold.turn(session.conversation_id)
    if running is not None and running.token in work.context.given_up:
        _finish(work, running.token, GIVEN_UP)
    elif running is not None:
        evidence = evidence_of(work, running)
        if evidence is None:
            seconds = max(work.time - running.begun_at, 0) / 1e6
            raise TurnInProgressError(session.conversation_id, running.holder, seconds)
        interrupt(work, running, evidence)
    boot, boot_at = work.since_boot() or (None, None)
    event = e.TurnBegun(
        token=claim.token,
        conversation_id=session.conversation_id,
        lane_id=lane.lane_id,
        lease_seconds=lease_seconds,
        holder=work.context.holder,
        boot=boot,
        boot_at=boot_at,
    )
    work.on_session(work.known(session.session_id), event)
    return claim.token


def renew_turn(token: str, lease_seconds: float | None) -> Command[bool]:
    return Command("renew_turn", _renew, (checked_text("token", token), checked_lease(lease_seconds)))


def _renew(work: Work, token: str, lease_seconds: float | None) -> bool:
    turn = turn_with(work.transaction, token)
    if turn is None:
        return False
    boot, boot_at = work.since_boot() or (None, None)
    event = e.TurnRenewed(token=token, lease_seconds=lease_seconds, boot=boot, boot_at=boot_at)
    work.on_session(work.known(turn.session_id), event, "its worker is still at it")
    return True


def end_turn(token: str, error: str | None) -> Command[bool]:
    said = None if error is None else checked_text("error", error)
    return Command("end_turn", _finish, (checked_text("token", token), said))


def _finish(work: Work, token: str, error: str | None) -> bool:
    turn = turn_with(work.transaction, token)
    if turn is None:
        return False
    outcome = e.TurnEnded(token=token, outcome="finished" if error is None else "failed", error=error)
    work.on_session(work.known(turn.session_id), outcome)
    return True


def recover_interrupted_turns() -> Command[int]:
    return Command("recover_interrupted_turns", _recover)


def _recover(work: Work) -> int:
    """Interrupt every turn whose worker is gone and mark its lane for resuming; return how many there were."""
    interrupted = 0
    for turn in open_turns(work.transaction):
        evidence = None if turn.token in work.context.given_up else evidence_of(work, turn)
        if evidence is not None:
            interrupt(work, turn, evidence)
            interrupted += 1
    return interrupted


def evidence_of(work: Work, turn: TurnState) -> str | None:
    """Return why a turn cannot be running any more, or None if it may be."""
    return over(turn, work.time, is_gone(turn.holder), work.since_boot())


def interrupt(work: Work, turn: TurnState, evidence: str) -> None:
    """Record that a turn lost its worker, and mark its lane for resuming."""
    work.on_session(work.known(turn.session_id), e.TurnInterrupted(token=turn.token, evidence=evidence), evidence)
    lane = None if turn.lane_id is None else work.fold.lane_with_id(turn.lane_id)
    session = None if lane is None else work.session(lane.session_id or "")
    same = session is not None and session.conversation_id == turn.conversation_id
    if lane is not None and same and not lane.resume_pending:
        mark_resume(work, lane.key, RESTART_INTERRUPTED)
