"""Everything held to everything (R18); single kinds of damage are in tests/faults and tests/gateway."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from engine import SessionStore
from engine.views import VIEWS_FILE
from replay import open_log, verify
from replay.verifying import FullVerification
from tests.gateway.support import say, source


@pytest.fixture
def folder(open_store: Callable[..., SessionStore]) -> Path:
    """A closed store with views."""
    store = open_store(views=True)
    say(store, store.get_or_create_session(source()).session_id, "the order is late")
    store.wait_for_views()
    store.close()
    return Path(store.sessions_dir)


def verified(folder: Path, **options: bool) -> FullVerification:
    with open_log(folder) as log:
        return verify(log, **options)


def test_a_sound_store_is_sound_in_all_its_parts(folder: Path) -> None:
    """R18: and the views are looked at when that is asked for."""
    with open_log(folder) as log:
        last = log.last_position
        found = verify(log, log.head(), full=True)
    assert (found.ok, found.events, found.state_rows > 2) == (True, last, True)
    assert set(found.views or {}) == {"search", "usage", "catalogue"}
    assert verified(folder).views is None


def test_a_view_that_differs_is_named(folder: Path) -> None:
    """R18, V7."""
    connection = apsw.Connection(str(folder / VIEWS_FILE))
    connection.execute("UPDATE search_sessions SET lane = 'another'")
    connection.close()
    assert verified(folder).ok
    found = verified(folder, full=True)
    assert (found.ok, found.view, found.table) == (False, "search", "search_sessions")
    assert "'another'" in str(found.problem)


def test_views_that_cannot_be_read_are_named_and_none_are_none(folder: Path) -> None:
    """R18."""
    (folder / VIEWS_FILE).write_bytes(b"no database at all, and long enough for a header" * 200)
    found = verified(folder, full=True)
    assert (found.ok, found.view) == (False, VIEWS_FILE)
    (folder / VIEWS_FILE).unlink()
    found = verified(folder, full=True)
    assert (found.ok, found.views) == (True, {})


def test_a_damaged_log_is_told_before_its_views(folder: Path) -> None:
    """R18: what is made of it cannot be compared."""
    file = folder / "sessions.db"
    file.write_bytes(file.read_bytes().replace(b"the order is late", b"the order is lost"))
    found = verified(folder, full=True)
    assert (found.ok, found.views) == (False, None)
    assert found.bad_position is not None


def test_it_tells_how_far_it_is(folder: Path) -> None:
    """R7."""
    seen: list[tuple[int, int]] = []
    with open_log(folder) as log:
        verify(log, progress=lambda done, total: seen.append((done, total)))
        assert seen == [(log.last_position,) * 2] * 2  # the chain, and the fold
