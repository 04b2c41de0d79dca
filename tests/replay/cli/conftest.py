import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import SessionStore
from tests.replay.cli import support


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is only read."""
    folder = tmp_path_factory.mktemp("cli") / "lived"
    support.live_through(folder)
    return folder


@pytest.fixture(scope="session")
def damaged(lived: Path) -> Path:
    """A copy of it in which a message was changed."""
    folder = lived.with_name("damaged")
    shutil.copytree(lived, folder)
    support.damage(folder)
    return folder


@pytest.fixture(scope="session")
def empty(lived: Path) -> Path:
    """A store in which nothing ever happened."""
    folder = lived.with_name("empty")
    with SessionStore(folder, synchronous="OFF") as store:
        store.wait_for_views()
    return folder


@pytest.fixture
def own(lived: Path, tmp_path: Path) -> Path:
    """A copy of the store that the test may write."""
    shutil.copytree(lived, tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """Let children have Ctrl-C: a suite that a shell started in the background ignores it, and they inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always the same time of the same zone."""
    monkeypatch.setattr("replay.cli.run.local_now", lambda: support.NOW)
    monkeypatch.chdir("/")
