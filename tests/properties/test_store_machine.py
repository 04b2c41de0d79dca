"""All commands of a store in random order, from two stores of this process and one of another, against the model."""

import json
import logging
import shutil
import tempfile
from datetime import datetime

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.domain import lane as lanes, session as heads
from engine.domain.events import LaneAdvanced
from engine.domain.streams import LANE, SESSION, lane_stream, session_stream
from engine.log.envelope import NEXT_VERSION, Envelope
from projections.inline.lanes import find_lane
from projections.inline.sessions import find_session
from tests.chance import SOAK
from tests.properties import model
from tests.properties.model import Model, lane_key, micros
from tests.properties.workers import ZONE, Here, There, policy_of, source_of

SOURCES = (
    {"platform": "telegram", "chat_id": "100", "user_id": "u1", "chat_name": "Ann"},
    {"platform": "telegram", "chat_id": "200", "user_id": "u2", "chat_type": "group"},
    {"platform": "telegram", "chat_id": "200", "user_id": "u5", "chat_type": "group", "chat_name": "all"},
    {"platform": "discord", "chat_id": "300", "user_id": "u1", "chat_type": "channel"},
    {"platform": "slack", "chat_id": "400", "user_id": "u3", "chat_type": "group", "thread_id": "t9"},
    {"platform": "whatsapp", "chat_id": "49170", "user_id": "u6"},
    {"platform": "signal", "chat_id": "500", "user_id": "u4"},
)
STARTS = (datetime(2026, 3, 28, 22, tzinfo=ZONE), datetime(2026, 10, 24, 22, tzinfo=ZONE))
"""The evenings before the clocks change."""
MINUTE = 60_000_000
JUMPS = [1, 1_000_000, MINUTE, 29 * MINUTE, 31 * MINUTE, 65 * MINUTE, 180 * MINUTE, 300 * MINUTE]
JUMPS += [
    1440 * MINUTE,
    4000 * MINUTE,
    -1,
    -5 * MINUTE,
    -61 * MINUTE,
    -1500 * MINUTE,
    5_000_000 * MINUTE,
    -5_000_000 * MINUTE,
]
REASONS = ["agent_close", "ws_orphan_reap", "session_reset", "user_exit"]
OVERRIDES = [None, {"model": "m-1", "api_key": "secret"}, {"provider": "p", "model": ""}, {"base_url": "http://h"}]
TABLES = ("lanes", "lane_sessions", "sessions", "turns", "message_ids")

