"""G15, G16, G18 and G19: the lane's record."""

import copy
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, strategies as st

from engine.domain.entry import SessionEntry
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource

BERLIN = ZoneInfo("Europe/Berlin")
THEN = datetime(2026, 7, 1, 14, 25, 30, 123456, tzinfo=BERLIN)
SOURCE = SessionSource(Platform.TELEGRAM, "1", "Ann", user_id="7")
MINIMAL = {"session_key": "agent:main:telegram:dm:1", "session_id": "s1"}
FIELDS = [
    "session_key",
    "session_id",
    "created_at",
    "updated_at",
    "origin",
    "display_name",
    "platform",
    "chat_type",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
    "last_prompt_tokens",
    "estimated_cost_usd",
    "cost_status",
    "was_auto_reset",
    "auto_reset_reason",
    "reset_had_activity",
    "is_fresh_reset",
    "expiry_finalized",
    "suspended",
    "resume_pending",
    "resume_reason",
    "last_resume_marked_at",
    "model_override",
]


def entry(**fields: Any) -> SessionEntry:
    return SessionEntry(**{**MINIMAL, "created_at": THEN, "updated_at": THEN, **fields})


def stored(**fields: Any) -> dict[str, Any]:
    return {
        **MINIMAL,
        "created_at": "2026-07-01T12:00:00+00:00",
        "updated_at": "2026-07-01T13:00:00Z",
        **fields,
    }


FULL = entry(
    updated_at=THEN + timedelta(minutes=5),
    origin=SOURCE,
    display_name="Ann",
    platform=Platform.TELEGRAM,
    chat_type="group",
    input_tokens=1,
    output_tokens=2,
    cache_read_tokens=3,
    cache_write_tokens=4,
    total_tokens=3,
    last_prompt_tokens=6,
    estimated_cost_usd=0.25,
    cost_status="estimated",
    was_auto_reset=True,
    auto_reset_reason="idle",
    reset_had_activity=True,
    is_fresh_reset=True,
    expiry_finalized=True,
    suspended=True,
    resume_pending=True,
    resume_reason="restart_timeout",
    last_resume_marked_at=THEN,
    model_override={"model": "m", "provider": "p", "base_url": "https://host/v1"},
)


def test_g15_fields_in_order_and_their_defaults() -> None:
    assert list(SessionEntry.__struct_fields__) == FIELDS
    fresh = SessionEntry("k", "s", THEN, THEN)
    assert (fresh.chat_type, fresh.cost_status, fresh.estimated_cost_usd) == ("dm", "unknown", 0.0)
    assert all(getattr(fresh, name) == 0 for name in FIELDS if name.endswith("_tokens"))
    for name in ("origin", "display_name", "platform", "auto_reset_reason", "resume_reason"):
        assert getattr(fresh, name) is None
    for name in ("was_auto_reset", "reset_had_activity", "is_fresh_reset", "expiry_finalized", "suspended"):
        assert getattr(fresh, name) is False
    assert (fresh.resume_pending, fresh.last_resume_marked_at, fresh.model_override) == (False, None, None)


@pytest.mark.parametrize("field", ["created_at", "updated_at", "last_resume_marked_at"])
def test_g15_time_without_a_zone_is_refused_by_name(field: str) -> None:
    for wrong in (datetime(2026, 7, 1), "2026-07-01T00:00:00Z"):
        with pytest.raises(ValueError, match=field):
            entry(**{field: wrong})


def test_g15_times_of_an_entry_subtract_to_the_time_that_passed() -> None:
    before = datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN)
    after = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    across = entry(created_at=before, updated_at=after)
    assert across.updated_at - across.created_at == timedelta(hours=2)
    assert across.updated_at.isoformat() == after.isoformat()


def test_g16_full_and_minimal_entries_round_trip_through_json() -> None:
    for original in (FULL, entry()):
        data = msgspec.json.decode(msgspec.json.encode(original.to_dict()))
        assert list(data) == FIELDS
        assert SessionEntry.from_dict(data) == original


