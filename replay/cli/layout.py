"""Items as text: a table, records of one field a line where a table would not fit, or lines of a verb's own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
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
_LEAST = 16


class Column(NamedTuple):
    """A column of a table: the item's field, and how it is shown."""

    field: str
    title: str = ""
    style: str = ""
    right: bool = False
    wide: bool = False
    """True if it is cut where there is no room, because what begins it says enough."""
    of: Callable[[Item], Any] | None = None
    """Returns what it shows, if that is no field of its own."""

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
        console.print(Text.assemble(*((safe(text, "\t"), style) for text, style in line)), soft_wrap=False)


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
    rest = iter(items)
    first = [[column.cell(item) for column in columns] for item in islice(rest, _MEASURED)]
    if not first:
        return
    rows = chain(first, ([column.cell(item) for column in columns] for item in rest))
    kept = [number for number, _ in enumerate(columns) if any(row[number] for row in first)]
    columns = [columns[number] for number in kept]
    from rich.cells import cell_len

    cells = [[row[number] for number in kept] for row in first]
    natural = [
        max(cell_len(column.heading), *(cell_len(row[at]) for row in cells)) for at, column in enumerate(columns)
    ]
    if not screen.looked_at:
        widths = [0 if column.wide and at == len(columns) - 1 else natural[at] for at, column in enumerate(columns)]
        out(_aligned([column.heading for column in columns], columns, widths))
        for row in rows:
            out(_aligned([row[number] for number in kept], columns, widths))
        return
    widths = _fitting(columns, natural, screen.width)
    if not widths:
        texts = ({column.heading: row[number] for column, number in zip(columns, kept, strict=True)} for row in rows)
        shown_as = [column._replace(field=column.heading, title="", of=None) for column in columns]
        _write_lines(_records(texts, shown_as), screen, out)
        return
    _write_lines(_table_lines((([row[at] for at in kept]) for row in rows), columns, widths), screen, out)


def _fitting(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Return widths that fit a line, the wide columns cut to what is left; none if there is no room for them."""
    left = width - _GAP * (len(columns) - 1) - sum(natural)
    widths = list(natural)
    for at in sorted((at for at, column in enumerate(columns) if column.wide), key=lambda at: -natural[at]):
        if left < 0:
            cut = min(-left, max(natural[at] - _LEAST, 0))
            widths[at] -= cut
            left += cut
    return widths if left >= 0 else []


def _table_lines(rows: Iterable[list[str]], columns: Sequence[Column], widths: Sequence[int]) -> Iterator[Line]:
    gap: Part = (" " * _GAP, "")

    def line(texts: Sequence[str], styles: Sequence[str]) -> Line:
        parts: list[Part] = []
        for text, style, column, width in zip(texts, styles, columns, widths, strict=True):
            parts += [gap] if parts else []
            parts.append((_padded(text, width, column.right), style))
        return parts

    yield line([column.heading for column in columns], ["bold"] * len(columns))
    yield [("─" * (sum(widths) + _GAP * (len(widths) - 1)), "dim")]
    for row in rows:
        yield line(row, [column.style for column in columns])


def _padded(text: str, width: int, right: bool = False) -> str:
    """Return a text of exactly so many cells; what is cut ends with an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    fill = " " * (width - length)
    return fill + text if right else text + fill


def _aligned(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    from rich.cells import cell_len

    cells = []
    for text, column, width in zip(row, columns, widths, strict=True):
        fill = " " * max(width - cell_len(text), 0)
        cells.append(fill + text if column.right else text + fill)
    return (" " * _GAP).join(cells).rstrip() + "\n"
