"""G56 and G56a: ids in a prompt, hashed when that is asked for and the platform allows it."""

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.domain.config import GatewayConfig, HomeChannel, PlatformConfig
from engine.domain.platforms import Platform
from engine.redaction import Redaction
from tests.unit.prompts import line, prompt, source


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


REDACTED = [Platform.WHATSAPP, Platform.SIGNAL, Platform.TELEGRAM, Platform.BLUEBUBBLES]


@pytest.mark.parametrize("platform", REDACTED)
def test_g56_ids_are_hashed_when_asked(platform: Platform) -> None:
    where = source(platform, "4917012345", user_id="4917012345", thread_id="88776655")
    text = prompt(where, redact_pii=True)
    assert "4917012345" not in text
    assert "88776655" not in text
    assert line(text, "**User ID:** ") == f'"user_{sha("4917012345")}"'
    assert sha("88776655") in line(text, "**Source:** ")
    assert "4917012345" in prompt(where)
    assert where.user_id == where.chat_id == "4917012345"


@pytest.mark.parametrize(
    ("chat_id", "prefix", "hashed"),
    [
        ("group:abc=", "group:", "abc="),
        ("telegram:42", "telegram:", "42"),
        ("dm:42", "dm:", "42"),
        ("abc=", "", "abc="),
        ("ada:42", "", "ada:42"),
        ("4917012345:12@s.whatsapp.net", "", "4917012345:12@s.whatsapp.net"),
        ("group:", "", "group:"),
        (":42", "", ":42"),
        ("Group:42", "", "Group:42"),
    ],
)
def test_g56a_chat_id_keeps_a_prefix_that_is_known_and_no_name(chat_id: str, prefix: str, hashed: str) -> None:
    text = prompt(source(Platform.SIGNAL, chat_id, chat_type="group"), redact_pii=True)
    assert line(text, "**Source:** ") == f'signal: group: "{prefix}{sha(hashed)}"'


@pytest.mark.parametrize("platform", [Platform.DISCORD, Platform.SLACK, Platform.MATRIX, Platform.WHATSAPP_CLOUD])
def test_g56_other_platforms_are_never_redacted(platform: Platform) -> None:
    config = GatewayConfig(platforms={platform: PlatformConfig(home_channel=HomeChannel(platform, "h1", "Home"))})
    where = source(platform, user_id="7654321", chat_type="group", thread_id="9")
    assert prompt(where, config, redact_pii=True) == prompt(where, config)


def test_g56_plugin_platform_is_redacted_when_registered_so() -> None:
    private = Platform.register("redacting-plugin", pii_safe=True)
    plain = Platform.register("plain-plugin", pii_safe=False)
    assert "7654321" not in prompt(source(private, user_id="7654321"), redact_pii=True)
    assert "7654321" in prompt(source(plain, user_id="7654321"), redact_pii=True)


def test_g56a_home_channels_of_all_platforms_are_hashed_with_the_source_or_not_at_all() -> None:
    text = prompt(source(Platform.SIGNAL), redact_pii=True)
    assert line(text, "- telegram: ") == f'"Family" (id "{sha("-100")}", thread "{sha("9")}")'
    assert line(text, "- discord: ") == f'"general" (id "{sha("555")}")'
    text = prompt(source(Platform.DISCORD), redact_pii=True)
    assert line(text, "- telegram: ") == '"Family" (id "-100", thread "9")'
    assert line(text, "- discord: ") == '"general" (id "555")'


def test_g56a_hash_with_a_key_is_one_that_nobody_without_it_can_search_for() -> None:
    where = source(Platform.WHATSAPP, "4917012345", user_id="4917012345")
    keyed = hmac.digest(b"secret", b"4917012345", "sha256").hex()[:12]
    for key in ("secret", b"secret"):
        text = prompt(where, redact_pii=True, pii_key=key)
        assert line(text, "**User ID:** ") == f'"user_{keyed}"'
        assert sha("4917012345") not in text
        assert sha("-100") not in text
    assert prompt(where, redact_pii=True, pii_key="other") != prompt(where, redact_pii=True, pii_key="secret")


@pytest.mark.parametrize("key", ["", b"", 5])
def test_g56a_empty_key_is_refused_by_its_name(key: Any) -> None:
    with pytest.raises(ValueError, match="pii_key"):
        prompt(source(), redact_pii=True, pii_key=key)


def digits(zero: str, number: str) -> str:
    """Return a number in the digits of a script, which follow one another from its zero on."""
    return "".join(chr(ord(zero) + int(each)) if each.isdigit() else each for each in number)


OWN = "491701234567"
WRITTEN = {
    "as it is": "491701234567",
    "international": "+49 (0)170 1234567",
    "national": "0170 1234567",
    "national with dashes": "0170-123-45-67",
    "without the area": "call 123 45 67",
    "full-width digits": digits("\uff10", OWN),
    "Arabic-Indic digits": digits("\u0660", OWN),
    "Devanagari digits, national": digits("\u0966", "0170 1234567"),
    "mathematical digits": digits("\U0001d7ce", OWN),
    "circled digits": "".join("\u24ea" if each == "0" else chr(0x245F + int(each)) for each in OWN),
    "zero-width spaces": "\u200b".join("491701234567"),
    "variation selectors": "\ufe0f".join("491701234567"),
    "tags": "\U000e0030".join("491701234567"),
    "soft hyphens": "\u00ad".join("01701234567"),
    "emoji keycaps": "".join(f"{digit}\ufe0f\u20e3" for digit in "491701234567"),
    "in a sentence": "Ann, reach me at 0170/1234567!",
    "dots and emoji": "📞0170.1234.567",
}


