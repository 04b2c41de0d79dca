"""Turns: one at a time per conversation, across lanes and processes, and what a crash leaves of them (G36)."""

import secrets

from engine.commands.lanes import RESTART_INTERRUPTED, mark_resume
from engine.domain import events as e
from engine.errors import TurnInProgressError, UnknownLaneError
from engine.holders import is_gone
from engine.work import Work
from projections import routing
from projections.turns import Turn, open_turns, turn_of, turn_with


def begin(work: Work, key: str, lease_seconds: float | None) -> str:
    """Take the lease of a lane's conversation; a turn whose worker is gone is interrupted first."""
    token = secrets.token_hex(16)
    lane = work.lane(key)
    session = work.session(lane.session_id or "")
    if lane.session_id is None or session is None:
        raise UnknownLaneError(key)
    running = turn_of(work.query, session.conversation_id)
    if running is not None:
        evidence = _over(work, running)
        if evidence is None:
            seconds = (work.time - running.begun_at) / 1e6
            raise TurnInProgressError(session.conversation_id, running.holder, seconds)
        _interrupt(work, running, evidence)
    event = e.TurnBegun(
        token=token,
        session_id=lane.session_id,
        conversation_id=session.conversation_id,
        lease_seconds=lease_seconds,
        holder=work.about.holder,
    )
    work.on_lane(work.lane(key), event)
    return token


def renew(work: Work, token: str, lease_seconds: float | None) -> bool:
    """Let a turn's lease run from now on; False if it is over."""
    turn = turn_with(work.query, token)
    if turn is None:
        return False
    event = e.TurnBegun(
        token=token,
        session_id=turn.session_id,
        conversation_id=turn.conversation_id,
        lease_seconds=lease_seconds,
        holder=turn.holder,
    )
    work.on_stream(turn.stream, event, "renewed")
    return True


def finish(work: Work, token: str, error: str | None) -> bool:
    """End a turn; False if it is over, by an earlier call or because it was interrupted."""
    turn = turn_with(work.query, token)
    if turn is None:
        return False
    outcome = e.TurnEnded(
        token=token, session_id=turn.session_id, outcome="finished" if error is None else "failed", error=error
    )
    work.on_stream(turn.stream, outcome)
    return True


def recover(work: Work) -> int:
    """Interrupt every turn whose worker is gone and mark its lane for resuming; how many there were."""
    over = [(turn, evidence) for turn in open_turns(work.query) if (evidence := _over(work, turn)) is not None]
    for turn, evidence in over:
        _interrupt(work, turn, evidence)
    return len(over)


def _over(work: Work, turn: Turn) -> str | None:
    """Why a turn cannot be running any more, if it cannot."""
    if is_gone(turn.holder):
        return f"its worker {turn.holder} is gone"
    if turn.ends_at is not None and turn.ends_at <= work.time:
        return f"its lease ran out {(work.time - turn.ends_at) / 1e6:.1f} s ago"
    return None


def _interrupt(work: Work, turn: Turn, evidence: str) -> None:
    event = e.TurnInterrupted(token=turn.token, session_id=turn.session_id, evidence=evidence)
    work.on_stream(turn.stream, event, evidence)
    if turn.stream.startswith(routing.PREFIX):
        lane = work.lane(turn.stream.removeprefix(routing.PREFIX))
        session = work.session(lane.session_id or "")
        same = session is not None and session.conversation_id == turn.conversation_id
        if same and not lane.resume_pending:
            mark_resume(work, lane.key, RESTART_INTERRUPTED)
