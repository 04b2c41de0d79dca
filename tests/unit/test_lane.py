"""G23 and G30: what a message finds, where the store would not even ask."""

from datetime import UTC, datetime, timedelta

import msgspec

from engine.domain.lane import KEEP, Lane, judge, microseconds
from engine.domain.policy import SessionResetPolicy

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
IDLE = SessionResetPolicy(mode="idle", idle_minutes=60)
USED = Lane("key", session_id="s", updated_at=microseconds(NOON))


def asked() -> bool:
    raise AssertionError("the host was asked")


def test_g23_mark_does_not_go_stale_when_nothing_expires() -> None:
    marked = msgspec.structs.replace(USED, resume_pending=True, last_resume_marked_at=USED.updated_at)
    later = NOON + timedelta(minutes=2)
    assert judge(marked, SessionResetPolicy(mode="none"), later, 60.0, bool) is KEEP
    assert judge(marked, IDLE, later, 60.0, bool).reason == "resume_pending_expired"


def test_g30_host_is_asked_only_when_something_is_due() -> None:
    suspended = msgspec.structs.replace(USED, suspended=True)
    assert judge(USED, IDLE, NOON, 60.0, asked) is KEEP
    assert judge(USED, SessionResetPolicy(mode="none"), NOON + timedelta(days=9), 60.0, asked) is KEEP
    assert judge(suspended, IDLE, NOON, 60.0, asked).reason == "suspended"
    assert judge(USED, IDLE, NOON + timedelta(hours=2), 60.0, lambda: True).held == "idle"
