"""G15 and G19: a lane as its caller sees it."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import msgspec

from engine.domain.lane import Lane
from engine.domain.lane_entry import entry_of
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.domain.times import microseconds

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
SOURCE = SessionSource(Platform.TELEGRAM, "4711", "Ada", "group", user_id="7")
LANE = Lane(
    "id",
    "agent:main:telegram:group:4711:7",
    session_id="s1",
    created_at=microseconds(NOON),
    updated_at=microseconds(NOON),
    origin=SOURCE.known(),
    display_name="Ada",
)


def changed(**fields: object) -> Lane:
    return msgspec.structs.replace(LANE, **fields)


def test_g15_entry_has_what_the_lane_has() -> None:
    flags = {"was_auto_reset": True, "auto_reset_reason": "idle", "reset_had_activity": True, "is_fresh_reset": True}
    flags |= {"expiry_finalized": True, "suspended": True, "resume_pending": True, "resume_reason": "x"}
    counts = {"input_tokens": 3, "output_tokens": 4, "cache_read_tokens": 5, "cache_write_tokens": 6}
    lane = changed(**flags, **counts, last_prompt_tokens=-1, model_override={"model": "large"})
    entry = entry_of(lane, UTC)
    assert (entry.session_key, entry.session_id, entry.display_name) == (LANE.key, "s1", "Ada")
    assert (entry.platform, entry.chat_type, entry.origin) == (Platform.TELEGRAM, "group", SOURCE)
    assert {name: getattr(entry, name) for name in (*flags, *counts)} == {**flags, **counts}
    assert (entry.total_tokens, entry.last_prompt_tokens, entry.model_override) == (7, -1, {"model": "large"})


def test_g15_times_have_the_fixed_offset_of_the_clocks_zone() -> None:
    lane = changed(updated_at=LANE.created_at + 60_000_000, last_resume_marked_at=LANE.created_at)
    entry = entry_of(lane, ZoneInfo("Europe/Berlin"))
    assert entry.created_at == entry.last_resume_marked_at == NOON
    assert entry.updated_at - entry.created_at == timedelta(minutes=1)
    assert entry.created_at.tzinfo == timezone(timedelta(hours=2))
    assert entry_of(LANE, UTC).last_resume_marked_at is None


def test_g28_times_of_a_new_lane_are_equal() -> None:
    entry = entry_of(LANE, UTC)
    assert entry.created_at == entry.updated_at == NOON


def test_g34_cost_is_unknown_until_one_was_recorded() -> None:
    assert (entry_of(LANE, UTC).cost_status, entry_of(LANE, UTC).estimated_cost_usd) == ("unknown", 0.0)
    entry = entry_of(changed(cost_known=True, cost_usd=0.0), UTC)
    assert (entry.cost_status, entry.estimated_cost_usd) == ("estimated", 0.0)


def test_g7a_caller_gets_its_own_source_back() -> None:
    own = SOURCE.replace(role_authorized=True)
    assert entry_of(LANE, UTC, own).origin is own
    assert entry_of(LANE, UTC).origin == SOURCE


def test_g16_lane_of_a_platform_nobody_registered_has_no_origin_and_keeps_its_chat_type() -> None:
    entry = entry_of(changed(origin={"platform": "gone-plugin", "chat_id": "1", "chat_type": "channel"}), UTC)
    assert (entry.platform, entry.origin, entry.chat_type) == (None, None, "channel")


def test_lane_without_an_origin_is_a_direct_chat_of_no_platform() -> None:
    entry = entry_of(changed(origin=None), UTC)
    assert (entry.platform, entry.origin, entry.chat_type) == (None, None, "dm")
    assert entry_of(changed(origin={"platform": "sms", "chat_id": "1"}), UTC).chat_type == "dm"


def test_g19_entry_shares_nothing_changeable_with_the_lane() -> None:
    lane = changed(model_override={"model": "large"})
    entry = entry_of(lane, UTC)
    assert entry.model_override is not None
    entry.model_override["model"] = "other"
    assert lane.model_override == {"model": "large"}