@pytest.mark.parametrize("name", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("user_id", [OWN, f"+{OWN}", f"{OWN}@s.whatsapp.net", f"{OWN}:3@s.whatsapp.net"])
def test_g56a_senders_own_number_is_found_however_it_is_written(name: str, user_id: str) -> None:
    where = source(Platform.WHATSAPP, "12036304@g.us", chat_type="dm", user_id=user_id, user_name=name, chat_topic=name)
    text = prompt(where, redact_pii=True)
    assert "**User:**" not in text
    assert "**Channel Topic:**" not in text
    assert line(text, "**User ID:** ") == f'"user_{sha(user_id)}"'
    assert name not in text


@pytest.mark.parametrize("field", ["user_id_alt", "chat_id", "chat_id_alt"])
def test_g56a_number_is_found_in_whichever_id_it_stands(field: str) -> None:
    fields = {"chat_id": "99@lid", "user_id": "99@lid", field: f"{OWN}@s.whatsapp.net", "user_name": "Ann 0170 1234567"}
    assert "1234567" not in prompt(source(Platform.WHATSAPP, **fields), redact_pii=True)


@pytest.mark.parametrize("name", ["+1 212 555 0123", digits("\u0660", "01701234567"), "(030) 1234-567"])
def test_g56a_name_that_is_a_number_is_not_shown_whosever_it_is(name: str) -> None:
    """The sender's own number may be known under a hidden id only."""
    assert name not in prompt(source(Platform.WHATSAPP, "99@lid", user_id="99@lid", user_name=name), redact_pii=True)


def test_g56a_home_channel_named_after_its_number_shows_the_hash_alone() -> None:
    home = HomeChannel(Platform.WHATSAPP, OWN, "Ann 0170 1234567")
    config = GatewayConfig(platforms={Platform.WHATSAPP: PlatformConfig(home_channel=home)})
    text = prompt(source(Platform.WHATSAPP, "99"), config, redact_pii=True)
    assert line(text, "- whatsapp: ") == f'"{sha(OWN)}" (id "{sha(OWN)}")'


def test_g56a_senders_own_number_is_found_in_the_names_of_home_channels() -> None:
    config = GatewayConfig(
        platforms={
            Platform.TELEGRAM: PlatformConfig(home_channel=HomeChannel(Platform.TELEGRAM, "-1", "of 0170 1234567"))
        }
    )
    text = prompt(source(Platform.WHATSAPP, f"{OWN}@s.whatsapp.net", user_id=OWN), config, redact_pii=True)
    assert "1234567" not in text
    assert line(text, "- telegram: ") == f'"{sha("-1")}" (id "{sha("-1")}")'


@pytest.mark.parametrize("name", ["Ann", "Ann 1990", "Room 12 34", "Ann Lee 🎉", "R2D2", "24/7 Support"])
def test_g56a_usual_name_is_shown(name: str) -> None:
    where = source(Platform.WHATSAPP, OWN, user_id=OWN, user_name=name, chat_topic="plans for 2026")
    text = prompt(where, redact_pii=True)
    assert line(text, "**User:** ") == f'"{name}"'
    assert line(text, "**Channel Topic:** ") == '"plans for 2026"'


ZEROS = ["0", "\u0660", "\uff10", "\u0966"]


@given(
    st.from_regex(r"[1-9][0-9]{8,13}", fullmatch=True),
    st.sampled_from(ZEROS),
    st.lists(st.sampled_from(["", " ", "-", "\u200b", "\ufe0f", ".", "/"]), min_size=14, max_size=14),
    st.integers(0, 2),
)
def test_g56a_no_way_of_writing_the_own_number_reaches_the_prompt(
    number: str, zero: str, between: list[str], left_out: int
) -> None:
    """`left_out` digits of the country are replaced by a 0, as in national form."""
    national = f"0{number[left_out:]}" if left_out else number
    name = "Ann " + "".join(each + gap for each, gap in zip(digits(zero, national), between, strict=False))
    where = source(Platform.SIGNAL, "group:x", chat_type="group", user_id=number, user_name=name)
    text = prompt(where, GatewayConfig(), redact_pii=True)
    assert "Ann" not in text
    assert f"user_{sha(number)}" in text


@pytest.mark.parametrize("name", ["+49 170 12345", "4917012345", "~ 4917012345 (mobile)"])
def test_g56_name_that_is_the_phone_number_is_not_shown(name: str) -> None:
    where = source(Platform.WHATSAPP, "4917012345@s.whatsapp.net", user_id="4917012345:3@lid", user_name=name)
    text = prompt(where, redact_pii=True)
    assert name not in text
    assert line(text, "**User ID:** ") == f'"user_{sha("4917012345:3@lid")}"'


def test_g56_chat_name_that_is_the_chat_id_is_not_shown() -> None:
    where = source(Platform.SIGNAL, "4917012345", chat_type="group", chat_name="+4917012345")
    assert line(prompt(where, redact_pii=True), "**Source:** ") == f'signal: group: "{sha("4917012345")}"'


def test_g56_names_are_kept() -> None:
    where = source(Platform.WHATSAPP, "4917012345", user_id="4917012345", user_name="Ann 49")
    assert line(prompt(where, redact_pii=True), "**User:** ") == '"Ann 49"'


def test_redaction_applies_when_it_is_wanted_and_the_platform_allows_it() -> None:
    assert Redaction(source(Platform.SIGNAL), True).applies
    assert not Redaction(source(Platform.SIGNAL), False).applies
    assert not Redaction(source(Platform.DISCORD), True).applies
