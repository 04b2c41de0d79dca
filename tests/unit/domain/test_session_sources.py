"""W13, W19: what kind of program a session came from."""

import pytest

from engine.domain.session_sources import is_cron_session, normalize_source


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("webui", ("webui", "webui", "WebUI")),
        ("cli", ("cli", "cli", "CLI")),
        ("discord", ("discord", "messaging", "Discord")),
        ("slack", ("slack", "messaging", "Slack")),
        (" Telegram ", ("telegram", "messaging", "Telegram")),
        ("weixin", ("weixin", "messaging", "Weixin")),
        ("cron", ("cron", "cron", "Cron")),
        ("tool", ("tool", "tool", "Tool")),
        ("api_server", ("api_server", "api", "API")),
        ("my_robot", ("my_robot", "other", "My Robot")),
        ("", (None, "other", "Agent")),
        (None, (None, "other", "Agent")),
        ("unknown", (None, "other", "Agent")),
        (7, ("7", "other", "7")),
    ],
)
def test_a_source_is_a_kind_and_a_label(raw, expected):
    """W13."""
    assert normalize_source(raw) == expected


@pytest.mark.parametrize(
    ("session_id", "source_tag", "expected"),
    [
        ("a1", "cron", True),
        ("a1", " CRON ", True),
        ("cron_daily_20260701_040000", None, True),
        ("cron_daily_20260701_040000", "cli", True),
        ("a1", "cli", False),
        ("acron_1", None, False),
        (None, None, False),
        (None, "cron", True),
        (7, 7, False),
    ],
)
def test_a_timers_session_is_known_by_its_source_or_its_id(session_id, source_tag, expected):
    """W11, W19: nothing is an error."""
    assert is_cron_session(session_id, source_tag) is expected
