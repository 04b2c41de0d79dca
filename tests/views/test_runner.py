"""V1 to V6: views follow the log, each batch once, whatever happens to their file."""

import re
import subprocess
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import ClassVar

import pytest

from engine.domain.events import MessageAppended
from engine.log import NEXT_VERSION, Envelope, EventLog
from engine.log.errors import StorageError
from engine.log.sqlite.tables import SQLiteTables
from projections.views import catchup
from projections.views.runner import ViewRunner
from projections.views.view import View
from tests.faults.children import ROOT
from tests.views import support
from tests.views.support import Counts, rows


def said(words, stream="session:s"):
    return Envelope(stream, NEXT_VERSION, MessageAppended(message={"role": "user", "content": words}))


@pytest.fixture
def log(tmp_path):
    with EventLog(tmp_path / "sessions.db", synchronous="OFF") as log:
        yield log


@pytest.fixture
def run(tmp_path, log):
    """Start runners on the one file of views; stop them at the end."""
    runners = []

    def start(view=None, *, follow=True):
        runner = ViewRunner(log, SQLiteTables(tmp_path / "views.db"), [view or Counts()])
        runners.append(runner)
        if follow:
            runner.start()
        return runner

    yield start
    for runner in runners:
        runner.stop()


@pytest.fixture
def tables(tmp_path):
    tables = SQLiteTables(tmp_path / "views.db")
    yield tables
    tables.close()


def test_a_view_follows_the_log_and_a_reader_can_wait_for_its_own_writes(log, run, tables):
    """V3, V4."""
    runner = run()
    for number in range(3):
        (position,) = log.append([said(f"words {number}")])
        assert runner.wait(position, 10)
        assert rows(tables) == {"session:s": (number + 1, f"words {number}")}
    (status,) = runner.status(0)
    assert (status.position, status.lag_events, status.error) == (3, 0, None)


def test_waiting_for_what_is_not_there_ends_with_its_timeout(run):
    """V4."""
    assert not run().wait(1, 0.05)


def test_two_runners_apply_each_batch_once(log, run, tables):
    """V3."""
    runners = [run(), run(), run()]
    for _ in range(200):
        log.append([said("words")])
    assert all(runner.wait(200, 10) for runner in runners)
    assert rows(tables) == {"session:s": (200, "words")}


def test_an_unusable_event_is_put_aside_for_the_view_and_the_rest_goes_on(log, run, tables, caplog):
    """V5."""
    for words in ("one", "unusable", "three"):
        log.append([said(words)])
    runner = run()
    assert runner.wait(3, 10)
    assert rows(tables) == {"session:s": (2, "three")}
    assert runner.status(0)[0].quarantined == 1
    assert sum("position 2" in record.message for record in caplog.records) == 1


def test_what_is_erased_leaves_the_view(log, run, tables):
    """V15: the stream is folded again, without the words."""
    log.append([said("secret")])
    runner = run()
    assert runner.wait(1, 10)
    log.append([said("later", "session:other")])
    log.erase([1], actor="operator", reason="asked to")
    assert runner.wait(3, 10)
    found = rows(tables)
    assert found["session:s"] == (1, None)
    assert found["session:other"] == (1, "later")


def test_a_file_that_is_deleted_while_it_is_used_is_made_again(log, run, tables, tmp_path, caplog):
    """V1: and nobody is told of an error."""
    runner = run()
    log.append([said("words")])
    assert runner.wait(1, 10)
    for path in tmp_path.glob("views.db*"):
        path.unlink()
    (status,) = runner.status(0)
    assert (status.position, status.error) in ((0, None), (1, None))
    log.append([said("more")])
    assert runner.wait(2, 10)
    assert rows(tables) == {"session:s": (2, "more")}
    assert caplog.messages == []


