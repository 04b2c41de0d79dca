"""Verbs that write: they ask, say why, leave a trace, and can be tried dry (R6, R20, R21)."""

import json
from pathlib import Path

import pytest

from engine import EventLog, SessionStore
from replay import open_log, open_reader
from tests.replay.cli.support import ADA, run

ERASE = ["erase", "--user", "42", "--reason", "request 7"]


def contents(store: Path) -> bytes:
    return (store / "sessions.db").read_bytes()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """An older gateway's folder with one session."""
    folder = tmp_path / "older"
    folder.mkdir()
    at = "2026-06-01T10:00:00+00:00"
    entry = {"session_key": "agent:main:sms:dm:5", "session_id": "old_1", "created_at": at, "updated_at": at}
    (folder / "sessions.json").write_text(json.dumps({"agent:main:sms:dm:5": entry}))
    (folder / "old_1.jsonl").write_text('{"role": "user", "content": "long ago", "timestamp": 1780000000}\n')
    return folder


@pytest.mark.parametrize("words", [ERASE, ["views", "rebuild"], ["import", "{older}"]])
def test_a_verb_that_writes_demands_yes_where_nobody_can_be_asked(words: list[str], own: Path, older: Path) -> None:
    """R6, R5."""
    before = contents(own)
    done = run(*(word.format(older=older) for word in words), store=own)
    assert (done.code, done.out) == (2, "")
    assert "say --yes" in done.err
    assert contents(own) == before


def test_an_erasure_needs_a_reason_and_one_subject(own: Path) -> None:
    """R6."""
    assert run("erase", "--user", "42", "--yes", store=own).code == 2
    assert run("erase", "--reason", "x", "--yes", store=own).code == 2
    assert run("erase", ADA, "--user", "42", "--reason", "x", "--yes", store=own).code == 2


def test_an_erasure_can_be_tried_dry_and_is_recorded_with_its_actor_and_reason(own: Path) -> None:
    """R6, R21: recorded as an event by the actor `sessions`."""
    dry = run(*ERASE, "--dry-run", "-o", "json", store=own).items[0]
    assert (dry["dry_run"], dry["events"] > 0) == (True, True)
    with open_reader(own) as reader:
        assert reader.peek_session_id(ADA) is not None
    done = run(*ERASE, "--request", "R-7", "--yes", store=own)
    assert done.code == 0, done.err
    assert f"{dry['events']} events, {dry['messages']} messages erased" in done.out
    with open_log(own) as log:
        *_, erased = log.events(topics=["log.erased"])
        assert (erased.actor, erased.reason) == ("sessions", "request 7")
        assert log.verify().ok
    assert run("show", ADA, store=own).code == 3


def test_an_erasure_by_name_takes_what_identifies_one(own: Path) -> None:
    """R4, R6."""
    assert run("erase", "agent", "--reason", "x", "--yes", store=own).code == 2
    done = run("erase", "telegram", "--reason", "x", "--purge", "--yes", store=own)
    assert (done.code, "no byte of it is left" in done.out) == (0, True), done.err
    assert b"the order is late" not in contents(own)


def test_writing_by_the_command_does_not_look_like_another_policy(own: Path, older: Path) -> None:
    """R6: it opens the store with the settings that it ran with last, in its time zone."""
    with open_log(own) as log:
        before = [each.event for each in log.events(topics=["store.opened"])]
    run("import", older, "--yes", store=own)
    with open_log(own) as log:
        *_, last = (each.event for each in log.events(topics=["store.opened"]))
    assert last != before[-1]
    for name in ("settings", "zone", "version"):
        assert getattr(last, name) == getattr(before[-1], name)


def test_an_import_is_tried_dry_done_and_done_again(own: Path, older: Path) -> None:
    """R6, R21."""
    dry = run("import", older, "--dry-run", "-o", "json", store=own).items[0]
    assert (dry["sessions"], dry["messages"], dry["dry_run"]) == (1, 1, True)
    done = run("import", older, "--reason", "moving", "--yes", "-o", "json", store=own).items[0]
    assert (done["sessions"], done["messages"], done["known"]) == (1, 1, 0)
    assert run("import", older, "--yes", "-o", "json", store=own).items[0]["messages"] == 0
    with open_log(own) as log:
        imported = next(iter(log.events(topics=["log.imported"])))
        assert (imported.actor, imported.reason) == ("sessions", "moving")


