"""All that can be read of a damaged log, in a store of its own (R19)."""

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from engine import SessionStore, acting
from engine.domain.events import EventLost, LogSalvaged
from engine.log.errors import CorruptLogError, LogError, StorageError
from engine.log.rows import STORED
from engine.verification import verify_store
from replay import Damage, open_log, open_reader, salvage
from replay.salvaging import Salvage
from tests.chance import SEED, SOAK
from tests.gateway.support import FakeClock, said, say, source
from tests.replay.tables import contents, folded

_POSITION, _TOPIC = STORED.index("position"), STORED.index("topic")


@pytest.fixture
def talked(store: SessionStore) -> SessionStore:
    """A closed store with two sessions, the words of each numbered, and one message erased."""
    for chat in ("1", "2"):
        say(
            store,
            store.get_or_create_session(source(chat)).session_id,
            *(f"{chat}-{number:03}" for number in range(40)),
        )
    (position,) = (each.position for each in store.log.events() if "2-039" in repr(each.event))
    store.log.erase([position], actor="desk", reason="asked to", request="R-1")
    store.close()
    return store


def damaged(store: SessionStore, sql: str) -> None:
    """Change the file behind the back of the log."""
    with_triggers = apsw.Connection(store.log.path)
    for (name,) in with_triggers.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        with_triggers.execute(f"DROP TRIGGER {name}")
    with_triggers.execute(sql)
    with_triggers.close()


def salvaged(store: SessionStore, to: Path, **options: bool) -> Salvage:
    with open_log(store.log.path, damaged=True) as log:
        return salvage(log, to, **options)


def words(folder: Path, chat: str) -> list[str]:
    with open_reader(folder) as reader:
        session_id = reader.peek_session_id(f"agent:main:telegram:dm:{chat}")
        assert session_id is not None
        return [each["content"] for each in said(reader, session_id)]


def test_a_sound_log_is_salvaged_whole(talked: SessionStore, tmp_path: Path) -> None:
    """R19: nothing is lost, and nothing but positions and hashes is the new log's own."""
    found = salvaged(talked, tmp_path / "new")
    with open_log(talked.log.path) as old, open_log(tmp_path / "new") as new:
        last = old.last_position
        assert (found.events, found.lost, found.changed, found.unchecked, found.damage) == (last, 0, 0, 0, ())
        assert new.verify().ok
        upto = range(1, last + 1)
        assert new.reader.stored_at(upto) == old.reader.stored_at(upto)
        assert new.reader.log_id() != old.reader.log_id()
        (told,) = (each.event for each in new.events(after=last))
        assert told == LogSalvaged(events=last, lost=0)
        there, expected = contents(new.reader), folded(old, last)
        for each in (there, expected):
            each.pop("projections")
        assert there == expected


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("UPDATE events SET state = replace(state, '1-007', '1-077')", "does not match its hash"),
        ("DELETE FROM events WHERE state LIKE '%1-007%'", "missing"),
    ],
)
def test_what_is_lost_is_told_and_moves_nothing(talked: SessionStore, tmp_path: Path, sql: str, problem: str) -> None:
    """R19: an event that says so stands at its position, and the rest is there."""
    with open_log(talked.log.path) as log:
        (position,) = (each.position for each in log.events() if "1-007" in repr(each.event))
    damaged(talked, sql)
    with acting("ada", reason="the disk of May"):
        found = salvaged(talked, tmp_path / "new")
    assert (found.lost, found.changed, found.end_known) == (1, 0, True)
    ((first, last, why),) = ((each.first, each.last, each.problem) for each in found.damage)
    assert (first, last) == (position, position)
    assert problem in why
    with open_log(tmp_path / "new") as log:
        assert log.verify().ok
        (lost,) = log.reader.recorded_at([position])
        assert isinstance(lost.event, EventLost)
        *_, told = log.events()
        assert (told.event, told.actor, told.reason) == (
            LogSalvaged(events=found.events, lost=1),
            "ada",
            "the disk of May",
        )
    assert words(tmp_path / "new", "1") == [f"1-{number:03}" for number in range(40) if number != 7]
    assert words(tmp_path / "new", "2") == [f"2-{number:03}" for number in range(39)]


def test_what_was_changed_comes_along_if_asked_for(talked: SessionStore, tmp_path: Path) -> None:
    """R19."""
    damaged(talked, "UPDATE events SET state = replace(state, '1-007', '1-077')")
    found = salvaged(talked, tmp_path / "new", keep_changed=True)
    assert (found.lost, found.changed, len(found.damage)) == (0, 1, 1)
    assert words(tmp_path / "new", "1")[7] == "1-077"
    with open_log(tmp_path / "new") as log:
        assert log.verify().ok
        *_, told = (each.event for each in log.events())
        assert told == LogSalvaged(events=found.events, lost=0, changed=1)


def test_a_payload_whose_erasure_was_lost_is_recorded_as_erased_again(talked: SessionStore, tmp_path: Path) -> None:
    """R19, V15: else the new log would not verify."""
    damaged(talked, "DELETE FROM events WHERE topic = 'log.erased'")
    salvaged(talked, tmp_path / "new")
    with open_log(tmp_path / "new") as log:
        assert log.verify().ok
        (again,) = log.events(topics=["log.erased"])
        assert again.reason == "the event that said so could not be read"


