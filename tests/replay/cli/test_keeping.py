"""Verbs that keep a store right: verify, heal, salvage, restore and archive (R5, R6, R7, R18, R19, R20, R21)."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from engine import SessionStore
from engine.views import VIEWS_FILE
from replay import open_log, open_reader
from tests.gateway.support import FakeClock, say, source
from tests.replay.cli.support import ADA, NOW, damage, run
from tests.replay.cli.test_process import ENVIRONMENT, ROOT


def change(store: Path, sql: str, file: str = "sessions.db") -> None:
    """Change a file behind everybody's back."""
    connection = apsw.Connection(str(store / file))
    connection.execute(sql)
    connection.close()


def contents(store: Path) -> bytes:
    return (store / "sessions.db").read_bytes()


# verify


def test_verify_names_the_first_difference_and_what_to_do(own: Path) -> None:
    """R18: and what to do next is no data."""
    sound = run("verify", "--full", "-o", "json", store=own).items[0]
    assert (sound["ok"], set(sound["views"])) == (True, {"usage", "search", "catalogue"})
    change(own, "UPDATE lanes SET updated_at = 7 WHERE key LIKE '%4711'")
    done = run("verify", "-o", "json", store=own)
    assert (done.code, done.items[0]["table"], done.items[0]["key"]) == (4, "lanes", ADA)
    assert done.items[0]["bad_position"] > 1
    assert "sessions heal --dry-run" in done.err


def test_verify_in_full_finds_what_a_view_has_otherwise(own: Path) -> None:
    """R18, V7."""
    change(own, "UPDATE search_sessions SET lane = 'another'", VIEWS_FILE)
    assert run("verify", store=own).code == 0
    done = run("verify", "--full", store=own)
    assert (done.code, "search_sessions" in done.out) == (4, True)


def test_verify_says_how_to_go_on_with_a_damaged_log(damaged: Path) -> None:
    """R18, R19."""
    done = run("verify", store=damaged)
    assert (done.code, "sessions salvage TO" in done.err) == (4, True)


# heal


def test_heal_tells_both_values_and_makes_it_again(own: Path) -> None:
    """R19: dry, then for good; recorded with its actor and reason."""
    change(own, "UPDATE lanes SET session_id = 'another' WHERE key LIKE '%4711'")
    before = contents(own)
    dry = run("heal", "--dry-run", store=own)
    assert dry.code == 4
    assert f"lanes {ADA}: the row is not what the log says" in dry.out
    assert "lane.reset" in dry.out
    assert "the table another" in dry.out
    assert contents(own) == before
    refused = run("heal", store=own)
    assert (refused.code, refused.out, "say --yes" in refused.err) == (2, "", True)
    assert contents(own) == before
    done = run("heal", "--reason", "the disk of May", "--yes", "-o", "json", store=own)
    assert done.code == 0, done.err
    assert (done.items[0]["healed"], done.items[0]["found"][0]["values"]["session_id"][1]) == (True, "another")
    with open_log(own) as log:
        (said,) = log.events(topics=["store.healed"])
        assert (said.actor, said.reason) == ("sessions", "the disk of May")
    assert run("verify", "--full", store=own).code == 0
    assert "made again: 1 row disagreed" in run("why", f"@{said.position}", store=own).out


