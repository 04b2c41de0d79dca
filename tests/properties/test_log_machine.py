"""Random histories against a model in plain Python."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.domain.encoding import Erased
from engine.domain.events import MessageAppended
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import ConflictError
from tests.chance import SOAK

streams = st.sampled_from(["a", "b", "c"])


class Heads:
    """An inline projection: each stream's last version and number of events."""

    def create(self, transaction):
        transaction.execute("CREATE TABLE IF NOT EXISTS heads (stream TEXT PRIMARY KEY, version INTEGER, n INTEGER)")

    def apply(self, transaction, events):
        for envelope in events:
            transaction.execute(
                "INSERT INTO heads VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET version = ?2, n = n + 1",
                (envelope.stream, envelope.version),
            )


class LogMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.now = 1000
        self.model = []  # (stream, version, text or None if erased, time)
        self.logs = [self.open()]
        self.turn = 0

    def open(self):
        path = Path(self.folder) / "log.db"
        return EventLog(path, synchronous="OFF", clock=lambda: self.now, inline=[Heads()])

    @property
    def log(self):
        self.turn += 1
        return self.logs[self.turn % len(self.logs)]

    def head(self, stream):
        return max((version for name, version, _, _ in self.model if name == stream), default=0)

    def recorded(self, stream, text):
        self.model.append((stream, self.head(stream) + 1, text, self.now))

    @rule(stream=streams, text=st.text(max_size=5), following=st.booleans())
    def append(self, stream, text, following):
        version = NEXT_VERSION if following else self.head(stream) + 1
        positions = self.log.append([Envelope(stream, version, MessageAppended(message={"content": text}))])
        self.recorded(stream, text)
        assert positions == [len(self.model)]

    @rule(names=st.lists(streams, min_size=2, max_size=5))
    def append_many(self, names):
        envelopes = [Envelope(name, NEXT_VERSION, MessageAppended(message={"content": name})) for name in names]
        assert len(self.log.append(envelopes)) == len(names)
        for name in names:
            self.recorded(name, name)

    @rule(stream=streams, off=st.sampled_from([-1, 0, 2, 3]))
    def append_at_a_wrong_version(self, stream, off):
        head = self.head(stream)
        version = head + off
        if version < 0 or (head == 0 and version in (0, 1)):
            return
        envelopes = [
            Envelope("other", NEXT_VERSION, MessageAppended(message={})),
            Envelope(stream, version, MessageAppended(message={})),
        ]
        with pytest.raises(ConflictError) as caught:
            self.log.append(envelopes)
        assert caught.value.actual == (head or None)

    @rule(stream=streams)
    def fail(self, stream):
        def command(transaction):
            transaction.append([Envelope(stream, NEXT_VERSION, MessageAppended(message={}))])
            raise KeyError("no")

        with pytest.raises(KeyError):
            self.log.transact(command)

    @rule(seconds=st.integers(-500, 500))
    def move_the_clock(self, seconds):
        self.now = max(1, self.now + seconds)

    @rule()
    def reopen(self):
        self.logs.pop(0).close()
        self.logs.append(self.open())

    @rule()
    def open_another(self):
        if len(self.logs) < 2:
            self.logs.append(self.open())

    @rule(data=st.data())
    def erase(self, data):
        candidates = [n for n, row in enumerate(self.model, 1) if row[0] != "log"]
        if not candidates:
            return
        position = data.draw(st.sampled_from(candidates))
        stream, version, text, time = self.model[position - 1]
        erased = self.log.erase([position], actor="ada", reason="asked")
        assert erased == ([] if text is None else [position])
        if erased:
            self.model[position - 1] = (stream, version, None, time)
            self.recorded("log", "erasure")

    @invariant()
    def events_equal_the_model(self):
        for log in self.logs:
            found = list(log.events())
            assert [(e.stream, e.version, e.time) for e in found] == [(s, v, t) for s, v, _, t in self.model]
            assert [e.position for e in found] == list(range(1, len(found) + 1))
            for envelope, (stream, _, text, _) in zip(found, self.model, strict=True):
                if text is None:
                    assert isinstance(envelope.event, Erased)
                elif stream != "log":
                    assert envelope.event.message["content"] == text

    @invariant()
    def times_are_found(self):
        for time in (self.now - 1, self.now, self.now + 300, self.now - 300):
            expected = max((n for n, row in enumerate(self.model, 1) if row[3] <= time), default=0)
            assert self.log.position_at(time) == expected

    @invariant()
    def the_inline_projection_equals_the_fold(self):
        expected = {name: (self.head(name), sum(row[0] == name for row in self.model)) for name, *_ in self.model}
        found = {name: (version, n) for name, version, n in self.log.query("SELECT * FROM heads")}
        assert found == expected
        for name, (version, _) in expected.items():
            assert self.log.version(name) == version

    def teardown(self):
        try:
            found = self.log.verify()
            assert found.ok, found
            assert found.events == len(self.model)
        finally:
            for log in self.logs:
                log.close()
            shutil.rmtree(self.folder)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=30 * SOAK,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
