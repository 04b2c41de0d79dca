"""Items as text: a table, records of one field a line where a table would not fit, or lines of a verb's own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple

from replay.cli.screen import Screen
from replay.cli.text import safe, shown

Item = Mapping[str, Any]
Part = tuple[str, str]
"""A piece of a line, and its style."""
Line = Sequence[Part]

_GAP = 2
_MEASURED = 500
"""Rows that say how wide the columns of a pipe are; those that follow are not waited for."""
_LEAST, _COMFORT = 16, 34
"""The least width of a column that is cut, and the one it should have before others are left out."""


class Column(NamedTuple):
    """A column of a table: the item's field, and how it is shown."""

    field: str
    title: str = ""
    style: str = ""
    right: bool = False
    wide: bool = False
    """True if it is cut where there is no room."""
    tail: bool = False
    """True if it is cut at its beginning: the end of a key says more."""
    of: Callable[[Item], Any] | None = None
    """Returns what it shows, if that is no field of its own."""
    rank: int = 0
    """Where there is no room, the column of the highest rank is left out first; one of rank 0 never."""

    @property
    def heading(self) -> str:
        """Return its title."""
        return self.title or self.field.replace("_", " ")

    def cell(self, item: Item) -> str:
        """Return what it shows of an item."""
        return shown(item.get(self.field) if self.of is None else self.of(item))


class Table(NamedTuple):
    """Items in a table of these columns; of the fields that no column shows, other formats tell."""

    columns: Sequence[Column]


class Records(NamedTuple):
    """Items as records: a field a line."""

    columns: Sequence[Column]


class Lines(NamedTuple):
    """Items in lines that a verb makes of them."""

    lines: Callable[[Item], Iterable[Line]]


Layout = Table | Records | Lines


def write(items: Iterable[Item], layout: Layout, screen: Screen, out: Callable[[str], object]) -> None:
    """Write items as text; nothing of them reaches the terminal that it would act upon."""
    match layout:
        case Lines(lines):
            _write_lines((line for item in items for line in lines(item)), screen, out)
        case Records(columns):
            _write_lines(_records(items, columns), screen, out)
        case Table(columns):
            _write_table(items, columns, screen, out)


def _write_lines(lines: Iterable[Line], screen: Screen, out: Callable[[str], object]) -> None:
    if not screen.looked_at:
        for line in lines:
            out("".join(safe(text, "\t") for text, _ in line).rstrip() + "\n")
        return
    from rich.text import Text

    console = screen.console()
    for line in lines:
        text = Text.assemble(*((safe(text, "\t"), style) for text, style in line))
        hang = _hang(line) if text.cell_len > screen.width else 0
        if not 0 < hang <= screen.width // 2:
            console.print(text, soft_wrap=False)
            continue
        head, rest = text.divide([hang])
        for number, part in enumerate(rest.wrap(console, screen.width - hang)):
            console.print(Text.assemble(head if number == 0 else " " * hang, part), soft_wrap=True)


def _hang(line: Line) -> int:
    """Return where a line goes on that is too long: below what follows its label, or the spaces it begins with."""
    labels = list(takewhile(lambda part: part[0].endswith(" "), line[:-1]))
    if labels:
        return sum(len(text) for text, _ in labels)
    return len(line[0][0]) - len(line[0][0].lstrip()) if line else 0


def _records(items: Iterable[Item], columns: Sequence[Column]) -> Iterator[Line]:
    width = max(len(column.heading) for column in columns)
    for number, item in enumerate(items):
        if number:
            yield []
        for column in columns:
            cell = column.cell(item)
            if cell:
                yield [(f"{column.heading:<{width}}  ", "dim"), (cell, column.style)]


def _write_table(
    items: Iterable[Item], columns: Sequence[Column], screen: Screen, out: Callable[[str], object]
) -> None:
    from rich.cells import cell_len

    rest = iter(items)
    first = list(islice(rest, _MEASURED))
    columns = [column for column in columns if any(column.cell(item) for item in first)]
    natural = {
        column: max(cell_len(column.heading), *(cell_len(column.cell(item)) for item in first)) for column in columns
    }
    if not columns:
        return
    if not screen.looked_at:
        widths = [0 if column.wide and column is columns[-1] else natural[column] for column in columns]
        out(_aligned([column.heading for column in columns], columns, widths))
        for item in chain(first, rest):
            out(_aligned([column.cell(item) for column in columns], columns, widths))
        return
    fitting = _fitting(natural, screen.width)
    lines = _table_lines(chain(first, rest), fitting) if fitting else _records(chain(first, rest), columns)
    _write_lines(lines, screen, out)


def _fitting(natural: Mapping[Column, int], width: int) -> dict[Column, int]:
    """Return columns and widths that fit a line: columns are left out, then wide ones cut; none if that is no use."""
    kept = dict(natural)
    for column in sorted((column for column in natural if column.rank), key=lambda column: -column.rank):
        if _line(min(size, _COMFORT) if each.wide else size for each, size in kept.items()) > width:
            del kept[column]
    over = _line(kept.values()) - width
    for column in sorted((column for column in kept if column.wide), key=lambda column: -kept[column]):
        cut = min(max(over, 0), max(kept[column] - _LEAST, 0))
        kept[column] -= cut
        over -= cut
    return kept if over <= 0 else {}


def _line(widths: Iterable[int]) -> int:
    """Return how wide a line of such columns is."""
    found = list(widths)
    return sum(found) + _GAP * (len(found) - 1)


def _table_lines(items: Iterable[Item], widths: Mapping[Column, int]) -> Iterator[Line]:
    def line(texts: Iterable[str], styles: Iterable[str]) -> Line:
        parts: list[Part] = []
        for text, style, (column, width) in zip(texts, styles, widths.items(), strict=True):
            parts += [(" " * _GAP, "")] if parts else []
            parts.append((_padded(text, width, column), style))
        return parts

    yield line([column.heading for column in widths], ["bold"] * len(widths))
    yield [("─" * _line(widths.values()), "dim")]
    for item in items:
        yield line([column.cell(item) for column in widths], [column.style for column in widths])


def _padded(text: str, width: int, column: Column) -> str:
    """Return a text of exactly so many cells; an ellipsis stands where it was cut."""
    from rich.cells import cell_len, set_cell_size

    length = cell_len(text)
    if length > width and column.tail:
        while cell_len(text) >= width:
            text = text[1:]
        return "…" + set_cell_size(text, width - 1)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    fill = " " * (width - length)
    return fill + text if column.right else text + fill


def _aligned(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    from rich.cells import cell_len

    cells = []
    for text, column, width in zip(row, columns, widths, strict=True):
        fill = " " * max(width - cell_len(text), 0)
        cells.append(fill + text if column.right else text + fill)
    return (" " * _GAP).join(cells).rstrip() + "\n"
