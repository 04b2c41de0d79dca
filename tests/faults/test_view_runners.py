"""Views made by several processes, and by processes that are killed: nothing is applied twice, nothing is left out."""

import random
import signal
from pathlib import Path

import pytest

from engine import SessionStore
from engine.log.sqlite.tables import SQLiteTables
from projections.views.verify import verify_views
from tests.chance import SEED, SOAK
from tests.faults.disk import memory_folder
from tests.faults.view_runners import Runners, history, kinds

KILLS = 40 * SOAK
WRITES = 120 * SOAK


@pytest.fixture
def folder():
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def runners():
    with Runners() as runners:
        yield runners


def check(folder: Path) -> None:
    """Every view is at the end of the log and what a fresh fold gives; no event was unusable."""
    with SessionStore(folder, synchronous="OFF", views=False) as store:
        tables = SQLiteTables(folder / "views.db")
        found = verify_views(store.log, tables, kinds(store.log, tables), lambda: SQLiteTables(":memory:"))
        aside = tables.query("SELECT * FROM view_quarantine")
        tables.close()
        assert found.ok, found.difference
        assert found.positions == dict.fromkeys(("counts", "search", "usage", "catalogue"), store.log.last_position)
        assert aside == []


def test_a_kill_at_any_point_of_catching_up_repeats_nothing_and_skips_nothing(folder, runners):
    """V3, V6: killed at random calls of catching up and of rebuilding, until it is through; then there is more."""
    chance = random.Random(SEED)
    killed, through = 0, 0
    calls = 200
    while killed < KILLS:
        if not through % 2:
            with SessionStore(folder, synchronous="OFF", views=False) as store:
                history(store, 20)
        (status,) = runners.run(["catch_up", str(folder), chance.randrange(1, calls), bool(through % 2)])
        if status == -signal.SIGKILL:
            killed += 1
            calls += 20
        else:
            assert status == 0
            check(folder)
            through += 1
            calls = 200
    assert runners.run(["catch_up", str(folder), 0, False]) == [0]
    check(folder)


def test_three_processes_follow_at_once_while_a_fourth_writes(folder, runners):
    """V3."""
    jobs = [["write", str(folder), WRITES], *[["follow", str(folder)]] * 3]
    assert runners.run(*jobs) == [0] * 4
    assert runners.run(["catch_up", str(folder), 0, False]) == [0]  # what the writer said when it closed
    check(folder)