@given(
    st.datetimes(datetime(1980, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
)
def test_g16_every_time_round_trips_even_in_an_hour_that_comes_twice(instant: datetime, zone: str) -> None:
    original = entry(created_at=instant.astimezone(ZoneInfo(zone)))
    assert original.created_at == instant
    assert SessionEntry.from_dict(original.to_dict()) == original


@pytest.mark.parametrize(
    ("fields", "finalized"),
    [
        ({"memory_flushed": True}, True),
        ({"memory_flushed": True, "expiry_finalized": False}, False),
        ({"memory_flushed": False, "expiry_finalized": True}, True),
        ({"memory_flushed": None}, False),
        ({}, False),
    ],
)
def test_g16_legacy_memory_flushed_is_read_as_expiry_finalized(fields: Any, finalized: bool) -> None:
    assert SessionEntry.from_dict(stored(**fields)).expiry_finalized is finalized


@pytest.mark.parametrize("unknown", ["gone-plugin", "", None, 5, []])
def test_g16_unknown_platform_is_none(unknown: Any) -> None:
    read = SessionEntry.from_dict(stored(platform=unknown, origin={"platform": unknown, "chat_id": "1"}))
    assert (read.platform, read.origin) == (None, None)


@pytest.mark.parametrize("bad", ["soon", "", None, 17, []])
def test_g16_unparsable_resume_time_is_none(bad: Any) -> None:
    assert SessionEntry.from_dict(stored(last_resume_marked_at=bad)).last_resume_marked_at is None


@pytest.mark.parametrize("field", ["session_key", "session_id", "created_at", "updated_at"])
def test_g16_missing_id_or_time_raises_key_error(field: str) -> None:
    data = stored()
    del data[field]
    with pytest.raises(KeyError, match=field):
        SessionEntry.from_dict(data)


@pytest.mark.parametrize("field", ["created_at", "updated_at"])
@pytest.mark.parametrize("bad", ["yesterday", "", None, 1751371200, "2026-13-01T00:00:00Z"])
def test_g16_bad_time_raises_value_error_that_names_it(field: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=field):
        SessionEntry.from_dict(stored(**{field: bad}))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("input_tokens", "many"),
        ("total_tokens", 1.5),
        ("estimated_cost_usd", []),
        ("suspended", "perhaps"),
        ("display_name", 5),
        ("chat_type", 5),
        ("origin", {"platform": "sms", "user_id": []}),
    ],
)
def test_g16_field_of_another_type_raises_value_error(field: str, bad: Any) -> None:
    with pytest.raises(ValueError, match="user_id" if field == "origin" else field):
        SessionEntry.from_dict(stored(**{field: bad}))


def test_g16_nulls_and_keys_of_a_newer_writer_are_read_over() -> None:
    nulls = dict.fromkeys(FIELDS[4:], None)
    read = SessionEntry.from_dict({**stored(), **nulls, "new_field": 1})
    assert read == SessionEntry.from_dict(stored())


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_g15_time_stored_without_a_zone_is_local() -> None:
    read = SessionEntry.from_dict(stored(created_at="2026-07-01T12:00:00", last_resume_marked_at="2026-07-01"))
    assert read.created_at == datetime(2026, 7, 1, 3, tzinfo=UTC)
    assert read.last_resume_marked_at == datetime(2026, 6, 30, 15, tzinfo=UTC)


def test_g15_host_may_say_which_zone_is_local() -> None:
    read = SessionEntry.from_dict(stored(created_at="2026-01-01T12:00:00"), local=BERLIN)
    assert read.created_at == datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert read.created_at.tzinfo == timezone(timedelta(hours=1))


@pytest.mark.parametrize("bad", ["../../etc", "a/b", "a\\b", "C:x"])
def test_g17_entry_with_a_dangerous_session_id_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="session_id"):
        entry(session_id=bad)
    with pytest.raises(ValueError, match="session_id"):
        SessionEntry.from_dict(stored(session_id=bad))


@pytest.mark.parametrize("key", ["agent:main:email:dm:../x", "agent:main:sms:dm:CORP\\ada", "agent:x:spaces/AAA/"])
def test_g17a_entry_may_have_the_key_of_any_chat(key: str) -> None:
    assert SessionEntry.from_dict(stored(session_key=key)).session_key == key
    with pytest.raises(ValueError, match="session_key must be"):
        SessionEntry.from_dict(stored(session_key=""))


@pytest.mark.parametrize("origin", ["telegram", 5, ["telegram"], "", [], True])
def test_g16a_origin_that_is_not_a_dict_is_none(origin: Any) -> None:
    assert SessionEntry.from_dict(stored(origin=origin)).origin is None


def test_g18_override_is_cleaned_when_an_entry_is_made_written_and_read() -> None:
    dirty = {"model": "m", "api_key": "secret"}
    made = entry(model_override=dirty)
    assert made.model_override == {"model": "m"}
    made.model_override = dirty
    assert made.to_dict()["model_override"] == {"model": "m"}
    assert SessionEntry.from_dict(stored(model_override=dirty)).model_override == {"model": "m"}
    assert dirty == {"model": "m", "api_key": "secret"}


def test_g19_changing_a_snapshot_changes_nothing_else() -> None:
    for twin in (FULL.snapshot(), copy.copy(FULL), copy.deepcopy(FULL)):
        assert twin == FULL
        twin.suspended = False
        assert twin.model_override is not None
        twin.model_override["model"] = "other"
        assert FULL.suspended
        assert FULL.model_override == {"model": "m", "provider": "p", "base_url": "https://host/v1"}
        assert twin.origin is FULL.origin


def test_g19_entry_does_not_keep_the_callers_override_nor_hand_its_own_out() -> None:
    given = {"model": "m"}
    made = entry(model_override=given)
    given["model"] = "other"
    made.to_dict()["model_override"]["model"] = "other"
    assert made.model_override == {"model": "m"}