def test_a_session_whose_beginning_is_lost_leaves_the_others_alone(talked: SessionStore, tmp_path: Path) -> None:
    """R19: what cannot be used is quarantined, as ever."""
    damaged(talked, "DELETE FROM events WHERE topic IN ('session.created', 'lane.routed') AND position < 20")
    found = salvaged(talked, tmp_path / "new")
    assert found.lost == 2
    assert found.unchecked == 1
    assert words(tmp_path / "new", "2") == [f"2-{number:03}" for number in range(39)]


def test_a_file_that_was_cut_off_is_salvaged_as_far_as_it_goes(
    open_store: Callable[..., SessionStore], tmp_path: Path
) -> None:
    """R19: no other verb reads anything of it."""
    store = open_store()
    session_id = store.get_or_create_session(source("1")).session_id
    for number in range(600):
        say(store, session_id, f"{number:03} {'x' * 200}")
    last = store.log.last_position
    store.close()
    file = Path(store.log.path)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(CorruptLogError, match="salvage"):
        open_log(file)
    found = salvaged(store, tmp_path / "new")
    assert found.events + found.lost <= last + 1
    kept = [text[:3] for text in words(tmp_path / "new", "1")]
    assert kept == [f"{number:03}" for number in range(len(kept))]
    assert len(kept) > 40


@pytest.mark.parametrize("run", range(40 * SOAK))
def test_whatever_is_damaged_nothing_is_made_up(talked: SessionStore, tmp_path: Path, run: int) -> None:
    """R19: bytes of the file change at random; what was taken over and could be checked is what was recorded."""
    chance = random.Random(f"{SEED} {run}")
    file = Path(talked.log.path)
    with open_log(file) as log:
        recorded = {row[_POSITION]: row for row in log.reader.stored_at(range(1, log.last_position + 1))}
    whole = bytearray(file.read_bytes())
    for _ in range(chance.choice([1, 3, 10])):
        at, length = chance.randrange(len(whole)), chance.choice([1, 8, 300, 4096])
        whole[at : at + length] = chance.randbytes(min(length, len(whole) - at))
    file.write_bytes(whole[: chance.choice([len(whole), len(whole), chance.randrange(len(whole))])])
    try:
        log = open_log(file, damaged=True)
    except LogError:
        return  # the header of the file itself
    with log:
        try:
            found = salvage(log, tmp_path / "new")
        except LogError:  # not even the tables can be found
            assert not (tmp_path / "new").exists()
            return
    with open_log(tmp_path / "new") as new:
        assert verify_store(new, None, None).ok
        there = new.reader.stored_at(range(1, found.events + found.lost + 1))
    kept = [row for row in there if row[_TOPIC] != EventLost.TOPIC]
    assert len(kept) == found.events
    same = sum(_told(row) == _told(recorded.get(row[_POSITION])) for row in kept)
    assert len(kept) - same <= found.unchecked


def _told(row: tuple[object, ...] | None) -> tuple[object, ...] | None:
    """Return a row without the version, which follows what is there, and the id, which may have been of its hash."""
    return row and tuple(value for name, value in zip(STORED, row, strict=True) if name not in ("version", "event_id"))


def test_many_lost_events_are_told_as_runs(talked: SessionStore, tmp_path: Path) -> None:
    """R19: a report that can be read."""
    damaged(talked, "DELETE FROM events WHERE position BETWEEN 20 AND 29 OR position = 35")
    found = salvaged(talked, tmp_path / "new", dry_run=True)
    assert found.damage == (Damage(20, 29, "the row is missing"), Damage(35, 35, "the row is missing"))
    assert (found.dry_run, found.lost) == (True, 11)
    assert not (tmp_path / "new").exists()


def test_the_damaged_store_is_left_as_it_is_and_nothing_is_replaced(talked: SessionStore, tmp_path: Path) -> None:
    """R19, R20."""
    damaged(talked, "DELETE FROM events WHERE position = 5")
    before = Path(talked.log.path).read_bytes()
    salvaged(talked, tmp_path / "new")
    with pytest.raises(StorageError, match="not an empty folder"):
        salvaged(talked, tmp_path / "new")
    assert Path(talked.log.path).read_bytes() == before


def test_what_is_cut_off_leaves_nothing(talked: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R7."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("replay.salvaging._Taken.said", interrupted)
    with pytest.raises(KeyboardInterrupt):
        salvaged(talked, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_salvaged_store_goes_on(talked: SessionStore, clock: FakeClock, tmp_path: Path) -> None:
    """R19."""
    damaged(talked, "DELETE FROM events WHERE state LIKE '%1-007%'")
    salvaged(talked, tmp_path / "new")
    with SessionStore(tmp_path / "new", clock=clock, synchronous="OFF", create=False) as store:
        entry = store.get_or_create_session(source("1"))
        say(store, entry.session_id, "here again")
        assert said(store, entry.session_id)[-1]["content"] == "here again"
        assert store.verify().ok
