"""G1: platforms, built in and registered."""

import copy
import pickle
import threading
from enum import Enum

import msgspec
import pytest

from engine.domain.platforms import Platform

BUILT_IN = [
    "local",
    "telegram",
    "discord",
    "whatsapp",
    "whatsapp_cloud",
    "slack",
    "signal",
    "mattermost",
    "matrix",
    "homeassistant",
    "email",
    "sms",
    "dingtalk",
    "api_server",
    "webhook",
    "msgraph_webhook",
    "feishu",
    "wecom",
    "wecom_callback",
    "weixin",
    "bluebubbles",
    "qqbot",
    "yuanbao",
    "relay",
]


@pytest.mark.parametrize("name", BUILT_IN)
def test_g1_built_in_platform_is_known_by_its_value_and_its_name(name: str) -> None:
    assert Platform(name) is Platform[name.upper()]
    assert Platform(name).value == name


def test_g1_the_built_in_platforms_come_first_and_are_complete() -> None:
    assert [platform.value for platform in Platform][: len(BUILT_IN)] == BUILT_IN


@pytest.mark.parametrize("name", ["no-such-platform", "", "Telegram", None, 7, []])
def test_g1_unregistered_platform_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="not a valid Platform"):
        Platform(name)


class HostPlatform(str, Enum):  # noqa: UP042 - how hosts on older Python wrote it
    TELEGRAM_BOT = "telegram"


class HostNames(Enum):
    SIGNAL = "signal"
    NOWHERE = "nowhere"


class Text(str):
    __slots__ = ()


def test_g1a_member_of_another_enum_or_a_text_is_the_platform_of_its_value() -> None:
    assert Platform(HostPlatform.TELEGRAM_BOT) is Platform.TELEGRAM
    assert Platform(HostNames.SIGNAL) is Platform.SIGNAL
    assert Platform(Text("slack")) is Platform.SLACK


def test_g1a_unknown_platform_is_refused_with_the_next_step() -> None:
    for unknown in ("nowhere", HostNames.NOWHERE):
        with pytest.raises(ValueError, match=r'not a valid Platform.*Platform\.register\("nowhere"\)'):
            Platform(unknown)


def test_g1_registered_platform_is_one_object_however_it_is_reached() -> None:
    irc = Platform.register("irc", pii_safe=False)
    assert Platform.register("irc") is irc
    assert Platform("irc") is irc
    assert Platform["IRC"] is irc
    assert getattr(Platform, "IRC") is irc  # noqa: B009  mypy knows only the members in the source
    assert (irc.name, irc.value) == ("IRC", "irc")
    assert isinstance(irc, Platform)
    assert irc in list(Platform)
    assert irc in {irc, Platform.LOCAL}
    assert irc != Platform.LOCAL
    assert repr(irc) == "<Platform.IRC: 'irc'>"


def test_g1_registering_twice_adds_one_member() -> None:
    Platform.register("twice")
    before = len(Platform)
    Platform.register("twice", pii_safe=False)
    assert len(Platform) == before


def test_g1_registered_platform_survives_pickle_and_copy_as_itself() -> None:
    member = Platform.register("pickled")
    assert pickle.loads(pickle.dumps(member)) is member
    assert copy.copy(member) is member
    assert copy.deepcopy({"platform": member})["platform"] is member


def test_g1_registered_platform_is_decoded_even_by_a_decoder_made_before() -> None:
    decoder = msgspec.json.Decoder(Platform)
    assert decoder.decode(b'"telegram"') is Platform.TELEGRAM
    member = Platform.register("late-plugin")
    assert decoder.decode(b'"late-plugin"') is member
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(b'"never-registered"')


@pytest.mark.parametrize(
    "name",
    ["", " ", "a:b", "a b", "a\tb", "a\nb", "a\x00", "irc\n", "a/b", "a\\b", "a..b", ".a", "_missing_"],
)
def test_g1_name_that_could_break_a_session_key_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be used in a session key"):
        Platform.register(name)


@pytest.mark.parametrize("name", [None, 3, b"irc", ["irc"], "IRC", "ü", "x" * 65])
def test_g1_name_that_is_not_a_short_lower_case_word_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="cannot be used in a session key"):
        Platform.register(name)  # type: ignore[arg-type]


def test_g1_refused_registration_leaves_nothing_behind() -> None:
    before = list(Platform)
    with pytest.raises(ValueError):
        Platform.register("bad:name")
    assert list(Platform) == before


def test_g1_registering_a_built_in_returns_it_and_cannot_change_it() -> None:
    assert Platform.register("discord") is Platform.DISCORD
    assert Platform.register("telegram", pii_safe=True) is Platform.TELEGRAM
    with pytest.raises(ValueError, match="fixed"):
        Platform.register("discord", pii_safe=True)
    assert not Platform.DISCORD.pii_safe


def test_g56_pii_safe_is_kept_until_a_plugin_says_otherwise() -> None:
    assert not Platform.register("plain").pii_safe
    member = Platform.register("private", pii_safe=True)
    assert Platform.register("private").pii_safe
    Platform.register("private", pii_safe=False)
    assert not member.pii_safe


def test_g56_pii_safe_that_is_not_a_flag_is_refused() -> None:
    with pytest.raises(ValueError, match="pii_safe"):
        Platform.register("vague", pii_safe="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Platform("vague")


def test_g56_built_in_platforms_whose_ids_may_be_hashed() -> None:
    safe = {platform.value for platform in map(Platform, BUILT_IN) if platform.pii_safe}
    assert safe == {"whatsapp", "signal", "telegram", "bluebubbles"}


def test_g1_threads_that_register_the_same_name_get_the_same_member() -> None:
    threads_count, names = 8, [f"racer{number}" for number in range(50)]
    seen: list[list[Platform]] = [[] for _ in range(threads_count)]
    start = threading.Barrier(threads_count)

    def race(found: list[Platform]) -> None:
        start.wait()
        found.extend(Platform.register(name) for name in names)
        assert len(list(Platform)) >= len(names)

    threads = [threading.Thread(target=race, args=(found,)) for found in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for members in zip(*seen, strict=True):
        assert all(member is members[0] for member in members)
    assert [platform.value for platform in Platform].count("racer0") == 1
