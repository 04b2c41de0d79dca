"""Parts of the prompt section's tests: a gateway with some platforms, and short ways to read a prompt."""

from typing import Any

from engine.domain.config import GatewayConfig, HomeChannel, PlatformConfig
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.prompt import build_session_context, build_session_context_prompt

CONFIG = GatewayConfig(
    platforms={
        Platform.TELEGRAM: PlatformConfig(home_channel=HomeChannel(Platform.TELEGRAM, "-100", "Family", "9")),
        Platform.DISCORD: PlatformConfig(home_channel=HomeChannel(Platform.DISCORD, "555", "general")),
        Platform.SLACK: PlatformConfig(),
        Platform.EMAIL: PlatformConfig(enabled=False, home_channel=HomeChannel(Platform.EMAIL, "a@b", "Mail")),
        Platform.LOCAL: PlatformConfig(),
    }
)


def source(platform: Platform = Platform.TELEGRAM, chat_id: str = "42", **fields: Any) -> SessionSource:
    return SessionSource(platform=platform, chat_id=chat_id, **fields)


def prompt(where: SessionSource, config: GatewayConfig = CONFIG, **options: Any) -> str:
    return build_session_context_prompt(build_session_context(where, config), **options)


def line(text: str, start: str) -> str:
    """Return what follows on the one line that begins so."""
    found = [each for each in text.split("\n") if each.startswith(start)]
    assert len(found) == 1, (start, text)
    return found[0].removeprefix(start)