@pytest.mark.parametrize("content", [b"not a database" * 500, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_file_of_views_stops_the_views_alone_and_deleting_it_heals(
    log, run, tables, tmp_path, content
):
    """V5."""
    (tmp_path / "views.db").write_bytes(content)
    runner = run()
    log.append([said("words")])
    assert not runner.wait(1, 0.3)
    assert "delete the file" in runner.status(0)[0].error
    (tmp_path / "views.db").unlink()
    assert runner.wait(1, 10)
    assert rows(tables) == {"session:s": (1, "words")}
    assert runner.status(0)[0].error is None


def test_a_view_goes_on_after_the_log_could_not_be_read_while_it_waited(log, run, tables, monkeypatch):
    """V1: the thread that follows must not end with the first error of the disk."""
    runner = run()
    log.append([said("before")])
    assert runner.wait(1, 10)
    failed = threading.Event()
    plain = log.wait

    def wait(*arguments):
        if failed.is_set():
            return plain(*arguments)
        failed.set()
        raise StorageError("I/O error")

    monkeypatch.setattr(log, "wait", wait)
    log.append([said("wakes it")])
    assert failed.wait(300)
    (position,) = log.append([said("after")])
    assert runner.wait(position, 10)


def test_a_changed_definition_is_made_behind_the_view_that_serves(log, run, tables):
    """V2, V6."""
    for _ in range(1200):
        log.append([said("words")])
    first = run()
    assert first.wait(1200, 10)
    first.stop()
    second = run(Counts("2"), follow=False)
    second.step()
    assert rows(tables) == {"session:s": (1200, "words")}
    assert second.status(0)[0].building_position == 500
    while second.step():
        pass
    assert second.status(0)[0].building_position is None
    assert rows(tables) == {"session:s": (1200, "words")}
    assert tables.query("SELECT fingerprint FROM views") == [(Counts("2").fingerprint(),)]


def test_two_definitions_on_one_file_do_not_make_it_anew_for_ever(log, run, tables, monkeypatch):
    """V2, V6: an older version beside a newer one, which is gone later: then the older one takes it back."""
    log.append([said("words")])
    older, newer = run(Counts("1"), follow=False), run(Counts("2"), follow=False)

    def served():
        for _ in range(5):
            older.step()
            newer.step()
        return [row[0][-1] for row in tables.query("SELECT fingerprint FROM views WHERE part = 'serving'")]

    assert served() == ["2"]
    log.append([said("more words")])
    assert served() == ["2"]
    assert older.position() == 2
    log.append([said("when the newer one is gone")])
    monkeypatch.setattr(catchup, "_PATIENCE_SECONDS", 0.0)
    for _ in range(5):
        older.step()
    assert [row[0][-1] for row in tables.query("SELECT fingerprint FROM views")] == ["1"]
    assert rows(tables) == {"session:s": (3, "when the newer one is gone")}


@pytest.mark.parametrize("change", ["events BIGINT NOT NULL|events BIGINT", "each.stream, words|each.stream, None"])
def test_a_change_in_the_file_of_a_view_is_noticed(tmp_path, change):
    """V2: nobody bumps a number."""
    text = (
        Path(support.__file__).read_text().replace("super().fingerprint() + self.definition", "super().fingerprint()")
    )
    before, after = change.split("|")
    found = set()
    for number, source in enumerate((text, text.replace(before, after), text)):
        path = tmp_path / f"a_view_{number}.py"
        path.write_text(source)
        spec = spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = module_from_spec(spec)
        spec.loader.exec_module(module)
        found.add(module.Counts().fingerprint())
        del sys.modules[path.stem]
    assert len(found) == 2


def test_a_rebuild_that_was_cut_off_goes_on_where_it_was(log, run, tables):
    """V6."""
    for _ in range(1200):
        log.append([said("words")])
    first = run(follow=False)
    while first.step():
        pass
    first.rebuild()
    first.step()
    second = run(follow=False)
    second.rebuild()
    assert second.status(0)[0].building_position == 500
    while second.step():
        pass
    assert rows(tables) == {"session:s": (1200, "words")}


def test_a_view_can_be_made_anew_again_and_again(log, run, tables):
    """V6."""
    log.append([said("words")])
    runner = run(follow=False)
    for _ in range(3):
        while runner.step():
            pass
        runner.rebuild(["counts"])
    assert rows(tables) == {"session:s": (1, "words")}


def test_views_of_another_log_are_made_anew(log, run, tables, tmp_path):
    """V1: a file that was copied beside another log, or a log that was restored from an older backup."""
    log.append([said("words")])
    runner = run()
    assert runner.wait(1, 10)
    runner.stop()
    with EventLog(tmp_path / "other.db") as other:
        other.append([said("other words", "session:other")])
        runner = ViewRunner(other, SQLiteTables(tmp_path / "views.db"), [Counts()])
        runner.step()
        runner.stop()
    assert rows(tables) == {"session:other": (1, "other words")}


def test_views_that_nobody_has_made_yet_can_be_rebuilt(log, run, tables):
    """V6: a store that was opened a moment ago."""
    log.append([said("words")])
    run(follow=False).rebuild()
    assert run().wait(1, 10)
    assert rows(tables) == {"session:s": (1, "words")}


def test_a_rebuild_of_a_view_nobody_knows_is_refused(run):
    with pytest.raises(ValueError, match="no view 'nothing'; there are counts"):
        run().rebuild(["nothing"])


def test_a_table_that_the_view_does_not_have_is_named(log, run, caplog):
    """V5: a slip of the pen in a view's SQL is told in words, and not as a syntax error."""

    class Misspelt(Counts):
        def apply(self, tables, events):
            tables.execute("INSERT INTO {count} VALUES (?, 1, '')", (events[0].stream,))

    log.append([said("one")])
    assert run(Misspelt()).wait(1, 10)
    assert "the view has no table {count}; its tables are counts" in caplog.text


def test_a_view_with_one_column_is_verified(log, run, tables):
    class Streams(View):
        name = "streams"
        tables: ClassVar = {"streams": ("CREATE TABLE {streams} (stream TEXT PRIMARY KEY)",)}

        def apply(self, tables, events):
            new = "INSERT INTO {streams} VALUES (?) ON CONFLICT (stream) DO NOTHING"
            tables.executemany(new, [(each.stream,) for each in events])

        def forget(self, tables, streams):
            tables.executemany("DELETE FROM {streams} WHERE stream = ?", [(each,) for each in streams])

    for stream in ("session:b", "session:a", "session:b"):
        log.append([said("words", stream)])
    view = Streams()
    assert run(view).wait(3, 10)
    assert view.contents(tables) == {"streams": [("session:a",), ("session:b",)]}


def test_a_view_that_was_typed_at_a_prompt_has_a_fingerprint():
    typed = "from tests.views.support import Counts\nclass Typed(Counts): pass\nprint(Typed().fingerprint())"
    done = subprocess.run([sys.executable], input=typed, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[0-9a-f]{32}1\n", done.stdout)


def test_who_waits_does_not_wait_for_the_runner_to_rest(log, run, monkeypatch):
    """V4: it rests so that appends go first, but not from one who asks."""
    for name in ("_GATHER_SECONDS", "_LONGEST_REST", "_REST"):
        monkeypatch.setattr(f"projections.views.runner.{name}", 10_000.0)
    runner = run()
    for number in range(3):
        log.append([said(f"words {number}")])
        assert runner.wait(log.last_position, 20)
