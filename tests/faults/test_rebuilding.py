"""State tables are rebuilt behind those in use: nobody waits long, a kill leaves the old ones, builds do not fight."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from engine import SessionStore
from engine.domain.events import MessageAppended
from engine.health import health_of
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import LogError, ReplacedTablesError
from engine.verification import verify_store
from projections.inline import projection, rebuilding
from tests.chance import SOAK
from tests.faults.builds import Build
from tests.faults.disk import Disk, io_error
from tests.gateway.effort import watched
from tests.gateway.support import source, tables, texts

KEY = "agent:main:telegram:dm:4711"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with SessionStore(tmp_path, synchronous="OFF") as store:
        yield store


def lived(store: SessionStore, messages: int = 1500) -> str:
    """A store with some history, of each kind of table."""
    for n in range(40):
        store.get_or_create_session(source(str(n)))
    entry = store.get_or_create_session(source())
    said = [{"role": "user", "content": f"m{n}", "message_id": f"p{n}"} for n in range(messages)]
    store.append_messages(entry.session_id, said)
    child = store.compress_session(entry.session_id, None, [{"role": "system", "content": "so far"}], covers=10)
    store.set_session_title(child, "Trip")
    store.reset_session(store.get_or_create_session(source("3")).session_key)
    store.begin_turn(entry.session_key)
    store.log.erase([store.log.last_position - 20], actor="operator", reason="asked to")
    store.runner.touches.flush()
    return child


def leftovers(store: SessionStore) -> list[str]:
    """Tables under other names, and rows about them."""
    names = store.log.query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    rows = store.log.query("SELECT name FROM projections ORDER BY name")
    found = [name for (name,) in names if name.endswith(("_next", "_old"))]
    return found + [name for (name,) in rows if name.startswith("inline.")]


def between_steps(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do something between two steps of a rebuild, while the write lock is free."""
    clock = SimpleNamespace(sleep=lambda _: action(), perf_counter=time.perf_counter)
    monkeypatch.setattr(rebuilding, "time", clock)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "_EVENTS", 200)
    monkeypatch.setattr(rebuilding, "_ROWS", 300)


@pytest.mark.usefixtures("small_steps")
def test_the_write_lock_is_held_for_some_events_at_a_time(store):
    """17.6 s at a time, with 4.2 million events, before."""
    lived(store)
    before = tables(store)
    with watched(store) as effort:
        assert store.rebuild() == store.log.last_position
    assert len(effort.sections) > store.log.last_position / 200
    assert effort.rows <= 200 * 5
    assert tables(store) == before
    assert leftovers(store) == []
    assert store.verify().ok


@pytest.mark.usefixtures("small_steps")
def test_others_are_served_meanwhile_and_what_they_write_is_in_the_new_tables(store, tmp_path, monkeypatch):
    child = lived(store)
    before = store.load_transcript(child)
    other = SessionStore(tmp_path, synchronous="OFF")
    said: list[str] = []

    def others() -> None:
        said.append(f"meanwhile {len(said)}")
        other.append_to_transcript(child, {"role": "user", "content": said[-1], "message_id": said[-1]})
        assert other.get_or_create_session(source()).session_id == child
        assert len(other.list_sessions()) == 41
        assert other.append_to_transcript(child, {"role": "user", "content": "x", "message_id": said[0]}) is None

    between_steps(monkeypatch, others)
    store.rebuild()
    monkeypatch.undo()
    other.runner.touches.flush()
    assert len(said) > 5
    assert texts(store, child) == [message["content"] for message in before] + said
    assert other.append_to_transcript(child, {"role": "user", "content": "x", "message_id": said[0]}) is None
    after = tables(store)
    store.rebuild()
    assert tables(store) == after
    assert other.rewind_session(child) is not None
    other.close()


class Stopped(BaseException):
    pass


