"""The page that a run writes: a table of everything compared, and a plot of routing against the number of lanes."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.compare import HEAD, METHOD, Line, Summary, duration

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 170, 40, 60
_COLOURS = ("#0b6e4f", "#74b49b", "#c0392b", "#e59866")


@dataclass
class Page:
    """The page that `make bench-peers` leaves in the repository."""

    machine: str
    summaries: list[Summary] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        (folder / "results.md").write_text(self.markdown())
        curves = {name: points for summary in self.summaries for name, points in summary.curves.items()}
        if curves:
            (folder / "routing.svg").write_text(plot(curves))

    def markdown(self) -> str:
        lines = [line for summary in self.summaries for line in summary.lines]
        notes = [*self.notes, *(note for summary in self.summaries for note in summary.notes)]
        return "\n".join(
            [
                "# Benchmarks of the session store",
                "",
                f"Written by `make bench-peers` on {datetime.now(UTC):%Y-%m-%d}. Figures are of one machine;",
                "the ratios are what to look at.",
                "",
                *_table(lines),
                "",
                "![Cost of routing an existing lane against the number of lanes](routing.svg)",
                "",
                "## Method",
                "",
                *METHOD.splitlines(),
                "",
                *(f"- {note}" for note in notes),
                "",
                "## Machine and versions",
                "",
                *(f"- {line}" for line in self.machine.splitlines()),
                *(f"- {name} {version}" for name, version in sorted(self.versions.items())),
                "",
                "## Durability of each",
                "",
                "Everybody as they come: no setting was changed.",
                "",
                *(f"- {name}: {setting}" for name, setting in self.settings.items()),
                "",
            ]
        )


def _table(lines: list[Line]) -> list[str]:
    rows = [list(vars(line).values()) for line in (HEAD, *lines)]
    rows.insert(1, ["---"] * len(rows[0]))
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]


def plot(curves: dict[str, dict[int, float]]) -> str:
    """Seconds against lanes, both logarithmic, as SVG."""
    points = [point for curve in curves.values() for point in curve.items()]
    across = _Axis([lanes for lanes, _ in points], _LEFT, _WIDTH - _RIGHT)
    up = _Axis([seconds for _, seconds in points], _HEIGHT - _BOTTOM, _TOP)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(middle, 22, "Route an existing lane: median time", "middle", 15),
        _text(middle, _HEIGHT - 14, "lanes", "middle"),
    ]
    for exponent in across.decades:
        x = across(10.0**exponent)
        parts += [_line((x, _TOP), (x, _HEIGHT - _BOTTOM)), _text(x, _HEIGHT - _BOTTOM + 20, f"{10**exponent:,}")]
    for exponent in up.decades:
        y = up(10.0**exponent)
        parts += [_line((_LEFT, y), (_WIDTH - _RIGHT, y)), _text(_LEFT - 8, y + 4, duration(10.0**exponent), "end")]
    for colour, (name, curve) in zip(_COLOURS, curves.items(), strict=False):
        places = [(across(lanes), up(seconds)) for lanes, seconds in sorted(curve.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
        parts.append(_text(places[-1][0] + 10, places[-1][1] + 4, name, "start", colour=colour))
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """A logarithmic scale over whole decades."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        logs = [math.log10(value) for value in values]
        self._low, self._high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
        self._start, self._end = start, end
        self.decades = range(self._low, self._high + 1)

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{words}</text>'