def test_heal_asks_on_a_terminal(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6."""
    monkeypatch.setattr("replay.cli.run.answers", lambda: True)
    change(own, "DELETE FROM lanes")
    assert run("heal", store=own, given="n\n").code == 1
    assert run("verify", store=own).code == 4
    done = run("heal", store=own, given="y\n")
    assert (done.code, "2 rows of the tables differ from the log" in done.err) == (0, True)
    assert run("verify", store=own).code == 0


def test_heal_has_nothing_to_ask_about_a_sound_store(own: Path) -> None:
    """R19."""
    before = contents(own)
    done = run("heal", store=own)
    assert (done.code, "nothing differs" in done.out) == (0, True)
    assert contents(own) == before


def test_heal_makes_views_again(own: Path) -> None:
    """R19, V6."""
    change(own, "UPDATE search_sessions SET lane = 'another'", VIEWS_FILE)
    assert "the view search" in run("heal", "--dry-run", store=own).out
    assert run("heal", "--yes", store=own).code == 0
    assert run("verify", "--full", store=own).code == 0


def test_heal_changes_nothing_in_a_damaged_log(own: Path) -> None:
    """R19: and says how to salvage."""
    change(own, "DELETE FROM lanes")
    damage(own)
    before = contents(own)
    done = run("heal", "--yes", store=own)
    assert (done.code, done.out, "sessions salvage TO" in done.err) == (4, "", True)
    assert contents(own) == before


# salvage


def test_salvage_brings_over_what_can_be_read_and_reports_what_not(damaged: Path, tmp_path: Path) -> None:
    """R19."""
    before = contents(damaged)
    refused = run("salvage", tmp_path / "new", store=damaged)
    assert (refused.code, "say --yes" in refused.err) == (2, True)
    done = run("salvage", tmp_path / "new", "--reason", "the disk of May", "--yes", store=damaged)
    assert done.code == 0, done.err
    assert "lost      1" in done.out
    assert "does not match its hash" in done.out
    assert contents(damaged) == before
    assert run("verify", store=tmp_path / "new").code == 0
    with open_log(tmp_path / "new") as log:
        (said,) = log.events(topics=["log.salvaged"])
        assert (said.actor, said.reason) == ("sessions", "the disk of May")
    again = run("salvage", tmp_path / "new", "--yes", store=damaged)
    assert (again.code, "give another name" in again.err) == (1, True)


def test_a_file_that_was_cut_off_can_be_salvaged_though_no_other_verb_reads_it(own: Path, tmp_path: Path) -> None:
    """R5, R19: and every other verb says so."""
    with SessionStore(own, synchronous="OFF", views=False) as store:
        entry = store.get_or_create_session(source("long"))
        for number in range(300):
            say(store, entry.session_id, f"{number} {'x' * 300}")
    (own / "sessions.db").write_bytes(contents(own)[: len(contents(own)) * 3 // 4])
    for words in (["list"], ["verify"], ["heal", "--yes"]):
        done = run(*words, store=own)
        assert (done.code, "salvage" in done.err) == (4, True), words
    done = run("salvage", tmp_path / "new", "--keep-changed", "--yes", "-o", "json", store=own)
    assert done.code == 0, done.err
    assert done.items[0]["events"] > 50
    assert done.items[0]["lost"] > 10 or not done.items[0]["end_known"]
    assert run("show", ADA, store=tmp_path / "new").code == 0


# restore


def test_restore_makes_a_store_as_of_a_moment_from_its_log_alone(lived: Path, tmp_path: Path) -> None:
    """R20: what is in it is what `at` shows of that moment."""
    to = tmp_path / "then"
    refused = run("restore", lived, to, "--at", "@9")
    assert (refused.code, "say --yes" in refused.err, to.exists()) == (2, True, False)
    done = run("restore", lived, to, "--at", "@9", "--reason", "as it was", "--yes", "-o", "json")
    assert (done.code, done.items[0]["position"]) == (0, 9), done.err
    then = run("at", "@9", "-o", "json", store=lived).items
    assert run("list", "-o", "json", store=to).items == then
    assert run("verify", "--head", done.items[0]["head"], store=to).code == 0
    assert run("verify", "--head", done.items[0]["head"], store=lived).code == 0
    with open_log(to) as log:
        (said,) = log.events(topics=["store.restored"])
        assert (said.actor, said.reason) == ("sessions", "as it was")


def test_restore_takes_a_backup_and_says_what_was_erased_since(lived: Path, tmp_path: Path) -> None:
    """R20, V15."""
    assert run("backup", tmp_path / "monday.db", store=lived).code == 0
    with open_log(lived) as log:
        (erased,) = log.events(topics=["log.erased"])
    done = run("restore", tmp_path / "monday.db", tmp_path / "new", "--at", f"@{erased.position - 1}", "--yes")
    assert (done.code, "1 event since, which stay erased" in done.out) == (0, True)
    whole = run("restore", tmp_path / "monday.db", tmp_path / "whole", "--yes")
    assert (whole.code, "left out  0 later" in whole.out) == (0, True)
    assert run("list", "-o", "json", store=tmp_path / "whole").items == run("list", "-o", "json", store=lived).items


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["restore", "{to}/nowhere", "{to}/new", "--yes"], 3, "no store"),
        (["restore", "{store}", "{to}/new", "--at", "the other day", "--yes"], 2, "names no moment"),
        (["restore", "{store}", "{to}/new", "--at", "@99999", "--yes"], 2, "the log ends at"),
        (["restore", "{store}", "{store}", "--yes"], 1, "give another name"),
        (["restore", "{damaged}", "{to}/new", "--yes"], 4, "not kept"),
        (["salvage", "{to}/new", "--yes", "--store", "{to}/nowhere"], 3, "no store"),
        (["heal", "--yes", "--store", "{to}/nowhere"], 3, "no store"),
        (["archive", "{to}/old", "--reason", "x", "--yes"], 2, "--older-than"),
        (["archive", "{to}/old", "--older-than", "1d", "--back", "--reason", "x", "--yes"], 2, "--older-than"),
        (["archive", "{to}/old", "--older-than", "1d", "--yes"], 2, "--reason"),
        (["archive", "{to}/old", "--older-than", "long", "--reason", "x", "--yes"], 2, "names no moment"),
        (["archive", "{to}/old", "--back", "--reason", "x", "--yes"], 3, "{to}/old"),
        (["archive", "{store}/sessions.db", "--back", "--reason", "x", "--yes"], 4, "archive"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(
    words: list[str], code: int, said: str, own: Path, damaged: Path, tmp_path: Path
) -> None:
    """R5."""
    to = tmp_path / "to"
    to.mkdir()
    given = [word.format(to=to, store=own, damaged=damaged) for word in words]
    done = run(*given, store=None if "--store" in given else own)
    assert (done.code, done.out) == (code, ""), done.err
    assert said.format(to=to) in done.err
    assert list(to.iterdir()) == []


# archive


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """A store with one conversation that ended long ago."""
    clock = FakeClock(NOW)
    clock.advance(days=-300)
    with SessionStore(tmp_path / "ended", clock=clock, synchronous="OFF", views=False) as store:
        entry = store.get_or_create_session(source())
        say(store, entry.session_id, "the order is late", "it is on its way")
        store.reset_session(entry.session_key)
    return tmp_path / "ended"


def test_archive_moves_old_messages_out_and_back(ended: Path, tmp_path: Path) -> None:
    """R21, V16."""
    file = tmp_path / "old.archive"
    words = ["archive", file, "--older-than", "180d", "--reason", "retention"]
    dry = run(*words, "--dry-run", "-o", "json", store=ended).items[0]
    assert (dry["sessions"], dry["messages"], dry["dry_run"], file.exists()) == (1, 2, True, False)
    assert "say --yes" in run(*words, store=ended).err
    done = run(*words, "--yes", store=ended)
    assert (done.code, "2 messages of 1 session moved" in done.out) == (0, True), done.err
    assert b"the order is late" not in contents(ended)
    with open_log(ended) as log:
        (said,) = log.events(topics=["log.archived"])
        assert (said.actor, said.reason) == ("sessions", "retention")
    again = run("archive", tmp_path / "other", *words[2:], "--yes", store=ended)
    assert (again.code, "nothing to move" in again.out) == (0, True)
    back = ["archive", file, "--back", "--reason", "request 7"]
    assert "2 messages would be brought back" in run(*back, "--dry-run", store=ended).out
    assert "2 messages brought back" in run(*back, "--yes", store=ended).out
    assert "already" in run(*back, "--yes", store=ended).out
    assert run("verify", store=ended).code == 0
    with open_reader(ended) as reader:
        ids = [each.session_id for each in reader.sessions_of(reader.list_sessions()[0].session_key)]
        assert sum(len(reader.load_transcript(each)) for each in ids) == 2


# Ctrl-C


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["restore", "{store}", "{to}/new", "--yes"], "replay.folders.catch_up"),
        (["salvage", "{to}/new", "--yes"], "replay.folders.catch_up"),
        (["heal", "--yes"], "projections.inline.rebuilding._place"),
    ],
)
def test_ctrl_c_in_the_middle_leaves_nothing(words: list[str], place: str, own: Path, tmp_path: Path) -> None:
    """R7."""
    to = tmp_path / "to"
    to.mkdir()
    change(own, "DELETE FROM lanes")
    module, _, name = place.rpartition(".")
    code = (
        f"import os, signal, {module} as module; "
        f"module.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT); "
        "from replay.cli import main; main()"
    )
    given = [word.format(to=to, store=own) for word in words]
    command = [sys.executable, "-c", code, "--store", str(own), *given]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert "interrupted" in done.stderr
    assert list(to.iterdir()) == []
    assert run("verify", store=own).code == 4
    assert run("heal", "--yes", store=own).code == 0


def test_ctrl_c_while_an_archive_is_filled_keeps_what_was_moved(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7, V16: the file is the only copy then."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.archiving._streams", interrupted)
    file = tmp_path / "old.archive"
    done = run("archive", file, "--older-than", "180d", "--reason", "x", "--yes", store=ended)
    assert (done.code, "keep it" in done.err) == (130, True)
    monkeypatch.undo()
    assert "2 messages brought back" in run("archive", file, "--back", "--reason", "x", "--yes", store=ended).out