def stopping(paused: Callable[..., Any], step: int) -> Callable[..., Any]:
    """Stop in the nth transaction of a rebuild, once it has done its work and before it is committed."""
    count = 0

    def stopped(log: EventLog, do: Callable[[Any], Any]) -> Any:
        def doing(transaction: Any) -> Any:
            nonlocal count
            count += 1
            done = do(transaction)
            if count == step:
                raise Stopped
            return done

        return paused(log, doing)

    return stopped


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("step", range(1, 15))
def test_stopped_at_any_step_it_leaves_usable_tables_and_goes_on_when_it_is_called_again(tmp_path, monkeypatch, step):
    with SessionStore(tmp_path, synchronous="OFF") as store:
        child = lived(store)
        before = tables(store)
        with monkeypatch.context() as patch:
            patch.setattr(rebuilding, "_paused", stopping(rebuilding._paused, step))
            with pytest.raises(Stopped):
                store.rebuild()
        assert tables(store) == before
    with SessionStore(tmp_path, synchronous="OFF") as store:
        assert store.append_to_transcript(child, {"role": "user", "content": "x", "message_id": "p1"}) is None
        assert store.append_to_transcript(child, {"role": "user", "content": "on"}) is not None
        before = tables(store)
        left = leftovers(store)
        done = store.rebuild()
        assert tables(store) == before
        assert leftovers(store) == []
        if "inline.next" in left:
            assert done <= store.log.last_position - (step - 2) * 200, "it went on where it was"


def test_killed_while_it_rebuilds_it_leaves_the_tables_in_use(tmp_path):
    """A real process and a real signal, at any moment."""
    with SessionStore(tmp_path, synchronous="OFF") as store:
        child = lived(store, 5_000)
        before = tables(store)
    for moment in (0.0, 0.05, 0.2):
        with Build(tmp_path, "same") as build:
            build.ask("rebuild_for_ever")
            time.sleep(moment)
            build.kill()
        with SessionStore(tmp_path, synchronous="OFF") as store:
            found = tables(store)
            assert {**found, "projections": before["projections"]} == before
            assert len(store.load_transcript(child)) == 4_990


def test_caches_do_not_outlive_the_tables_they_are_of(store, tmp_path):
    child = lived(store, 20)
    wrong = "UPDATE sessions SET state = replace(state, 'Trip', 'Fall'), title_name = 'Fall' WHERE title_name = 'Trip'"
    store.log.transact(lambda transaction: transaction.execute(wrong))
    with SessionStore(tmp_path, synchronous="OFF") as other:
        other.append_to_transcript(child, {"role": "user", "content": "with a wrong head in memory"})
        other.log.transact(lambda transaction: transaction.execute("DELETE FROM lanes WHERE key = ?", (KEY,)))
        assert other.peek_session_id(KEY) is None
        assert other.get_session(child).title == "Fall"
        other.rebuild()
        other.append_to_transcript(child, {"role": "user", "content": "with the right one"})
        assert other.get_session(child).title == "Trip"
        assert other.get_or_create_session(source()).session_id == child


def test_views_over_the_tables_follow_them(store):
    """Renaming a table takes the views over it along: they are made again in the same step."""
    child = lived(store, 20)
    audit = "SELECT session_id, title FROM audit_sessions WHERE title IS NOT NULL"
    assert store.log.query(audit) == [(child, "Trip")]
    store.rebuild()
    store.set_session_title(child, "Fall")
    assert store.log.query(audit) == [(child, "Fall")]
    assert len(store.log.query("SELECT lane FROM audit_lanes")) == 41


def test_what_another_program_appended_is_caught_up_in_parts_before_a_command(store, monkeypatch):
    """The store was open meanwhile: its next command folded all of it under the write lock."""
    child = lived(store, 10)
    monkeypatch.setattr(projection, "_PER_TRANSACTION", 500)
    with EventLog(store.log.path, synchronous="OFF") as log:
        message = MessageAppended(message={"role": "user", "content": "from elsewhere"})
        log.append([Envelope(f"session:{child}", NEXT_VERSION, message)] * 2600)
    with watched(store) as effort:
        store.append_to_transcript(child, {"role": "user", "content": "mine"})
    assert effort.rows < 600
    assert store.get_session(child).message_count == 2602
    assert store.metrics()["projection_position"] == store.log.last_position


def test_tables_of_another_build_are_rebuilt_behind_them_when_nobody_uses_them(tmp_path):
    with Build(tmp_path, "9.0.0") as newer:
        child = newer.ask("live")
        newer.ask("close")
    with SessionStore(tmp_path, synchronous="OFF") as store:
        assert store.peek_session_id(KEY) == child
        assert texts(store, child) == ["hello"]
        assert leftovers(store) == []


