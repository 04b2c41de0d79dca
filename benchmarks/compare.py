"""Comparing two ways of doing the same in one run: rounds interleaved, a ratio per pair, medians."""

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw

Side = Callable[[], Any]

METHOD = """\
Method: rounds of baseline and ours alternate in one process (A B A B …); each pair of neighbours gives one
ratio; reported is the median of the ratios [and their quartiles]. The first pair is a warm-up and is
dropped. Garbage is collected before every timed side. Nothing fails because of a clock: a bar that is not
met is printed as NOT MET."""


@dataclass
class Line:
    """A line of the summary."""

    what: str
    baseline: str
    ours: str
    ratio: str = ""
    bar: str = ""
    verdict: str = ""


HEAD = Line("what", "baseline", "ours", "ratio [quartiles]", "bar", "verdict")


@dataclass
class Summary:
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    """Seconds against number of lanes, by name, for the plot."""

    def compare(self, what: str, compared: "Interleaved", kind: str, bar: float) -> None:
        """Add a comparison of times, or with ">=" of how many times faster ours is."""
        values = compared.ratios(faster=kind == ">=")
        shown = [duration(side.median) for side in (compared.baseline, compared.ours)]
        self.add(what, *shown, values[1], spread(values), bar, kind)

    def bound(self, what: str, ours: float, bar: float) -> None:
        """Add a time that has a bar by itself."""
        verdict = "met" if ours <= bar else "NOT MET"
        self.lines.append(Line(what, "-", duration(ours), "", f"<= {duration(bar)}", verdict))

    def tell(self, what: str, ours: str, baseline: str = "-", ratio: str = "") -> None:
        """Add a line that has no bar."""
        self.lines.append(Line(what, baseline, ours, ratio, "", "information"))

    def add(self, what: str, baseline: str, ours: str, ratio: float, spread: str, bar: float, kind: str) -> None:
        """Add a line with a bar: kind is "<=" or ">="; without a bar (0) it is for information."""
        met = ratio <= bar if kind == "<=" else ratio >= bar
        line = Line(what, baseline, ours, f"{times(ratio)} {spread}".strip())
        if bar:
            line.bar, line.verdict = f"{kind} {bar:g}x", "met" if met else "NOT MET"
        else:
            line.verdict = "information"
        self.lines.append(line)

    def show(self) -> None:
        rows = [list(vars(line).values()) for line in (HEAD, *self.lines)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        rows.insert(1, ["-" * width for width in widths])
        print("\n")
        for row in rows:
            print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for note in self.notes:
            print(f"  note: {note}")
        print()


@dataclass
class Timed:
    """The seconds per operation of each round of one side."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Interleaved:
    """Runs a baseline before each round that pytest-benchmark times, and keeps both times.

    `operations` is how many each side does per round; `between` tidies up outside of the timed part.
    """

    def __init__(
        self,
        baseline: Side,
        ours: Side,
        operations: tuple[int, int] = (1, 1),
        between: Side = lambda: None,
    ) -> None:
        self._sides = (baseline, ours)
        self._between = between
        self._operations = operations
        self._times: tuple[list[float], list[float]] = ([], [])

    def run(self, benchmark: Any, rounds: int) -> None:
        benchmark.pedantic(self._timed, args=(1,), setup=self._before, rounds=rounds, warmup_rounds=1, iterations=1)
        low, middle, high = self.ratios()
        benchmark.extra_info.update(ratio=middle, quartiles=[low, high], operations_per_round=self._operations[1])

    def _before(self) -> None:
        self._between()
        gc.collect()
        self._timed(0)
        self._between()
        gc.collect()

    def _timed(self, side: int) -> None:
        started = time.perf_counter()
        self._sides[side]()
        self._times[side].append((time.perf_counter() - started) / self._operations[side])

    @property
    def baseline(self) -> Timed:
        return Timed(self._kept(0))

    @property
    def ours(self) -> Timed:
        return Timed(self._kept(1))

    def _kept(self, side: int) -> list[float]:
        times = self._times[side]
        return times[1:] if len(times) > 1 else times

    def ratios(self, *, faster: bool = False) -> tuple[float, float, float]:
        """Quartiles of ours to baseline in time per operation, or with `faster`, of the throughputs."""
        pairs = zip(self.baseline.seconds, self.ours.seconds, strict=True)
        return quartiles([a / b if faster else b / a for a, b in pairs])


def times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 100 else f"{ratio:,.0f}x"


def spread(values: tuple[float, float, float]) -> str:
    return f"[{times(values[0])[:-1]}..{times(values[2])[:-1]}]"


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)]


def quartiles(values: list[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def file_system(folder: Path) -> str:
    """The type of the file system a folder is on."""
    found = ("", "unknown")
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    for line in mounts.read_text().splitlines():
        _device, where, kind, *_ = line.split()
        inside = where == "/" or folder.is_relative_to(where)
        if inside and len(where) >= len(found[0]):
            found = (where, kind)
    return found[1]


def fdatasync_seconds(folder: Path, times: int = 50) -> float:
    """The median time to make one 4 KiB write durable, over old content as in a WAL that was used before."""
    sync = getattr(os, "fdatasync", os.fsync)
    path = folder / "fdatasync"
    measured = []
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        for _ in range(times):
            os.pwrite(descriptor, b"x" * 4096, 0)
            started = time.perf_counter()
            sync(descriptor)
            measured.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(measured)


def describe(folder: Path) -> str:
    """The machine and the versions of this run."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("apsw", "msgspec", "eventsourcing"))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{platform.python_implementation()} {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
        f"{versions}, {os.cpu_count()} cores, load {load}\n"
        f"Files on {file_system(folder)}, 4 KiB fdatasync: {duration(fdatasync_seconds(folder))}"
    )
