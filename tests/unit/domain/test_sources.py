"""G4, G5, G6, G7 and G8: where a message came from."""

import copy
import dataclasses
import pickle
from typing import Any
from uuid import UUID

import msgspec
import pytest

from engine.domain.platforms import Platform
from engine.domain.sources import NEVER_WRITTEN, SessionSource

ALWAYS = {"platform", "chat_id", "chat_name", "chat_type", "user_id", "user_name", "thread_id", "chat_topic"}
FULL = SessionSource(
    platform=Platform.DISCORD,
    chat_id="c1",
    chat_name="general",
    chat_type="channel",
    user_id="u1",
    user_name="Ann",
    thread_id="t1",
    chat_topic="plans",
    user_id_alt="u2",
    chat_id_alt="c2",
    scope_id="g1",
    parent_chat_id="p1",
    message_id="m1",
    profile="work",
)
TRUSTED = FULL.replace(is_bot=True, role_authorized=True, delivered_via_upstream_relay=True)


def test_g4_fields_and_their_defaults() -> None:
    source = SessionSource(platform=Platform.SLACK, chat_id="c")
    assert (source.platform, source.chat_id, source.chat_type) == (Platform.SLACK, "c", "dm")
    optional = "chat_name user_id user_name thread_id chat_topic user_id_alt chat_id_alt scope_id guild_id"
    for name in (*optional.split(), "parent_chat_id", "message_id", "profile"):
        assert getattr(source, name) is None
    for name in ("is_bot", "role_authorized", "delivered_via_upstream_relay"):
        assert getattr(source, name) is False


def test_g4_arguments_may_be_positional_in_the_order_of_the_fields() -> None:
    assert SessionSource(Platform.SMS, "c", "name", "group", "u") == SessionSource(
        platform=Platform.SMS, chat_id="c", chat_name="name", chat_type="group", user_id="u"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("chat_id", True),
        ("chat_id", 1.5),
        ("chat_name", b"x"),
        ("chat_type", None),
        ("chat_type", ""),
        ("chat_type", "dm:123"),
        ("user_id", False),
        ("thread_id", 5.0),
        ("scope_id", []),
        ("chat_name", 5),
        ("profile", []),
        ("is_bot", None),
        ("role_authorized", "yes"),
        ("delivered_via_upstream_relay", 1),
    ],
)
def test_g4_value_of_the_wrong_type_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        SessionSource(**{"platform": Platform.SMS, "chat_id": "c", field: value})


def test_g4_platform_may_be_a_name_but_must_be_registered() -> None:
    assert SessionSource(platform="sms", chat_id="c").platform is Platform.SMS  # type: ignore[arg-type]
    for wrong in ("nowhere", None, 5):
        with pytest.raises(ValueError, match="not a valid Platform"):
            SessionSource(platform=wrong, chat_id="c")  # type: ignore[arg-type]


def test_g4_missing_chat_id_is_the_empty_text() -> None:
    assert SessionSource(platform=Platform.SMS, chat_id=None).chat_id == ""  # type: ignore[arg-type]


def test_g4_source_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="replace"):
        FULL.chat_id = "other"
    with pytest.raises(AttributeError):
        FULL.unknown = "x"
    with pytest.raises(AttributeError):
        del FULL.chat_id
    assert FULL.chat_id == "c1"


def test_g4_sources_compare_by_value() -> None:
    twin = FULL.replace()
    assert twin == FULL
    assert hash(twin) == hash(FULL)
    assert twin is not FULL
    assert FULL.replace(user_id="other") != FULL
    assert FULL.replace(is_bot=True) != FULL
    assert FULL != "FULL"


def test_g4_copies_are_the_source_itself() -> None:
    assert copy.copy(TRUSTED) is TRUSTED
    assert copy.deepcopy([TRUSTED])[0] is TRUSTED


def test_g4_repr_shows_what_is_set() -> None:
    source = SessionSource(Platform.SMS, "c")
    assert repr(source) == "SessionSource(platform=<Platform.SMS: 'sms'>, chat_id='c', chat_type='dm')"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"scope_id": "s"}, "s"),
        ({"guild_id": "g"}, "g"),
        ({"scope_id": "s", "guild_id": "g"}, "s"),
        ({"scope_id": "", "guild_id": "g"}, "g"),
    ],
)
def test_g5_scope_id_and_guild_id_fill_each_other_and_scope_id_wins(given: dict[str, str], expected: str) -> None:
    for source in (
        SessionSource(platform=Platform.DISCORD, chat_id="c", **given),  # type: ignore[arg-type]
        SessionSource.from_dict({"platform": "discord", "chat_id": "c", **given}),
    ):
        assert (source.scope_id, source.guild_id) == (expected, expected)
        assert source.to_dict()["scope_id"] == source.to_dict()["guild_id"] == expected


def test_g5_replacing_either_name_replaces_both() -> None:
    assert FULL.replace(guild_id="g2").scope_id == "g2"
    assert FULL.replace(scope_id="s2").guild_id == "s2"
    assert FULL.replace(scope_id=None).guild_id is None