def test_a_newer_build_takes_over_and_the_older_is_told(store, tmp_path):
    """They never fight: the older is refused for as long as the newer runs, however often it is started."""
    child = lived(store, 20)
    with Build(tmp_path, "9.0.0") as newer:
        assert newer.ask("peek") == child
        with pytest.raises(ReplacedTablesError, match=r"version 9\.0\.0"):
            store.append_to_transcript(child, {"role": "user", "content": "old fold"})
        with pytest.raises(ReplacedTablesError):
            store.get_or_create_session(source())
        for _ in range(2):
            with pytest.raises(ReplacedTablesError, match="end that process first"):
                SessionStore(tmp_path)
        assert newer.ask("live") == child
        assert newer.ask("close") is None
    store.close()
    with SessionStore(tmp_path, synchronous="OFF") as again:
        assert texts(again, child)[-1] == "hello"
        before = tables(again)
        again.rebuild()
        assert tables(again) == before


def test_another_build_of_the_same_or_an_older_version_is_refused_while_this_one_runs(store, tmp_path):
    child = lived(store, 20)
    for version in ("0.1.0", "0.0.9"):
        with Build(tmp_path, version) as other:
            assert "end that process first" in other.ask("peek")
    store.append_to_transcript(child, {"role": "user", "content": "on"})
    assert texts(store, child)[-1] == "on"


def test_tables_of_another_build_are_not_judged_by_this_one(tmp_path):
    """An auditor's copy was written by another version: its log verifies, and what was not compared is said."""
    with Build(tmp_path, "9.0.0") as newer:
        newer.ask("live")
        newer.ask("close")
    with EventLog(tmp_path / "sessions.db", read_only=True) as log:
        found = verify_store(log, None, None)
        assert (found.ok, found.events, found.state_rows) == (True, log.last_position, 0)
        assert "version 9.0.0, made the state tables" in (found.not_compared or "")
        health = health_of(log, [])
        assert (health.tables_of_version, health.projection_position) == ("9.0.0", log.last_position)
    with SessionStore(tmp_path, synchronous="OFF") as store:
        found = store.verify()
        assert found.ok
        assert found.state_rows > 0
        assert found.not_compared is None
        assert store.health().tables_of_version is None


def test_after_a_crash_of_a_newer_build_an_older_one_may_take_over(tmp_path):
    """A downgrade in an emergency needs no command of its own."""
    with Build(tmp_path, "9.0.0") as newer:
        child = newer.ask("live")
        newer.kill()
    with SessionStore(tmp_path, synchronous="OFF") as store:
        assert texts(store, child) == ["hello"]


def test_a_rebuild_that_another_build_began_is_given_up_for_ones_own(store, monkeypatch):
    lived(store)
    before = tables(store)
    with monkeypatch.context() as patch:
        patch.setattr(rebuilding, "fingerprint", lambda: "another")
        store.log.transact(rebuilding._begin)
    assert "inline.next" in leftovers(store)
    assert store.verify().ok, "what is being built is nobody's yet"
    store.rebuild()
    assert tables(store) == before
    assert leftovers(store) == []


def test_erasing_while_it_rebuilds_is_seen_by_the_new_tables(store, monkeypatch, small_steps):
    child = lived(store)
    first = next(event for event in store.log.events() if event.event.topic == "message.appended")
    steps = []

    def erase() -> None:
        steps.append(1)
        if len(steps) == 5:
            store.log.erase([first.position], actor="operator", reason="asked to")

    between_steps(monkeypatch, erase)
    store.rebuild()
    monkeypatch.undo()
    after = tables(store)
    store.rebuild()
    assert tables(store) == after
    assert not store.has_platform_message_id(child, "p0")


@pytest.mark.parametrize("first", range(3))
def test_an_io_error_anywhere_in_a_rebuild_leaves_nothing_that_the_next_one_stumbles_over(
    first: int, tmp_path: Path, small_steps: None
) -> None:
    """An error that hides whether a table is there must not count as its absence."""
    with SessionStore(tmp_path, views=False) as filled:
        lived(filled, 100)
        before = tables(filled) | {"projections": []}
    for target in itertools.count(first, 3 if SOAK > 1 else 11):
        disk = Disk()
        with disk.in_use(), SessionStore(tmp_path, vfs=disk.name, views=False, checkpoint_pages=10) as store:
            begun = disk.calls

            def fail(number: int, what: str, wanted: int = begun + target) -> apsw.Error | None:
                return io_error(what) if number == wanted else None

            disk.fail = fail
            with contextlib.suppress(LogError):
                store.rebuild()
            fired, disk.fail = disk.fired, None
            store.rebuild()
            assert leftovers(store) == [], f"call {target}"
            assert tables(store) | {"projections": []} == before, f"call {target}"
        if not fired:
            break
    assert target > 50
