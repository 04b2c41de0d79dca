"""`what-if`: recorded history under another reset policy."""

import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from engine.domain.platforms import Platform
from engine.domain.policy import ResetMode
from replay.cli.completion import store_values
from replay.cli.layout import Item, Line, Lines
from replay.cli.output import page_of
from replay.cli.run import Run, verb
from replay.cli.text import shown
from replay.policies import WhatIf, policy_change, what_if as what_if_of
from replay.words import counted

_FIELDS = (
    "kind",
    "change",
    "lane",
    "platform",
    "position",
    "time",
    "recorded",
    "would_be",
    "gone",
    "added",
    "sentence",
)


@verb(
    "what-if",
    examples=(
        "sessions what-if --mode idle --idle-minutes 240",
        "sessions what-if --policy policy.toml --platform telegram -o json",
    ),
    pages=True,
)
@click.option("--mode", type=click.Choice(get_args(ResetMode)), help="When lanes are reset.")
@click.option("--idle-minutes", type=int, metavar="N", help="After how long a silence.")
@click.option("--at-hour", type=int, metavar="HOUR", help="At which hour of the day.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="JSON or TOML with the reset fields of a configuration.",
)
@click.option(
    "--platform", multiple=True, metavar="NAME", help="Only there; several times.", shell_complete=store_values
)
def what_if(
    run: Run,
    mode: str | None,
    idle_minutes: int | None,
    at_hour: int | None,
    policy: str | None,
    platform: tuple[str, ...],
) -> None:
    """Tell what another reset policy would have done.

    Every recorded message is judged again by the rules that routing uses: resets that would not have happened, and
    those that would, in total, by lane, and each with its time. What the log cannot know is said. A field that is not
    given stays as it was recorded; without any nothing changes.
    """
    change = policy_change(mode, idle_minutes, at_hour, None if policy is None else _read(Path(policy)))
    with run.log() as log:
        found = what_if_of(log, change, platforms=platform or None, zone=run.now.tzinfo, progress=run.progress.tell)
    run.output.page(page_of(_items(found), run.limit, run.cursor), Lines(_lines), "", _FIELDS)


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8")
        found = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file} is no {'TOML' if file.suffix == '.toml' else 'JSON'}: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file} has no policy: it must be a table of reset fields")
    by_platform = found.get("reset_by_platform")
    for name in by_platform if isinstance(by_platform, dict) else ():
        Platform.register(name)
    return found


def _items(found: WhatIf) -> Iterator[Item]:
    gone, added = len(found.gone), len(found.added)
    told = f"{counted(found.recorded, 'automatic reset')} of {counted(found.messages, 'message')}, "
    told += f"would be {found.would_be}: "
    told += f"{gone} would not have happened, {added} would have" if gone or added else "nothing changes"
    counts = {"recorded": found.recorded, "would_be": found.would_be, "gone": gone, "added": added}
    yield {"kind": "total", **counts, "sentence": told}
    for sentence in found.unknown:
        yield {"kind": "unknown", "sentence": sentence}
    for lane in found.lanes:
        yield {"kind": "lane", **msgspec.structs.asdict(lane)}
    changes = [
        (each, change)
        for change, resets in (("gone", found.gone), ("added", found.added), ("otherwise", found.otherwise))
        for each in resets
    ]
    for each, change in sorted(changes, key=lambda pair: pair[0].position):
        yield {"kind": "reset", "change": change, **msgspec.structs.asdict(each)}


_SIGNS = {"gone": ("- ", "green"), "added": ("+ ", "red"), "otherwise": ("~ ", "yellow")}


def _lines(item: Item) -> Iterable[Line]:
    match item["kind"]:
        case "total":
            yield [(item["sentence"], "bold")]
        case "unknown":
            yield [("not known: ", "yellow"), (item["sentence"], "dim")]
        case "lane":
            yield [(f"{item['lane']}  ", "cyan"), (f"{item['recorded']} → {item['would_be']} resets", "")]
        case _:
            sign, style = _SIGNS[item["change"]]
            yield [
                (sign, style),
                (f"@{item['position']:<7} ", "dim"),
                (f"{shown(item['time'])}  ", "green"),
                (f"{item['lane']}  ", "cyan"),
                (item["sentence"], ""),
            ]
