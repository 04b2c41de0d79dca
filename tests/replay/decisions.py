"""A store that is told random commands under changing reset policies: histories for what asks about decisions."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from engine import GatewayConfig, Platform, SessionResetPolicy, SessionStore, acting
from engine.domain.errors import EngineError
from tests.faults.disk import memory_folder
from tests.properties.test_store_machine import JUMPS, SOURCES, STARTS, ZONE
from tests.properties.workers import source_of

MINUTES = (1, 30, 120, 1440)
HOURS = (0, 2, 3, 4, 23)

number = st.integers(0, 6)
policies = st.builds(
    SessionResetPolicy,
    mode=st.sampled_from(["none", "idle", "daily", "both"]),
    at_hour=st.sampled_from(HOURS),
    idle_minutes=st.sampled_from(MINUTES),
)
configs = st.builds(
    GatewayConfig,
    default_reset_policy=policies,
    reset_by_type=st.dictionaries(st.sampled_from(["dm", "group"]), policies, max_size=1),
    reset_by_platform=st.dictionaries(st.sampled_from([Platform.TELEGRAM, Platform.SLACK]), policies, max_size=2),
)
commands = st.one_of(
    st.tuples(st.just("route"), number, number),
    st.tuples(st.just("route"), number, number),
    st.tuples(st.just("clock"), st.integers(0, len(JUMPS) - 1), number),
    st.tuples(st.just("clock"), st.integers(0, len(JUMPS) - 1), number),
    st.tuples(
        st.sampled_from(["busy", "suspend", "resume", "resumed", "reset", "new", "switch", "spend"]), number, number
    ),
    st.tuples(
        st.sampled_from(["say", "end", "finalize", "compress", "fork", "undo", "rewrite", "title"]), number, number
    ),
    st.tuples(st.sampled_from(["begin", "finish", "recover", "prune", "notices", "model"]), number, number),
    st.tuples(st.sampled_from(["erase", "erase_lane"]), number, number),
    st.tuples(st.just("open"), configs, st.booleans()),
)
histories = st.tuples(configs, st.sampled_from(STARTS), st.lists(commands, min_size=5, max_size=60))


History = tuple[GatewayConfig, Any, list[tuple[str, Any, Any]]]


class Told:
    """A store and everything it was told."""

    def __init__(self, folder: Path, config: GatewayConfig, start: Any) -> None:
        self.folder = folder
        self.now = start
        self.working: set[str] = set()
        self.tokens: list[str] = []
        self.store: SessionStore
        self._start(config)
        self.route(0, 0)

    def _start(self, config: GatewayConfig) -> None:
        self.store = SessionStore(
            self.folder, config, self.working.__contains__, clock=lambda: self.now, synchronous="OFF", views=False
        )

    def tell(self, command: str, which: Any, other: Any) -> None:
        with contextlib.suppress(EngineError, ValueError, IndexError, ZeroDivisionError):
            getattr(self, command)(which, other)

    def key(self, which: int) -> str:
        keys = sorted(entry.session_key for entry in self.store.list_sessions())
        return keys[which % len(keys)]

    def sessions(self) -> list[str]:
        """Return the sessions in the order of their beginnings, which no random id decides."""
        began = dict(self.store.log.query("SELECT stream, min(position) FROM log GROUP BY stream"))
        found = [name for (name,) in self.store.log.query("SELECT session_id FROM sessions")]
        return sorted(found, key=lambda name: began[f"session:{name}"])

    def session(self, which: int) -> str:
        found = self.sessions()
        return found[which % len(found)]

    def open(self, config: GatewayConfig, crash: bool) -> None:
        if crash:
            self.store._say_closed = lambda: None  # type: ignore[method-assign]
        self.store.close()
        self._start(config)

    def busy(self, which: int, _: int) -> None:
        self.working ^= {self.key(which)}

    def route(self, which: int, _: int) -> None:
        self.store.get_or_create_session(source_of(SOURCES[which % len(SOURCES)]))

    def new(self, which: int, _: int) -> None:
        self.store.get_or_create_session(source_of(SOURCES[which % len(SOURCES)]), force_new=True)

    def clock(self, which: int, _: int) -> None:
        self.now = (self.now.astimezone() + timedelta(microseconds=JUMPS[which])).astimezone(ZONE)

    def suspend(self, which: int, _: int) -> None:
        self.store.suspend_session(self.key(which))

    def resume(self, which: int, _: int) -> None:
        self.store.mark_resume_pending(self.key(which))

    def resumed(self, which: int, _: int) -> None:
        self.store.clear_resume_pending(self.key(which))

    def reset(self, which: int, _: int) -> None:
        with acting("ada", reason="/new"):
            self.store.reset_session(self.key(which))

    def switch(self, which: int, other: int) -> None:
        self.store.switch_session(self.key(which), self.session(other))

    def spend(self, which: int, tokens: int) -> None:
        self.store.update_session(self.key(which), tokens, input_tokens=tokens, model="m")

    def say(self, which: int, other: int) -> None:
        said = [{"role": "user", "content": f"{which}"}, {"role": "assistant", "content": "</script><!--\u2028"}]
        self.store.append_messages(self.session(which), said[: other % 2 + 1])

    def end(self, which: int, other: int) -> None:
        self.store.end_session(self.session(which), ["agent_close", "user_exit", "idle"][other % 3])

    def finalize(self, which: int, _: int) -> None:
        self.store.set_expiry_finalized(self.key(which))

    def compress(self, which: int, other: int) -> None:
        summary = [{"role": "system", "content": "so far"}]
        self.store.compress_session(self.session(which), None, summary, covers=other % 3)

    def fork(self, which: int, _: int) -> None:
        self.store.fork_session(self.session(which))

    def undo(self, which: int, other: int) -> None:
        if other % 3:
            self.store.rewind_session(self.session(which), other)
        else:
            self.store.restore_rewound(self.session(which))

    def rewrite(self, which: int, other: int) -> None:
        session_id = self.session(which)
        kept = self.store.load_transcript(session_id)[other % 2 :]
        self.store.rewrite_transcript(session_id, [*kept, {"role": "user", "content": "rewritten"}])

    def title(self, which: int, _: int) -> None:
        self.store.set_session_title(self.session(which), "trip")

    def begin(self, which: int, other: int) -> None:
        self.tokens.append(self.store.begin_turn(self.key(which), lease_seconds=None if other % 2 else 60.0))

    def finish(self, which: int, other: int) -> None:
        self.store.end_turn(self.tokens.pop(which % len(self.tokens)), error="no answer" if other % 2 else None)

    def recover(self, _: int, __: int) -> None:
        self.store.recover_interrupted_turns()

    def prune(self, which: int, _: int) -> None:
        self.store.prune_old_entries(which / 2)

    def notices(self, which: int, _: int) -> None:
        self.store.consume_notices(self.key(which))

    def model(self, which: int, other: int) -> None:
        self.store.set_model_override(self.key(which), {"model": f"m{other}"} if other % 2 else None)

    def erase(self, which: int, other: int) -> None:
        last = self.store.log.last_position
        self.store.log.erase([max(last - 3 * which - other, 1)], actor="desk", reason="asked for", request="R-1")

    def erase_lane(self, which: int, _: int) -> None:
        self.store.erase(lane=self.key(which), reason="asked for")


@contextlib.contextmanager
def told(history: History, kind: type[Any] = Told, after: Callable[[Any], None] = lambda _: None) -> Iterator[Any]:
    """A store that was told a history, everything of it in its log; `after` each command something is looked at."""
    config, start, orders = history
    with memory_folder() as folder:
        story = kind(folder, config, start)
        try:
            for order in orders:
                story.tell(*order)
                after(story)
            story.store.runner.touches.flush()
            yield story
        finally:
            story.store.close()