def test_an_import_makes_a_store_where_there_is_none(tmp_path: Path, older: Path) -> None:
    """R21."""
    assert run("import", older, "--yes", store=tmp_path / "new").code == 0
    assert run("list", "-o", "json", store=tmp_path / "new").items[0]["session_id"] == "old_1"


def test_an_import_of_something_else_says_what_it_wants(own: Path, tmp_path: Path) -> None:
    """R5."""
    done = run("import", tmp_path, "--yes", store=own)
    assert (done.code, "has neither" in done.err) == (1, True)


def test_a_backup_is_verified_and_replaces_nothing(lived: Path, tmp_path: Path) -> None:
    """R20."""
    to = tmp_path / "copy.db"
    done = run("backup", to, "-o", "json", store=lived).items[0]
    assert (done["ok"], done["path"]) == (True, str(to))
    assert run("list", "-o", "json", store=to).items == run("list", "-o", "json", store=lived).items
    again = run("backup", to, store=lived)
    assert (again.code, "never replaces" in again.err) == (1, True)
    missing = run("backup", tmp_path / "no" / "copy.db", store=lived)
    assert (missing.code, "does not exist" in missing.err) == (1, True)


def test_a_copy_can_be_opened_as_a_store(lived: Path, tmp_path: Path) -> None:
    """R20."""
    assert run("copy", tmp_path / "new", store=lived).code == 0
    with SessionStore(tmp_path / "new", create=False, synchronous="OFF") as store:
        assert store.verify().ok
    again = run("copy", tmp_path / "new", store=lived)
    assert (again.code, "not an empty folder" in again.err) == (1, True)


def test_a_copy_that_fails_leaves_no_folder(tmp_path: Path, damaged: Path) -> None:
    """R7, R20: what is damaged is not copied as if it were sound."""
    done = run("copy", tmp_path / "new", store=damaged)
    assert (done.code, "not sound" in done.err) == (4, True)
    assert not (tmp_path / "new").exists()


def test_views_are_made_anew(own: Path) -> None:
    """R21."""
    with EventLog(own / "sessions.db", read_only=True) as log:
        last = log.last_position
    dry = run("views", "rebuild", "--dry-run", "-o", "json", store=own)
    assert (dry.code, len(dry.items)) == (0, 3), dry.err
    done = run("views", "rebuild", "--yes", "-o", "json", store=own)
    assert done.code == 0, done.err
    assert {each["name"] for each in done.items} == {"usage", "search", "catalogue"}
    assert {each["building_position"] for each in done.items} == {None}
    assert all(each["position"] >= last for each in done.items)
    assert run("views", "verify", store=own).code == 0
    assert run("views", "rebuild", "nonsense", "--yes", store=own).code == 2


@pytest.mark.parametrize("words", [ERASE, ["views", "rebuild"], ["import", "{older}"]])
def test_a_dry_run_makes_no_views(words: list[str], own: Path, older: Path) -> None:
    """R6: of a large log that would take minutes, and a store may be one that goes without."""
    for file in own.glob("views.db*"):
        file.unlink()
    done = run(*(word.format(older=older) for word in words), "--dry-run", store=own)
    assert done.code == 0, done.err
    assert not list(own.glob("views.db*"))


def test_a_rebuild_of_views_over_a_damaged_log_ends(own: Path) -> None:
    """R7, R21: it does not wait for ever for what an error keeps where it is."""
    for file in own.glob("views.db*"):
        file.unlink()
    file = own / "sessions.db"
    data = bytearray(file.read_bytes())
    at = data.find(b"the order is late") // 4096 * 4096
    data[at : at + 4096] = b"\xaa" * 4096
    file.write_bytes(data)
    done = run("views", "rebuild", "--yes", store=own)
    assert (done.code, "is damaged" in done.err + done.out) == (4, True)


def test_a_copy_with_another_name_can_only_be_read(lived: Path, tmp_path: Path) -> None:
    """R1, R6."""
    run("backup", tmp_path / "copy.db", store=lived)
    done = run(*ERASE, "--yes", store=tmp_path / "copy.db")
    assert (done.code, "can only be read" in done.err) == (1, True)


def test_an_answer_of_yes_is_taken_on_a_terminal(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: ask on a terminal."""
    monkeypatch.setattr("replay.cli.run.answers", lambda: True)
    before = contents(own)
    assert run(*ERASE, store=own, given="n\n").code == 1
    assert contents(own) == before
    done = run(*ERASE, store=own, given="y\n")
    assert (done.code, "everything of user 42" in done.err) == (0, True)