def test_g6_required_keys_are_always_written_and_optional_ones_only_when_set() -> None:
    assert set(SessionSource(Platform.SMS, "c").to_dict()) == ALWAYS
    assert set(FULL.replace(user_id_alt="", profile=None).to_dict()) == ALWAYS | {
        "chat_id_alt",
        "scope_id",
        "guild_id",
        "parent_chat_id",
        "message_id",
    }


def test_g6_source_round_trips() -> None:
    assert FULL.to_dict()["platform"] == "discord"
    assert SessionSource.from_dict(msgspec.json.decode(msgspec.json.encode(FULL.to_dict()))) == FULL


def test_g4a_whole_numbers_become_text_in_the_constructor_as_in_from_dict() -> None:
    names = [
        "chat_id",
        "user_id",
        "thread_id",
        "user_id_alt",
        "chat_id_alt",
        "scope_id",
        "guild_id",
        "parent_chat_id",
        "message_id",
    ]
    for name in names:
        made = SessionSource(**{"platform": Platform.SMS, "chat_id": "c", name: -7})
        assert getattr(made, name) == "-7"
        assert made == SessionSource.from_dict({"platform": "sms", "chat_id": "c", name: -7})
    assert SessionSource(Platform.SMS, "c", scope_id=0).guild_id == "0"  # type: ignore[arg-type]


def test_g6_numeric_ids_become_text() -> None:
    source = SessionSource.from_dict({"platform": "telegram", "chat_id": -100, "user_id": 7, "thread_id": 0})
    assert (source.chat_id, source.user_id, source.thread_id) == ("-100", "7", "0")


@pytest.mark.parametrize("chat_id", [-100, 1.5, True, UUID(int=7)])
def test_g6_chat_id_becomes_text_whatever_it_is(chat_id: object) -> None:
    assert SessionSource.from_dict({"platform": "sms", "chat_id": chat_id}).chat_id == str(chat_id)


def test_g6_minimal_and_odd_dicts_are_read() -> None:
    source = SessionSource.from_dict({"platform": "sms", "chat_type": None, "later_field": 1})
    assert source == SessionSource(Platform.SMS, "")
    with pytest.raises(KeyError):
        SessionSource.from_dict({"chat_id": "c"})
    with pytest.raises(ValueError):
        SessionSource.from_dict({"platform": "nowhere", "chat_id": "c"})
    with pytest.raises(ValueError, match="user_id"):
        SessionSource.from_dict({"platform": "sms", "chat_id": "c", "user_id": ["u"]})
    with pytest.raises(ValueError, match="mapping"):
        SessionSource.from_dict("sms")  # type: ignore[arg-type]


def test_g7_trust_signals_are_never_written() -> None:
    assert not set(NEVER_WRITTEN) & set(TRUSTED.to_dict())
    assert TRUSTED.to_dict() == FULL.to_dict()


def test_g7_trust_signals_in_a_file_or_from_a_peer_are_ignored() -> None:
    forged = {**FULL.to_dict(), **dict.fromkeys(NEVER_WRITTEN, True)}
    assert SessionSource.from_dict(forged) == FULL


def test_g7_trust_signals_do_not_travel_in_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(TRUSTED)) == FULL


def test_g7_no_library_can_encode_a_source_whole_or_decode_one_past_from_dict() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(TRUSTED)
    with pytest.raises(TypeError):
        dataclasses.asdict(TRUSTED)  # type: ignore[call-overload]
    forged = msgspec.json.encode({**FULL.to_dict(), "delivered_via_upstream_relay": True})
    with pytest.raises((TypeError, msgspec.ValidationError)):
        msgspec.json.decode(forged, type=SessionSource)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (SessionSource(Platform.LOCAL, "x", thread_id="t"), "CLI terminal"),
        (SessionSource(Platform.SMS, "c", "chat", user_name="Ann", user_id="7"), "DM with Ann"),
        (SessionSource(Platform.SMS, "c", user_id="7"), "DM with 7"),
        (SessionSource(Platform.SMS, "c"), "DM with user"),
        (SessionSource(Platform.SMS, "c", "Team", "group"), "group: Team"),
        (SessionSource(Platform.SMS, "c", chat_type="group"), "group: c"),
        (SessionSource(Platform.SMS, "c", "news", "channel"), "channel: news"),
        (SessionSource(Platform.SMS, "c", chat_type="channel"), "channel: c"),
        (SessionSource(Platform.SMS, "c", "Talk", "thread", thread_id="9"), "Talk, thread: 9"),
        (SessionSource(Platform.SMS, "c", chat_type="thread"), "c"),
        (SessionSource(Platform.SMS, "c", user_name="Ann", thread_id="9"), "DM with Ann, thread: 9"),
    ],
)
def test_g8_description(source: SessionSource, text: str) -> None:
    assert source.description == text


def test_g8_terminal_source() -> None:
    source = SessionSource.local_cli()
    assert source == SessionSource(Platform.LOCAL, "cli", "CLI terminal", "dm")
    assert source.description == "CLI terminal"