sources = st.sampled_from(SOURCES)
any_session = st.integers(0, 3 * len(SOURCES))
leases = st.sampled_from([60.0, 4000.0, None])
texts = st.text(max_size=4) | st.sampled_from(["a\ud800", "nul\x00", '{"$text": 1}'])
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "user", "assistant", "tool"])},
    optional={
        "content": texts
        | st.none()
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.sampled_from(["a", "b c"])}), max_size=2)
        | st.dictionaries(st.sampled_from(["$text", "k"]), st.integers(-(2**70), 2**70), max_size=1),
        "message_id": st.sampled_from(["p1", "p2", "p3", "p\ud800"]),
        "extra": st.floats(allow_nan=False) | st.booleans(),
    },
)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.busy = set()
        self.now = micros(STARTS[0])
        self.model = Model(self.clock, policy_of, busy=self.busy)
        self.workers = {}
        self.crashed = []
        self.opened = 0
        self.tokens = []
        self.notes = []
        self.unwritten = {}
        logging.getLogger("engine.store").disabled = True  # it tells of every host that cannot say

    def clock(self):
        return (model.EPOCH + model.timedelta(microseconds=self.now)).astimezone(ZONE)

    # Workers: one is at work at a time, and what it has not written yet is written before the next one's turn

    @initialize(start=st.sampled_from(STARTS), speaking=st.lists(sources, min_size=2, max_size=5))
    def begin(self, start, speaking):
        self.now = micros(start)
        self.open(Here, True)
        for source in speaking:
            self.converse(source, "hello")

    def open(self, kind, per_user):
        self.opened += 1
        self.current = f"{kind.__name__} {self.opened}"
        self.workers[self.current] = kind(self.folder, per_user, self.now)

    @property
    def worker(self):
        return self.workers[self.current]

    @property
    def log(self):
        return next(worker for worker in self.workers.values() if isinstance(worker, Here)).store.log

    def call(self, name, *arguments, **named):
        for worker in self.workers.values():
            if isinstance(worker, Here):
                worker.now = self.now
        return self.worker.call(self.now, self.busy, name, *arguments, **named)

    def expect(self, found, rule, *arguments, **named):
        """Compare an answer with the model's; the answer."""
        try:
            expected = rule(*arguments, **named)
        except (
            model.UnknownSessionError,
            model.UnknownLaneError,
            model.SessionStateError,
            model.TurnInProgressError,
        ) as error:
            expected = {"raised": type(error).__name__}
        assert found == self.seen(expected)
        return found

    def seen(self, expected):
        """The model's answer, with an origin as sources write it."""
        if isinstance(expected, list):
            return [self.seen(item) for item in expected]
        if isinstance(expected, dict) and "origin" in expected:
            return expected | {"origin": source_of(expected["origin"]).to_dict()}
        return expected

    def same(self, name, *arguments, **named):
        """Run a command that the model has by the same name."""
        return self.expect(self.call(name, *arguments, **named), getattr(self.model, name), *arguments, **named)

    def written(self):
        """Everything that waits is written, and every lane is as it should be."""
        self.call("flush")
        self.same("list_sessions")
        self.unwritten.clear()

    @rule(kind=st.sampled_from([Here, Here, There]), per_user=st.booleans())
    def open_another(self, kind, per_user):
        if sum(isinstance(worker, kind) for worker in self.workers.values()) < (2 if kind is Here else 1):
            self.written()
            self.open(kind, per_user)

    @rule(n=st.integers(0, 2))
    def use_another(self, n):
        self.written()
        self.current = list(self.workers)[n % len(self.workers)]

    @rule()
    def close_and_reopen(self):
        worker = self.workers.pop(self.current)
        worker.close()
        self.model.closed.add((worker.process, self.current))
        self.unwritten.clear()
        self.open(type(worker), worker.per_user)
        self.keep_a_reader()

    @rule()
    def crash_and_reopen(self):
        """Only the last touches of the worker may be lost, and only they."""
        worker = self.workers.pop(self.current)
        worker.crash()
        if isinstance(worker, There):
            self.model.dead.add(worker.process)
        else:
            self.crashed.append(worker)
        self.open(type(worker), worker.per_user)
        self.keep_a_reader()
        for key, times in self.unwritten.items():
            ((found, state),) = self.log.query("SELECT updated_at, state FROM lanes WHERE key = ?", (key,))
            assert found in {*times, self.model.lanes[key]["updated_at"]}
            kept = json.loads(state)
            self.model.lanes[key] |= {name: kept.get(name, 0) for name in ("updated_at", "ahead_at", "before_leap")}
        self.written()

    def keep_a_reader(self):
        current = self.current
        if not any(isinstance(worker, Here) for worker in self.workers.values()):
            self.open(Here, True)
            self.current = current

    # The world

    @rule(jump=st.sampled_from(JUMPS))
    def move_the_clock(self, jump):
        self.now += jump

    @rule(source=sources)
    def work_or_rest(self, source):
        self.busy ^= {self.key(source)}

    def key(self, source):
        return lane_key(source, self.worker.per_user)

    def session(self, n):
        """A lane's session for a small number, else any there is; None without one."""
        known = list(self.model.sessions)
        here = self.model.peek_session_id(self.key(SOURCES[n % len(SOURCES)]))
        if here is not None and n < 2 * len(SOURCES):
            return here
        return known[n % len(known)] if known else None

    # Lanes

    @rule(source=sources, force_new=st.sampled_from([False] * 5 + [True]), touch=st.sampled_from([True] * 4 + [False]))
    def route(self, source, force_new, touch):
        key = self.key(source)
        before = self.model.lanes.get(key, {}).get("updated_at")
        found = self.call("get_or_create_session", source, force_new, touch=touch)
        self.expect(found, self.model.route, key, source, found["session_id"], force_new, touch)
        self.unwritten.setdefault(key, set()).add(before)

    @rule(source=sources, jump=st.sampled_from(JUMPS))
    def route_later(self, source, jump):
        self.now += jump
        self.route(source, False, True)

    @rule(source=sources, text=texts)
    def converse(self, source, text):
        """Do what most messages do."""
        self.route(source, False, True)
        session = self.model.peek_session_id(self.key(source))
        self.same("update_session", self.key(source), 1)
        self.append_to(session, [{"role": "user", "content": text}, {"role": "assistant", "content": "so?"}], one=False)
        self.unwritten.pop(self.key(source), None)

    @rule(
        source=sources,
        prompt=st.none() | st.integers(0, 2),
        tokens=st.integers(0, 9),
        cost=st.none() | st.sampled_from([0.0, 0.25, 1.5]),
    )
    def update(self, source, prompt, tokens, cost):
        counts = {"input_tokens": tokens, "cache_read_tokens": tokens % 2, "output_tokens": 1, "cache_write_tokens": 0}
        self.same("update_session", self.key(source), prompt, cost_usd=cost, **counts)
        self.unwritten.pop(self.key(source), None)

    @rule(source=sources)
    def suspend(self, source):
        self.same("suspend_session", self.key(source))

    @rule(source=sources, reason=st.sampled_from(["restart_timeout", "shutdown"]))
    def mark_resume(self, source, reason):
        self.same("mark_resume_pending", self.key(source), reason)

    @rule(source=sources)
    def clear_resume(self, source):
        self.same("clear_resume_pending", self.key(source))

    @rule(seconds=st.sampled_from([0, 120, 4000, 0.5]))
    def mark_recently_active(self, seconds):
        self.same("suspend_recently_active", seconds)

    @rule(source=sources, name=st.sampled_from([None, "", "fresh"]))
    def reset(self, source, name):
        key = self.key(source)
        found = self.call("reset_session", key, name)
        self.expect(found, self.model.reset_session, key, found and found["session_id"], name)
        self.unwritten.pop(key, None)

    @rule(source=sources, n=any_session)
    def switch(self, source, n):
        self.same("switch_session", self.key(source), self.session(n) or "nobody")
        self.unwritten.pop(self.key(source), None)

    @rule(source=sources)
    def switch_to_a_ghost(self, source):
        self.same("switch_session", self.key(source), "nobody")

    @rule(source=sources, override=st.sampled_from(OVERRIDES))
    def override_the_model(self, source, override):
        self.same("set_model_override", self.key(source), override)
        self.same("get_model_override", self.key(source))

    @rule(source=sources)
    def finalize_expiry(self, source):
        self.same("is_session_expired", self.key(source))
        self.same("set_expiry_finalized", self.key(source))
        self.unwritten.pop(self.key(source), None)

    @rule(
        days=st.sampled_from([None, 0, -1, 0.01, 0.01, 1, 2]), jump=st.sampled_from([0, 0, 20 * MINUTE, 3000 * MINUTE])
    )
    def prune(self, days, jump):
        self.now += jump
        self.same("prune_old_entries", days)
        if days is not None and days > 0:
            self.unwritten.clear()

    @rule(source=sources)
    def consume_notices(self, source):
        self.same("consume_notices", self.key(source))

    @rule(minutes=st.sampled_from([None, 0, 30, 1440.5]))
    def look(self, minutes):
        self.same("list_sessions", minutes)

    # Turns

    @rule(source=sources, lease=leases)
    def begin_turn(self, source, lease):
        key = self.key(source)
        found = self.call("begin_turn", key, lease_seconds=lease)
        self.expect(found, self.model.begin_turn, key, found, (self.worker.process, self.current), lease)
        if isinstance(found, str):
            self.tokens.append(found)

    @precondition(lambda self: self.tokens)
    @rule(n=st.integers(0, 3), lease=leases)
    def renew_turn(self, n, lease):
        self.same("renew_turn", self.tokens[-1 - n % len(self.tokens)], lease_seconds=lease)

    @precondition(lambda self: self.tokens)
    @rule(n=st.integers(0, 3))
    def end_turn(self, n):
        self.same("end_turn", self.tokens[-1 - n % len(self.tokens)])

    @rule()
    def recover_turns(self):
        found = self.call("recover_interrupted_turns")
        self.expect(found, self.model.recover_interrupted_turns, self.worker.process)

    # Sessions

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, reason=st.sampled_from(REASONS))
    def end(self, n, reason):
        self.same("end_session", self.session(n), reason)

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session)
    def reopen_session(self, n):
        self.same("reopen_session", self.session(n))

    @precondition(lambda self: self.model.sessions)
    @rule(
        n=any_session,
        summary=st.lists(messages, max_size=2),
        covers=st.none() | st.integers(0, 3),
        child=st.sampled_from([None, None, "child", "20260101_000000_deadbeef"]),
    )
    def compress(self, n, summary, covers, child):
        session = self.session(n)
        found = self.call("compress_session", session, child, summary, covers=covers)
        new = child or (found if isinstance(found, str) else "")
        self.expect(found, self.model.compress_session, session, new, summary, covers)

    @rule(source=sources)
    def leave_a_lane_on_a_compressed_session(self, source):
        """As a program that is no store of ours might: a store never does."""
        key = self.key(source)
        here = self.model.sessions.get(self.model.peek_session_id(key))
        if here is None or here["relation"] != "compression":
            return
        self.written()
        event = LaneAdvanced(session_id=here["parent"], previous_session_id=here["session_id"])
        lane = find_lane(self.log.reader, key)
        stream = lane_stream(lane.lane_id)
        self.log.append([Envelope(stream, NEXT_VERSION, event, actor="another", command="advance")])
        self.model.lanes[key]["session_id"] = here["parent"]

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, at=st.sampled_from([None, "p1", "p2", "position", "message"]), m=st.integers(0, 9))
    def fork(self, n, at, m):
        session = self.session(n)
        history = self.model.placed(session)
        place = self.model.written
        if at == "position":
            notes = [note for note in self.notes if note[1] == session]
            if not notes:
                return
            at, _, history, place = notes[m % len(notes)]
        elif at is not None:
            if at == "message":
                if not history:
                    return
                at = history[m % len(history)][0]
            wanted = at if isinstance(at, str) else at.get("message_id")
            same = [i for i, (x, _) in enumerate(history) if (x.get("message_id") == wanted if wanted else x == at)]
            history = history[: same[-1] + 1] if same else None
            place = history[-1][1] if same else 0
        found = self.call("fork_session", session, at)
        if history is None:
            assert found == {"raised": "SessionStateError"}
        else:
            assert self.model.fork_session(session, found, history, place) == found

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, title=st.sampled_from([None, "trip", "trip #2", "trip #7", "other"]), auto=st.booleans())
    def title(self, n, title, auto):
        session = self.session(n)
        found = self.call("set_auto_title" if auto else "set_session_title", session, title)
        self.expect(found, self.model.set_title, session, title, auto)

    # Transcripts

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, message=messages)
    def append(self, n, message):
        self.append_to(self.session(n), [message], one=True)

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, several=st.lists(messages, max_size=4))
    def append_several(self, n, several):
        self.append_to(self.session(n), several, one=False)

    def append_to(self, session, several, one):
        if one:
            found = self.call("append_to_transcript", session, several[0])
            positions = [] if found is None else [found]
        else:
            positions = self.call("append_messages", session, several)
        assert len(positions) == self.model.append_messages(session, several)
        assert sorted(set(positions)) == positions
        if positions:
            tip = self.model.tip(session)
            self.notes.append((positions[-1], tip, self.model.placed(tip), self.model.written))

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, several=st.lists(messages, max_size=3))
    def rewrite(self, n, several):
        self.same("rewrite_transcript", self.session(n), several)

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session, turns=st.integers(-1, 4))
    def rewind(self, n, turns):
        self.same("rewind_session", self.session(n), turns)

    @precondition(lambda self: self.model.sessions)
    @rule(n=any_session)
    def restore(self, n):
        self.same("restore_rewound", self.session(n))

    @rule(name=st.sampled_from(["restore_rewound", "reopen_session", "fork_session"]))
    def name_an_unknown_session(self, name):
        assert self.call(name, "nobody") == {"raised": "UnknownSessionError"}
        self.same("load_transcript", "nobody")
        self.same("rewind_session", "nobody")

    # What holds after every step

    @invariant()
    def lanes_lead_where_they_should(self):
        for source in SOURCES if self.workers else ():
            self.same("peek_session_id", self.key(source))

    @invariant()
    def the_tables_are_the_fold_of_the_log(self):
        if not self.workers:
            return
        log, leading = self.log, {}
        for (key,) in log.query("SELECT key FROM lanes"):
            lane = find_lane(log.reader, key)
            if lane is not None:
                leading[lane.lane_id] = lane
        streams = {stream for (stream,) in log.query("SELECT DISTINCT stream FROM log")}
        for lane_id in {stream.removeprefix(LANE) for stream in streams if stream.startswith(LANE)}:
            upto = leading[lane_id].version if lane_id in leading else None  # a touch may be written while we look
            fold = lanes.Lane(lane_id)
            for envelope in log.stream(lane_stream(lane_id)):
                if upto is None or envelope.version <= upto:
                    fold = lanes.evolve(fold, envelope.event, envelope.time, envelope.version)
            assert leading.get(lane_id) == (None if fold.session_id is None else fold)
        assert {lane.key for lane in leading.values()} == self.model.lanes.keys()
        assert {stream for stream in streams if stream.startswith(SESSION)} == {
            session_stream(session) for session in self.model.sessions
        }

    @invariant()
    def sessions_equal_the_model(self):
        for session_id, session in self.model.sessions.items():
            head = heads.Session(session_id)
            for envelope in self.log.stream(session_stream(session_id)):
                head = heads.evolve(head, envelope.event, envelope.time, envelope.version)
            assert find_session(self.log.reader, session_id) == head
            store = next(worker for worker in self.workers.values() if isinstance(worker, Here)).store
            live = self.model.load_transcript(session_id)
            assert store.load_transcript(session_id) == live
            assert head.live == len(live)
            assert head.end_reason == session["end_reason"]

    @invariant()
    def the_newest_session_is_known_everywhere(self):
        if self.model.sessions:
            self.session_is_known(list(self.model.sessions)[-1])
            self.session_is_known(self.session(self.opened % len(SOURCES)))

    def session_is_known(self, session_id):
        session = self.model.sessions[session_id]
        live = self.model.load_transcript(session_id)
        assert self.call("load_transcript", session_id) == live
        assert self.call("get_session", session_id) == {
            "session_id": session_id,
            "conversation_id": session["conversation_id"],
            "session_key": session["lane"],
            "created_at": session["created_at"],
            "ended_at": session["ended_at"],
            "end_reason": session["end_reason"],
            "parent_session_id": session["parent"],
            "relation": session["relation"],
            "compressed_into": session["child"] if session["end_reason"] == "compression" else None,
            "title": session["title"],
            "message_count": len(live),
        }
        for message_id in ("p1", "p2", "p3", "p\ud800"):
            self.same("has_platform_message_id", session_id, message_id)
        entry = self.call("lookup_by_session_id", session_id)
        leading = [self.seen(self.model.entry(x)) for x in self.model.lanes.values() if x["session_id"] == session_id]
        assert entry in leading or (entry is None and not leading)

    # What holds in the end

    def teardown(self):
        try:
            if self.workers:
                self.in_the_end()
        finally:
            for worker in [*self.workers.values(), *self.crashed]:
                worker.close()
            shutil.rmtree(self.folder)
            logging.getLogger("engine.store").disabled = False

    def in_the_end(self):
        self.written()
        for session_id in self.model.sessions:
            self.session_is_known(session_id)
        assert self.call("has_any_sessions") == (len(self.model.sessions) > 1)
        log = self.log
        positions = [envelope.position for envelope in log.events()]
        assert positions == list(range(1, len(positions) + 1))
        assert all(envelope.actor and envelope.command for envelope in log.events())
        verification = log.verify()
        assert verification.ok, verification
        tables = self.tables()
        turns = {conversation: token for conversation, token, *_ in tables["turns"]}
        assert turns == {conversation: turn["token"] for conversation, turn in self.model.turns.items()}
        store = next(worker for worker in self.workers.values() if isinstance(worker, Here)).store
        found = store.verify()
        assert found.ok, found
        for _ in range(2):
            assert store.rebuild() == len(positions)
            assert self.tables() == tables
        assert store.quarantined() == []

    def tables(self):
        return {name: self.log.query(f"SELECT * FROM {name} ORDER BY 1, 2") for name in TABLES}


@pytest.fixture(scope="module", autouse=True)
def _child():
    yield
    There.end()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=100 * SOAK,
    stateful_step_count=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
