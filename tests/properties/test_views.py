"""Views over random histories of all commands are a fresh fold of the log, whoever applied which batch (V3, V6, V7)."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engine import SessionCatalog, SessionStore
from engine.domain.errors import EngineError
from engine.log.sqlite.tables import SQLiteTables
from projections.views import catchup
from projections.views.catalogue import Catalogue
from projections.views.runner import ViewRunner
from projections.views.search import Search
from projections.views.usage import Usage
from projections.views.verify import verify_views
from tests.chance import SOAK
from tests.faults.disk import memory_folder
from tests.properties.model import EPOCH
from tests.properties.test_store_machine import JUMPS, SOURCES, ZONE, messages
from tests.properties.workers import source_of

RUNNERS = 3

number = st.integers(0, 7)
several = st.lists(messages, max_size=4)
commands = st.one_of(
    st.tuples(st.sampled_from(["route", "route", "new", "reset", "switch", "prune"]), number, number),
    st.tuples(st.sampled_from(["append", "append", "append", "rewrite"]), number, several),
    st.tuples(st.sampled_from(["rewind", "rewind", "restore"]), number, st.integers(1, 3)),
    st.tuples(st.just("compress"), number, several),
    st.tuples(st.sampled_from(["fork", "end", "reopen", "title"]), number, number),
    st.tuples(st.just("spend"), number, st.sampled_from([None, 0.1, 0.2, 0.7])),
    st.tuples(st.sampled_from(["begin", "finish", "recover", "clock"]), number, number),
    st.tuples(st.sampled_from(["erase", "erase", "erase_session"]), number, st.integers(1, 60)),
    st.tuples(st.sampled_from(["archive", "put_back"]), number, number),
    st.tuples(st.sampled_from(["chat", "chat", "say", "say", "say", "extend"]), number, st.integers(-1, 7)),
    st.tuples(st.sampled_from(["branch", "copy", "rotate", "clear", "truncate", "shorten"]), number, number),
    st.tuples(st.sampled_from(["child", "orphan", "decide", "place", "delete", "leave"]), number, number),
    st.tuples(st.sampled_from(["start", "start", "done", "fail", "repair", "sweep"]), number, number),
    st.tuples(st.sampled_from(["follow"] * 4 + ["rebuild"]), st.integers(0, RUNNERS - 1), st.integers(1, 6)),
)


class History:
    """A store that is told random commands, and runners of its views as several processes have them."""

    def __init__(self, folder):
        self.now = EPOCH
        self.folder = folder
        self.archives = []
        self.store = SessionStore(folder, clock=lambda: self.now.astimezone(ZONE), synchronous="OFF", views=False)
        self.tokens = []
        self.catalog = SessionCatalog(self.store)
        self.tables = [SQLiteTables(folder / "views.db") for _ in range(RUNNERS)]
        self.runners = [ViewRunner(self.store.log, tables, self.kinds()) for tables in self.tables]
        self.route(0, 0)

    def kinds(self):
        return [Search(self.tables[0].text), Usage(lambda: ZONE), Catalogue(self.store.log.reader)]

    def key(self, n):
        entries = self.store.list_sessions()
        return entries[n % len(entries)].session_key

    def session(self, n):
        """A session of any lane, or one that nothing leads to any more."""
        found = sorted({each.stream for each in self.store.log.events() if each.stream.startswith("session:")})
        return found[n % len(found)].removeprefix("session:")

    def tell(self, command, n, argument):
        with contextlib.suppress(EngineError, ValueError, ZeroDivisionError):
            getattr(self, command)(n, argument)

    def route(self, n, _):
        self.store.get_or_create_session(source_of(SOURCES[n % len(SOURCES)]))

    def new(self, n, _):
        self.store.get_or_create_session(source_of(SOURCES[n % len(SOURCES)]), force_new=True)

    def reset(self, n, _):
        self.store.reset_session(self.key(n))

    def switch(self, n, other):
        self.store.switch_session(self.key(n), self.session(other))

    def prune(self, n, _):
        self.store.prune_old_entries(n / 4)

    def append(self, n, several):
        self.store.append_messages(self.session(n), several)

    def rewrite(self, n, several):
        self.store.rewrite_transcript(self.session(n), several)

    def rewind(self, n, turns):
        self.store.rewind_session(self.session(n), turns)

    def restore(self, n, _):
        self.store.restore_rewound(self.session(n))

    def compress(self, n, several):
        self.store.compress_session(self.session(n), None, several, covers=n % 3)

    def fork(self, n, _):
        self.store.fork_session(self.session(n))

    def end(self, n, _):
        self.store.end_session(self.session(n), "user_exit")

    def reopen(self, n, _):
        self.store.reopen_session(self.session(n))

    def title(self, n, _):
        self.store.set_session_title(self.session(n), "trip")

    def spend(self, n, cost):
        self.store.update_session(self.key(n), n, input_tokens=n, cost_usd=cost, model="m" if n % 2 else None)

    def begin(self, n, _):
        self.tokens.append(self.store.begin_turn(self.key(n)))

    def finish(self, n, _):
        self.store.end_turn(self.tokens.pop(n % len(self.tokens)))

    def recover(self, n, _):
        self.store.recover_interrupted_turns()

    def clock(self, n, _):
        self.now += timedelta(microseconds=JUMPS[n])

    def erase(self, n, distance):
        last = self.store.log.last_position
        positions = sorted({max(last - distance - each, 1) for each in range(n % 3 + 1)})
        self.store.log.erase(positions, actor="operator", reason="asked to")

    def erase_session(self, n, _):
        positions = [each.position for each in self.store.log.stream(f"session:{self.session(n)}")]
        self.store.log.erase(positions, actor="operator", reason="asked to")

    def archive(self, n, _):
        to = self.folder / f"{len(self.archives)}.archive"
        if self.store.archive(self.now + timedelta(n), to).archive:
            self.archives.append(to)

    def put_back(self, n, _):
        self.store.restore(self.archives[n % len(self.archives)])

    def chat(self, _n, _):
        self.catalog.new_session()

    def say(self, n, time):
        """Add a message to the visible list, with a time of its own or none, of a person or a tool."""
        chat = self.catalog.get_session(self.session(n))
        role = ("user", "assistant", "tool")[n % 3]
        told = {"role": role, "content": f"words {n}", **({} if time < 0 else {"timestamp": 1000.0 * time})}
        self.catalog.save_messages(chat.session_id, [*chat.messages, told])

    def extend(self, n, time):
        self.say(n, time)
        chat = self.catalog.get_session(self.session(n))
        *before, last = chat.messages
        added = {"_ts": 500.0 * time} if time % 2 else {f"k{time}": 1}
        self.catalog.save_messages(chat.session_id, [*before, {**last, **added}])

    def branch(self, n, at):
        self.catalog.branch_session(self.session(n), at=at if at % 2 else None)

    def copy(self, n, _):
        self.catalog.duplicate_session(self.session(n))

    def rotate(self, n, other):
        self.catalog.rotate_session(self.session(n), f"other_{other}")

    def clear(self, n, _):
        self.catalog.clear_session(self.session(n))

    def truncate(self, n, keep):
        self.catalog.truncate_session(self.session(n), keep)

    def shorten(self, n, _):
        self.catalog.compress_session(self.session(n), [{"role": "user", "content": "so far", "timestamp": 4000}])

    def child(self, n, other):
        self.catalog.set_attributes(self.session(n), parent_session_id=self.session(other))

    def orphan(self, n, other):
        self.catalog.set_attributes(self.session(n), parent_session_id=f"other_{other}" if other % 2 else None)

    def leave(self, n, _):
        self.store.end_session(self.session(n), "cli_close")

    def decide(self, n, other):
        self.catalog.set_attributes(self.session(n), model=f"m{other}", source_tag="cron" if other == 7 else "cli")

    def place(self, n, other):
        self.catalog.pin_session(self.session(n), bool(other % 2))
        self.catalog.archive_session(self.session(n), bool(other % 3))

    def delete(self, n, other):
        if other < 3:
            self.catalog.delete_session(self.session(n))

    def start(self, n, other):
        self.catalog.start_turn(self.session(n), f"s{other}", "words" if other % 2 else None)

    def working(self, n, other):
        """A session with an open turn."""
        if self.catalog.get_session(self.session(n)).active_stream_id is None:
            self.start(n, other)
        return self.catalog.get_session(self.session(n))

    def done(self, n, other):
        chat = self.working(n, other)
        told = [*chat.messages, {"role": "assistant", "content": "done", "timestamp": 100 * other}]
        self.catalog.finish_turn(chat.session_id, chat.active_stream_id, told, input_tokens=other)

    def fail(self, n, other):
        chat = self.working(n, other)
        self.catalog.fail_turn(chat.session_id, chat.active_stream_id, "it broke")

    def repair(self, _n, _):
        self.catalog.repair_stale_turns(grace_seconds=0)

    def sweep(self, n, _):
        self.catalog.sweep_drafts(n)

    def follow(self, runner, steps):
        for _ in range(steps):
            self.runners[runner].step()

    def rebuild(self, runner, steps):
        self.follow(runner, 1)
        self.runners[runner].rebuild()
        self.follow(runner, steps)

    def difference(self):
        while self.runners[0].step():
            pass
        found = verify_views(self.store.log, self.tables[0], self.kinds(), lambda: SQLiteTables(":memory:"))
        assert found.positions == dict.fromkeys(("search", "usage", "catalogue"), self.store.log.last_position)
        return found.difference

    def close(self):
        for runner in self.runners:
            runner.stop()
        self.store.close()


@pytest.fixture
def small_batches(monkeypatch):
    """Batches end in the middle of everything."""
    monkeypatch.setattr(catchup, "BATCH", 7)


@settings(max_examples=40 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(told=st.lists(commands, min_size=5, max_size=80))
def test_every_view_is_the_fold_of_the_log_whatever_was_commanded(small_batches, told):
    """V3, V6, V7, V16: three runners take turns, rebuilds come in between; payloads are erased, archived, restored."""
    with memory_folder() as folder, contextlib.closing(History(folder)) as history:
        for command in told:
            history.tell(*command)
        assert history.difference() is None
        assert history.store.verify().ok


@settings(max_examples=30 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(told=st.lists(commands, min_size=40, max_size=80))
def test_every_row_of_the_list_is_what_its_session_says_whatever_was_commanded(small_batches, told):
    """W5, W6, W11, W12: but for the chains, whose title and start are those of their heads."""
    with memory_folder() as folder, contextlib.closing(History(folder)) as history:
        for command in told:
            history.tell(*command)
        rows = history.catalog.all_sessions(include_hidden=True)
        listed = {each for row in rows for each in (row["session_id"], row.get("_lineage_root_id"))}
        for row in rows:
            own = history.catalog.get_session(row["session_id"], metadata_only=True).compact()
            differs = {name for name in own if row.get(name) != own[name]}
            allowed = {"session_source", "source_label", "parent_session_id", "profile"}
            assert differs <= (allowed | {"title", "created_at"} if "_lineage_tip_id" in row else allowed)
        assert len(rows) == len({row["session_id"] for row in rows})
        chains = [row for row in rows if "_lineage_tip_id" in row]
        assert all(row["_lineage_tip_id"] == row["session_id"] for row in chains)
        assert listed
