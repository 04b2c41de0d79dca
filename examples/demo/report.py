"""The report of the demo, read from the log alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from engine.domain import events as e
from engine.log.envelope import Envelope


def show(label: str, value: object, note: str = "") -> None:
    print(f"  {label:<34}{value!s:>12}  {note}".rstrip())


class Report:
    """Counts per lane, and every stored message."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self.lanes: dict[str, Counter[str]] = defaultdict(Counter)
        self.resets: dict[str, Counter[str]] = defaultdict(Counter)
        self.messages: Counter[tuple[str, str]] = Counter()
        self.live: dict[str, set[str]] = defaultdict(set)
        self.most_live = 0
        self._lane_of: dict[str, str] = {}
        self._key_of: dict[str, str] = {}
        for envelope in envelopes:
            kind, _, name = envelope.stream.partition(":")
            if kind == "lane":
                self._on_lane(name, envelope.event)
            elif kind == "session":
                self._on_session(name, envelope.event)

    def _on_lane(self, lane_id: str, event: object) -> None:
        if isinstance(event, e.LaneRouted) and event.key is not None:
            self._key_of[lane_id] = event.key
        lane = self._key_of[lane_id]
        match event:
            case e.LaneReset():
                self.resets[lane][event.cause] += 1
            case e.ResumeCleared():
                self.lanes[lane]["resumed"] += 1

    def _on_session(self, session_id: str, event: object) -> None:
        if isinstance(event, e.SessionCreated):
            self._lane_of[session_id] = event.lane or ""
        lane = self._lane_of[session_id]
        match event:
            case e.SessionCreated():
                self.lanes[lane]["sessions"] += 1
                self.live[lane].add(session_id)
            case e.SessionEnded() | e.SessionCompressed():
                self.lanes[lane]["compressed"] += isinstance(event, e.SessionCompressed)
                self.live[lane].discard(session_id)
            case e.TurnBegun():
                self.lanes[lane]["turns"] += 1
            case e.TurnInterrupted():
                self.lanes[lane]["cut off"] += 1
            case e.MessageAppended():
                self.lanes[lane]["messages"] += 1
                self.messages[session_id, event.message_id or ""] += 1
        self.most_live = max(self.most_live, len(self.live[lane]))

    def total(self, what: str) -> int:
        return sum(counts[what] for counts in self.lanes.values())

    def print_table(self) -> None:
        columns = ("sessions", "messages", "turns", "compressed", "cut off", "resumed")
        print(f"  {'platform':<10}{'lane':<29}{' '.join(columns)}  resets")
        for lane, counts in sorted(self.lanes.items()):
            numbers = " ".join(f"{counts[name]:>{len(name)}}" for name in columns)
            resets = ", ".join(f"{count} {cause}" for cause, count in sorted(self.resets[lane].items()))
            print(f"  {lane.split(':')[2]:<10}{lane:<29}{numbers}  {resets}".rstrip())
