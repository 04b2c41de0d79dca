"""G9, G10, G11, G12, G13, G14, G17 and G28: lanes and ids."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, strategies as st

from engine.domain.keys import (
    check_session_id,
    check_session_key,
    colliding_key,
    is_shared_multi_user_session,
    lane_profile,
    looks_like_session_id,
    looks_like_session_key,
    name_lane,
    new_session_id,
)
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.naming import build_session_key


@pytest.fixture(autouse=True, scope="module")
def no_bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the mappings of a bridge on this machine out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def dm(chat_id: str = "", **fields: Any) -> SessionSource:
    return SessionSource(platform=Platform.TELEGRAM, chat_id=chat_id, **fields)


def group(chat_id: str = "c", chat_type: str = "group", **fields: Any) -> SessionSource:
    return SessionSource(platform=Platform.TELEGRAM, chat_id=chat_id, chat_type=chat_type, **fields)


@pytest.mark.parametrize(
    ("profile", "namespace"), [(None, "main"), ("", "main"), ("default", "main"), ("work", "work")]
)
def test_g9_profile_is_the_namespace_of_the_key(profile: str | None, namespace: str) -> None:
    assert build_session_key(dm("1"), profile=profile) == f"agent:{namespace}:telegram:dm:1"


def test_g9_profile_that_would_shift_the_parts_of_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="profile"):
        build_session_key(dm("1"), profile="work:telegram")


def test_g9_plugin_platform_is_in_the_key() -> None:
    source = SessionSource(platform=Platform.register("irc"), chat_id="nick")
    assert build_session_key(source) == "agent:main:irc:dm:nick"


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        (dm("1"), "dm:1"),
        (dm("1", thread_id="t", user_id="u"), "dm:1:t"),
    ],
)
def test_g10_dm_is_named_by_its_chat_id(source: SessionSource, rest: str) -> None:
    assert build_session_key(source) == f"agent:main:telegram:{rest}"


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        (dm(user_id="u"), "dm:u"),
        (dm(user_id="u", user_id_alt="a"), "dm:a"),
        (dm(user_id="u", user_id_alt=""), "dm:u"),
        (dm(user_id="u", thread_id="t"), "dm:u:t"),
    ],
)
def test_g10_dm_without_chat_id_uses_participant(source: SessionSource, rest: str) -> None:
    assert build_session_key(source) == f"agent:main:telegram:{rest}"


def test_g10_dm_without_any_person_uses_the_thread_and_then_the_sink() -> None:
    assert build_session_key(dm(thread_id="t")) == "agent:main:telegram:dm:t"
    assert build_session_key(dm()) == "agent:main:telegram:dm"


def test_g10_dm_ignores_the_switches_for_groups() -> None:
    assert build_session_key(dm("1", user_id="u"), False, True) == "agent:main:telegram:dm:1"


PLAIN = st.text(st.characters(exclude_characters=":", exclude_categories=["C", "Z"]), min_size=1, max_size=5)
MAYBE = st.none() | st.just("") | PLAIN
PLATFORMS = st.sampled_from([Platform.TELEGRAM, Platform.WHATSAPP, Platform.WHATSAPP_CLOUD, Platform.SLACK])


def person(source: SessionSource) -> str:
    return source.user_id_alt or source.user_id or ""


@given(PLATFORMS, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)
def test_g10_two_people_share_a_dm_lane_only_when_nothing_tells_them_apart(
    platform: Platform,
    user_a: str | None,
    alt_a: str | None,
    thread_a: str | None,
    user_b: str | None,
    alt_b: str | None,
    thread_b: str | None,
    chat: str | None,
) -> None:
    a = SessionSource(platform, chat or "", user_id=user_a, user_id_alt=alt_a, thread_id=thread_a)
    b = SessionSource(platform, "", user_id=user_b, user_id_alt=alt_b, thread_id=thread_b)
    assume((chat or person(a)) != person(b))
    if platform is Platform.WHATSAPP:
        for text in (chat, person(a), person(b)):
            assume(not text or not set("+@") & set(text))
    sink = f"agent:main:{platform.value}:dm"
    key_a, key_b = build_session_key(a), build_session_key(b)
    for source, key in ((a, key_a), (b, key_b)):
        assert (key == sink) == (not (source.chat_id or person(source) or source.thread_id))
    if (chat or person(a)) and person(b):
        assert key_a != key_b


@given(st.sampled_from(["+", "@", "@x", "+@lid", "@y"]), st.sampled_from(["+", "@", "@x", "+@lid", "@y"]))
def test_g10_whatsapp_ids_that_normalise_to_nothing_still_tell_people_apart(a: str, b: str) -> None:
    assume(a != b)
    sources = [SessionSource(Platform.WHATSAPP, "", user_id=value) for value in (a, b)]
    assert build_session_key(sources[0]) != build_session_key(sources[1])


@given(PLATFORMS, PLAIN, PLAIN, PLAIN, st.sampled_from(["group", "channel", "thread", "forum"]))
def test_g11_two_people_in_one_group_have_their_own_lanes_by_default(
    platform: Platform, chat: str, a: str, b: str, chat_type: str
) -> None:
    assume(a != b and not set("+@") & set(a + b))
    keys = {build_session_key(SessionSource(platform, chat, None, chat_type, user)) for user in (a, b)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("source", "per_user", "per_user_in_threads", "rest"),
    [
        (group(user_id="u"), True, False, "group:c:u"),
        (group(user_id="u", user_id_alt="a"), True, False, "group:c:a"),
        (group(user_id="u"), False, False, "group:c"),
        (group(user_id="u"), False, True, "group:c"),
        (group(), True, False, "group:c"),
        (group(user_id="u", thread_id="t"), True, False, "group:c:t"),
        (group(user_id="u", thread_id="t"), True, True, "group:c:t:u"),
        (group(user_id="u", thread_id="t"), False, True, "group:c:t"),
        (group("", user_id="u"), True, False, "group:u"),
        (group("", thread_id="t"), True, False, "group:t"),
        (group(""), True, False, "group"),
        (group(chat_type="channel", user_id="u"), True, False, "channel:c:u"),
        (group(chat_type="thread", thread_id="t", user_id="u"), True, False, "thread:c:t"),
        (group("spaces/A", user_id="u"), True, False, "group:spaces/A:u"),
    ],
)
def test_g11_key_of_a_group_channel_or_thread(
    source: SessionSource, per_user: bool, per_user_in_threads: bool, rest: str
) -> None:
    assert build_session_key(source, per_user, per_user_in_threads) == f"agent:main:telegram:{rest}"


@pytest.mark.parametrize("per_user", [True, False])
@pytest.mark.parametrize("in_threads", [True, False])
def test_g13_shared_sessions(per_user: bool, in_threads: bool) -> None:
    assert not is_shared_multi_user_session(dm("1", thread_id="t"), per_user, in_threads)
    assert is_shared_multi_user_session(group(), per_user, in_threads) is not per_user
    assert is_shared_multi_user_session(group(thread_id="t"), per_user, in_threads) is not in_threads


def test_g13_by_default_groups_are_not_shared_and_threads_are() -> None:
    assert not is_shared_multi_user_session(group())
    assert is_shared_multi_user_session(group(thread_id="t"))


def test_g14_profile_counts_only_when_profiles_are_multiplexed() -> None:
    source = dm("1", profile="own")
    assert lane_profile(source, False, "active") is None
    assert lane_profile(source, True, "active") == "own"
    assert lane_profile(dm("1"), True, "active") == "active"
    assert lane_profile(dm("1"), True) is None


@pytest.mark.parametrize("bad", ["../x", "a..b", "a/b", "/a", "a\\b", "C:", "c:x", "", None, 5, "a\ud800"])
def test_g17_session_id_that_could_leave_its_folder_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^session_id "):
        check_session_id(bad)
    with pytest.raises(ValueError, match=r"^target_session_id "):
        check_session_id(bad, "target_session_id")


@pytest.mark.parametrize("good", ["20260701_142530_1a2b3c4d", "a.b", "ab:c"])
def test_g17_other_session_ids_are_returned(good: str) -> None:
    assert check_session_id(good) == good


@pytest.mark.parametrize(
    "key", ["agent:..:x", "agent:main:email:dm:CORP\\ada", "agent:main:x:group:spaces/AAA/", "C:x"]
)
def test_g17a_session_key_may_hold_any_chat_id(key: str) -> None:
    assert check_session_key(key) == key


@pytest.mark.parametrize("bad", ["", None, 5, "agent:\ud800"])
def test_g17a_session_key_that_is_no_text_is_refused_by_the_arguments_name(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^session_key "):
        check_session_key(bad)
    with pytest.raises(ValueError, match=r"^key "):
        check_session_key(bad, "key")


def test_g17_key_given_for_an_id_and_an_id_given_for_a_key_are_recognised() -> None:
    with pytest.raises(ValueError, match="looks like a lane's key"):
        check_session_id("agent:main:sms:dm:1")
    assert looks_like_session_id("20260701_142530_1a2b3c4d")
    assert not looks_like_session_id("agent:main:sms:dm:1")
    assert not looks_like_session_id(None)
    assert looks_like_session_key("agent:main:sms:dm:1")
    assert not looks_like_session_key("20260701_142530_1a2b3c4d")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((dm("alice:t1"), None), (dm("alice", thread_id="t1"), None)),
        ((group(user_id="4242"), None), (group(thread_id="4242"), None)),
        ((dm("1"), "main"), (dm("1"), None)),
        ((dm("1"), None), (dm(user_id="1"), None)),
        ((dm("\ud800"), None), (dm("&#55296;"), None)),
        ((dm("\ud83d\ude00\ud800"), None), (dm("\U0001f600\ud800"), None)),
    ],
)
def test_g17b_strangers_with_keys_of_the_same_text_have_different_identities(a: Any, b: Any) -> None:
    names = [name_lane(source, profile=profile) for source, profile in (a, b)]
    assert names[0].identity != names[1].identity
    if "\ud83d" not in a[0].chat_id:
        assert names[0].key == names[1].key
    assert colliding_key(*names[0]) != colliding_key(*names[1])
    assert re.fullmatch(re.escape(names[0].key) + "~[0-9a-f]{8}", colliding_key(*names[0]))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (dm("1", user_id="u"), dm("1", user_id="v", user_name="V", message_id="9")),
        (dm(), dm(chat_name="x")),
        (group(user_id="u", thread_id="t"), group(user_id="v", thread_id="t")),
        (group(user_id="u", user_id_alt="a"), group(user_id="v", user_id_alt="a")),
    ],
)
def test_g17b_sources_of_one_lane_have_one_name(a: SessionSource, b: SessionSource) -> None:
    assert name_lane(a) == name_lane(b)
    assert name_lane(a, profile="default") == name_lane(b, profile="") == name_lane(a)


def test_g17b_identity_is_a_json_list_of_what_counts() -> None:
    name = name_lane(group("c", user_id="u"), profile="work")
    assert json.loads(name.identity) == ["work", "telegram", "group", "c", 0, "u"]
    assert json.loads(name_lane(dm()).identity) == [0, "telegram", "dm", 0, 0, 0]
    whatsapp = SessionSource(Platform.WHATSAPP, "+4917:3@s.whatsapp.net")
    assert json.loads(name_lane(whatsapp).identity)[3] == "4917"


ID = st.none() | st.text(st.sampled_from("ab:\ud800"), max_size=3)
SOURCES = st.builds(
    SessionSource,
    st.sampled_from([Platform.TELEGRAM, Platform.SLACK]),
    st.text(st.sampled_from("ab:\ud800"), max_size=3),
    chat_type=st.sampled_from(["dm", "group", "thread"]),
    user_id=ID,
    thread_id=ID,
)


@given(SOURCES, SOURCES, st.booleans(), st.booleans())
def test_g17b_equal_identities_have_equal_keys_and_can_be_stored(
    a: SessionSource, b: SessionSource, per_user: bool, in_threads: bool
) -> None:
    options = {"group_sessions_per_user": per_user, "thread_sessions_per_user": in_threads}
    one, other = (name_lane(source, **options) for source in (a, b))  # type: ignore[arg-type]
    for text in (*one, *other):
        text.encode()
    if one.identity == other.identity:
        assert one.key == other.key
        assert (a.platform, a.chat_type, a.chat_id, a.thread_id or "") == (
            b.platform,
            b.chat_type,
            b.chat_id,
            b.thread_id or "",
        )


@pytest.mark.parametrize("chat_id", ["@lid", "+", " @s.whatsapp.net"])
def test_g12a_whatsapp_dm_whose_chat_id_is_nothing_falls_through_to_the_participant(chat_id: str) -> None:
    source = SessionSource(Platform.WHATSAPP, chat_id, user_id="+4917@s.whatsapp.net")
    assert name_lane(source).key == "agent:main:whatsapp:dm:4917"


def test_g28_new_id_is_the_local_time_and_eight_hex_digits() -> None:
    now = datetime(2026, 7, 1, 12, 25, 30, tzinfo=UTC).astimezone(ZoneInfo("Europe/Berlin"))
    assert new_session_id(now, bytes.fromhex("1a2b3c4d")) == "20260701_142530_1a2b3c4d"
    assert new_session_id(now, bytes(16)) == "20260701_142530_00000000"
    assert looks_like_session_id(check_session_id(new_session_id(now, bytes(4))))


def test_g28_time_without_a_zone_and_too_little_entropy_are_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        new_session_id(datetime(2026, 7, 1), bytes(4))
    with pytest.raises(ValueError, match="entropy"):
        new_session_id(datetime(2026, 7, 1, tzinfo=UTC), b"abc")
