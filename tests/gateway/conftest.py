from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine import GatewayConfig, SessionSource, SessionStore
from tests.gateway import support


@pytest.fixture
def clock() -> support.FakeClock:
    return support.FakeClock(datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC))


@pytest.fixture
def source() -> Callable[..., SessionSource]:
    return support.source


@pytest.fixture
def open_store(tmp_path: Path, clock: support.FakeClock) -> Iterator[Callable[..., SessionStore]]:
    """Opens stores on the test's one folder; those left open are closed at the end."""
    opened: list[SessionStore] = []

    def opening(config: GatewayConfig | None = None, busy: Any = None, **options: Any) -> SessionStore:
        given = {"clock": clock, "synchronous": "OFF", "views": False, **options}
        opened.append(SessionStore(tmp_path / "sessions", config, busy, **given))
        return opened[-1]

    yield opening
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., SessionStore]) -> SessionStore:
    """A store whose lanes never expire."""
    return open_store()
