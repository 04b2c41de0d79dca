from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine import SessionCatalog, SessionStore
from tests.gateway.support import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC))


@pytest.fixture
def open_store(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., SessionStore]]:
    """Opens stores on the test's one folder; those left open are closed at the end."""
    opened: list[SessionStore] = []

    def opening(**options: Any) -> SessionStore:
        given = {"clock": clock, "synchronous": "OFF", "views": False, **options}
        opened.append(SessionStore(tmp_path / "sessions", **given))
        return opened[-1]

    yield opening
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., SessionStore]) -> SessionStore:
    return open_store()


@pytest.fixture
def live() -> set[str]:
    """The streams that run in the host."""
    return set()


@pytest.fixture
def catalog(store: SessionStore, live: set[str]) -> Iterator[SessionCatalog]:
    """A catalogue on a store; after the test its tables are what the log says."""
    yield SessionCatalog(store, live_streams=lambda: live)
    assert store.verify().ok
