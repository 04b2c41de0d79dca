"""A store as it was at a moment, made of a log alone (R20)."""

from datetime import timedelta
from pathlib import Path

import pytest

from engine import Platform, SessionSource, SessionStore, acting
from engine.domain.events import StoreRestored
from engine.log import EventLog
from engine.log.errors import CorruptLogError, DiskFullError, StorageError
from replay import BadMomentError, as_of, open_log, open_reader, restore
from tests.gateway.support import FakeClock, said, say, source
from tests.replay.tables import contents, folded


def test_any_moment_of_a_long_life_can_be_restored(lived: SessionStore, tmp_path: Path) -> None:
    """R20: the state is what it was, the chain is the same, and where it comes from is in the log."""
    last = lived.log.last_position
    for position in (0, 1, *range(7, last, 41), last):
        folder = tmp_path / str(position)
        found = restore(lived.log, folder, position)
        assert (found.position, found.left_out) == (position, last - position)
        with open_log(folder) as log:
            assert log.verify(published=[found.head, lived.log.head(position)]).ok
            upto = range(1, position + 1)
            assert log.reader.stored_at(upto) == lived.log.reader.stored_at(upto)
            (origin,) = log.events(topics=["store.restored"])
            assert origin.event == StoreRestored(position=position, head=found.head, last_position=last)
            assert (origin.actor, origin.command) == ("sessions", "restore")
            expected = folded(lived.log, position)
            there = contents(log.reader)
            assert there.pop("projections") == [(log.last_position,)]
            expected.pop("projections")
            assert there == expected, position


def test_what_was_restored_is_a_store_that_goes_on(store: SessionStore, clock: FakeClock, tmp_path: Path) -> None:
    """R20: opened for reading at once, and for writing."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one", "two")
    then = store.log.last_position
    say(store, entry.session_id, "three")
    restore(store.log, tmp_path / "then", then)
    with open_reader(tmp_path / "then") as reader:
        assert said(reader, entry.session_id) == said_at(store, entry.session_id, then)
    with SessionStore(tmp_path / "then", clock=clock, synchronous="OFF", create=False) as then_store:
        assert then_store.get_or_create_session(source()).session_id == entry.session_id
        say(then_store, entry.session_id, "another three")
        assert then_store.verify().ok
    assert len(store.load_transcript(entry.session_id)) == 3


def said_at(store: SessionStore, session_id: str, position: int) -> list[dict[str, object]]:
    with as_of(store.log, position) as past:
        return said(past, session_id)


def test_what_was_erased_since_stays_erased(store: SessionStore, tmp_path: Path) -> None:
    """R20, V15: and the new log says who asked for it and why."""
    ada, bob = (SessionSource(Platform.TELEGRAM, chat, user_id=chat) for chat in ("ada", "bob"))
    ids = [store.get_or_create_session(each).session_id for each in (ada, bob)]
    for session_id in ids:
        say(store, session_id, "the secret of this one")
    then = store.log.last_position
    say(store, ids[0], "later")
    with acting("desk", reason="request 7"):
        store.erase(session_id=ids[0], reason="request 7")
    found = restore(store.log, tmp_path / "then", then)
    assert found.erased_since > 0
    with open_log(tmp_path / "then") as log:
        assert log.verify().ok
        (erased,) = log.events(topics=["log.erased"])
        assert (erased.actor, erased.reason) == ("desk", "request 7")
        assert max(erased.event.positions) <= then  # type: ignore[union-attr]
    assert (tmp_path / "then" / "sessions.db").read_bytes().count(b"the secret of this one") == 1


def test_an_archive_of_the_store_is_one_of_the_restored_store_too(
    store: SessionStore, clock: FakeClock, tmp_path: Path
) -> None:
    """R20, V16: what was archived since stays so, and comes back from the same file."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "long ago")
    store.end_session(entry.session_id, "agent_close")
    store.set_expiry_finalized(entry.session_key)
    then = store.log.last_position
    clock.advance(days=30)
    store.reset_session(entry.session_key)
    assert store.archive(timedelta(days=7), tmp_path / "old.archive").messages == 1
    restore(store.log, tmp_path / "then", then)
    with SessionStore(tmp_path / "then", clock=clock, synchronous="OFF") as restored:
        assert restored.verify().ok
        assert restored.restore(tmp_path / "old.archive").messages == 1
        assert said(restored, entry.session_id) == [{"role": "user", "content": "long ago"}]
        assert restored.verify().ok


def test_trying_it_writes_nothing(store: SessionStore, tmp_path: Path) -> None:
    """R6."""
    store.get_or_create_session(source())
    found = restore(store.log, tmp_path / "then", 1, dry_run=True)
    assert (found.dry_run, found.position, found.left_out) == (True, 1, store.log.last_position - 1)
    assert not (tmp_path / "then").exists()


def test_nothing_is_ever_replaced(store: SessionStore, tmp_path: Path) -> None:
    """R20."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("there", "file"):
        with pytest.raises(StorageError, match="give another name"):
            restore(store.log, tmp_path / name)
    (tmp_path / "empty").mkdir()
    restore(store.log, tmp_path / "empty")
    assert [each.name for each in (tmp_path / "empty").iterdir()] == ["sessions.db"]


@pytest.mark.parametrize("position", [-1, 10**6])
def test_a_moment_that_is_none_makes_nothing(store: SessionStore, tmp_path: Path, position: int) -> None:
    with pytest.raises(BadMomentError):
        restore(store.log, tmp_path / "then", position)
    assert not (tmp_path / "then").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_is_cut_off_leaves_nothing(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """R7, R20."""
    store.get_or_create_session(source())

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("replay.folders.catch_up", fails)
    with pytest.raises((KeyboardInterrupt, DiskFullError)):
        restore(store.log, tmp_path / "parent" / "then")
    assert not (tmp_path / "parent" / "then").exists()


def test_a_damaged_log_is_not_restored_as_if_it_were_sound(store: SessionStore, tmp_path: Path) -> None:
    """R19, R20."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "the order is late")
    store.close()
    file = Path(store.log.path)
    file.write_bytes(file.read_bytes().replace(b"the order is late", b"the order is lost"))
    with EventLog(file, read_only=True) as log, pytest.raises(CorruptLogError, match="not kept"):
        restore(log, tmp_path / "then")
    assert not (tmp_path / "then").exists()
