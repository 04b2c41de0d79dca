"""G3: the gateway's configuration."""

from typing import Any

import msgspec
import pytest

from engine.domain.config import GatewayConfig, HomeChannel, PlatformConfig
from engine.domain.platforms import Platform
from engine.domain.policy import SessionResetPolicy

IDLE = SessionResetPolicy(mode="idle")
DAILY = SessionResetPolicy(mode="daily")
HOME = HomeChannel(Platform.TELEGRAM, "-100", "Home", thread_id="7")


def test_g3_defaults() -> None:
    config = GatewayConfig()
    assert config.platforms == {}
    assert config.default_reset_policy == SessionResetPolicy()
    assert (config.reset_by_type, config.reset_by_platform) == ({}, {})
    assert config.group_sessions_per_user is True
    assert config.thread_sessions_per_user is False
    assert config.multiplex_profiles is False
    assert config.session_store_max_age_days == 90
    assert PlatformConfig() == PlatformConfig(enabled=True, home_channel=None, extra={})


def test_g3_reset_policy_of_the_platform_wins_over_the_type_over_the_default() -> None:
    config = GatewayConfig(reset_by_type={"group": IDLE}, reset_by_platform={Platform.SLACK: DAILY})
    assert config.get_reset_policy(Platform.SLACK, "group") is DAILY
    assert config.get_reset_policy(Platform.DISCORD, "group") is IDLE
    assert config.get_reset_policy(Platform.DISCORD, "dm") is config.default_reset_policy
    assert config.get_reset_policy() is config.default_reset_policy


def test_g3_connected_platforms_are_the_enabled_ones_sorted_by_value() -> None:
    config = GatewayConfig(
        platforms={
            Platform.TELEGRAM: PlatformConfig(),
            Platform.DISCORD: PlatformConfig(enabled=False),
            Platform.BLUEBUBBLES: PlatformConfig(),
            Platform.LOCAL: PlatformConfig(),
        }
    )
    assert config.get_connected_platforms() == [Platform.BLUEBUBBLES, Platform.LOCAL, Platform.TELEGRAM]


def test_g3_home_channel_is_that_of_the_platform() -> None:
    config = GatewayConfig({Platform.TELEGRAM: PlatformConfig(home_channel=HOME), Platform.SMS: PlatformConfig()})
    assert config.get_home_channel(Platform.TELEGRAM) == HOME
    assert config.get_home_channel(Platform.SMS) is None
    assert config.get_home_channel(Platform.EMAIL) is None


def test_g3_home_channel_is_known_while_its_platform_is_off() -> None:
    config = GatewayConfig({Platform.TELEGRAM: PlatformConfig(enabled=False, home_channel=HOME)})
    assert config.get_home_channel(Platform.TELEGRAM) == HOME
    assert config.get_connected_platforms() == []


def test_g3_platforms_may_be_given_by_name_and_the_callers_dict_is_not_kept() -> None:
    given: dict[Any, PlatformConfig] = {"telegram": PlatformConfig()}
    config = GatewayConfig(platforms=given)
    given.clear()
    assert list(config.platforms) == [Platform.TELEGRAM]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("platforms", {"nowhere": PlatformConfig()}),
        ("platforms", {"telegram": {"enabled": True}}),
        ("platforms", []),
        ("default_reset_policy", "idle"),
        ("reset_by_type", {1: IDLE}),
        ("reset_by_type", {"dm": None}),
        ("reset_by_platform", {"nowhere": IDLE}),
        ("group_sessions_per_user", "yes"),
        ("thread_sessions_per_user", 1),
        ("multiplex_profiles", None),
        ("session_store_max_age_days", "90"),
        ("session_store_max_age_days", True),
    ],
)
def test_g3_bad_setting_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        GatewayConfig(**{field: value})


def test_g3_configuration_round_trips_as_plain_json() -> None:
    config = GatewayConfig(
        platforms={Platform.TELEGRAM: PlatformConfig(home_channel=HOME, extra={"topic": 1})},
        default_reset_policy=DAILY,
        reset_by_type={"group": IDLE},
        reset_by_platform={Platform.SLACK: DAILY},
        group_sessions_per_user=False,
        thread_sessions_per_user=True,
        multiplex_profiles=True,
        session_store_max_age_days=None,
    )
    text = msgspec.json.encode(config.to_dict())
    assert GatewayConfig.from_dict(msgspec.json.decode(text)) == config


def test_g3_file_with_the_hosts_own_keys_and_nulls_is_read() -> None:
    config = GatewayConfig.from_dict(
        {
            "hosts_own": 1,
            "platforms": {
                "telegram": {
                    "token": "secret",
                    "home_channel": {"chat_id": -100, "name": None, "thread_id": 7},
                },
                "slack": {"enabled": False, "extra": None},
                "sms": None,
            },
            "reset_by_type": None,
            "default_reset_policy": {"mode": "idle", "idle_minutes": 5},
        }
    )
    assert config.get_home_channel(Platform.TELEGRAM) == HOME
    assert config.get_connected_platforms() == [Platform.SMS, Platform.TELEGRAM]
    assert config.default_reset_policy.idle_minutes == 5
    assert config.session_store_max_age_days == 90
    assert "secret" not in repr(config)
    assert "secret" not in str(config.to_dict())


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"platforms": {"nowhere": {}}}, "platforms.nowhere"),
        ({"platforms": {"sms": {"enabled": "maybe"}}}, "platforms.sms: enabled"),
        ({"platforms": {"sms": {"home_channel": {}}}}, "platforms.sms: home_channel needs chat_id"),
        ({"platforms": {"sms": {"home_channel": "x"}}}, "platforms.sms: home_channel"),
        ({"platforms": {"sms": []}}, "platforms.sms: platform settings"),
        ({"platforms": 5}, "platforms must be a mapping"),
        ({"default_reset_policy": {"at_hour": 99}}, "default_reset_policy: at_hour"),
        ({"reset_by_type": {"dm": {"mode": "x"}}}, "reset_by_type.dm: mode"),
        ({"reset_by_platform": {"sms": {"idle_minutes": 0}}}, "reset_by_platform.sms: idle_minutes"),
        ({"reset_by_platform": {"nowhere": {}}}, "reset_by_platform: 'nowhere'"),
        ([], "gateway configuration"),
    ],
)
def test_g3_error_in_a_file_names_its_place(data: Any, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        GatewayConfig.from_dict(data)


def test_g3_home_channel_round_trips_and_checks_its_fields() -> None:
    assert HomeChannel.from_dict(HOME.to_dict()) == HOME
    assert HomeChannel("telegram", "1", "x").platform is Platform.TELEGRAM  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="platform"):
        HomeChannel("nowhere", "1", "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chat_id"):
        HomeChannel(Platform.SMS, 1, "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="home_channel needs platform"):
        HomeChannel.from_dict({"chat_id": "1"})
