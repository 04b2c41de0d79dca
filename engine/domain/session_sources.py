"""The program that a session came from: its kind and its label, as a list of chats shows them (W13, W19)."""

from typing import NamedTuple

WEBUI = "webui"
CRON = "cron"
_CRON_PREFIX = "cron_"
_NOBODY = "Agent"

_KINDS = {
    WEBUI: WEBUI,
    "cli": "cli",
    "tui": "cli",
    CRON: CRON,
    "tool": "tool",
    "api": "api",
    "api_server": "api",
    **dict.fromkeys(
        (
            *("bluebubbles", "dingtalk", "discord", "email", "feishu", "googlechat", "irc", "line", "matrix"),
            *("mattermost", "qq", "qqbot", "signal", "slack", "sms", "teams", "telegram", "wecom", "wecom_callback"),
            *("weixin", "whatsapp", "whatsapp_cloud", "yuanbao"),
        ),
        "messaging",
    ),
}
_LABELS = {
    "api": "API",
    "api_server": "API",
    "bluebubbles": "BlueBubbles",
    "cli": "CLI",
    "dingtalk": "DingTalk",
    "googlechat": "Google Chat",
    "irc": "IRC",
    "line": "LINE",
    "qq": "QQ",
    "qqbot": "QQ",
    "sms": "SMS",
    "tui": "TUI",
    WEBUI: "WebUI",
    "wecom": "WeCom",
    "wecom_callback": "WeCom Callback",
    "whatsapp": "WhatsApp",
    "whatsapp_cloud": "WhatsApp",
}


class NormalizedSource(NamedTuple):
    """A source as it was named, the kind of program it is, and what to call it."""

    raw_source: str | None
    session_source: str
    source_label: str


def normalize_source(raw: object) -> NormalizedSource:
    """Return what kind of program a source is: webui, cli, messaging, cron, tool, api or other (W13)."""
    named = str(raw or "").strip().lower()
    if not named or named == "unknown":
        return NormalizedSource(None, "other", _NOBODY)
    label = _LABELS.get(named) or named.replace("_", " ").title()
    return NormalizedSource(named, _KINDS.get(named, "other"), label)


def is_cron_session(session_id: object, source_tag: object = None) -> bool:
    """Return True for a session that a timer began: its source says so, or its id (W19)."""
    if isinstance(source_tag, str) and source_tag.strip().lower() == CRON:
        return True
    return isinstance(session_id, str) and session_id.startswith(_CRON_PREFIX)
