"""`docs/reliability.md`: what was tortured, how, how often, and what came of it. Every number comes from a run."""

import re
from collections.abc import Iterable
from datetime import timedelta
from textwrap import fill

from tests.chance import SEED
from tests.torture.parts import PARTS
from tests.torture.results import PartResult

_BEGINNING = """# Reliability

How this package is tortured, and what came of it. `make torture` runs all of it and writes this page; `make test` runs
the small form of each part with every change. What is promised is in [guarantees](explanation/guarantees.md).

`make torture SCALE=0.01` takes minutes instead of hours and leaves its page in build/torture, beside what was run so
far; `make torture PARTS="flips-wal simulation"` runs some parts. A run that was stopped goes on where it was, and the
exit status is 1 if anything was found.
"""

_NOT_COVERED = """## What is not covered

- **Hardware that lies.** The power is cut on a simulated disk that keeps what it said it had synced, and sectors of 512
  bytes are written wholly or not. A disk that acknowledges a sync too early loses what it wants.
- **The very last commit in a damaged WAL.** Its loss looks like a commit that never got through; only a published head
  shows it. So do a WAL that was cut, and a file that was replaced by an older one.
- **More than one flipped bit at a time**, and damage that somebody made on purpose: who can write the file can compute
  a new chain.
- **Other operating systems and network file systems.** All of it ran on Linux, on local disks.
- **Several machines.** One file belongs to one machine.
- **The interpreter and SQLite themselves.** The simulation interleaves threads at transactions, calls to the disk and
  caches, not within SQLite.
- **Time.** Nothing here ran longer than the minutes that are given, on a file of more than the events that are given.
"""


def render(results: list[PartResult]) -> str:
    """Return the page."""
    scale = max((result.scale for result in results), default=0.0)
    broken = [f"{result.name}: {each}" for result in results for each in result.broken]
    missing = [f"{name}: not run" for name in PARTS if name not in {result.name for result in results}]
    machines = sorted({result.machine for result in results})
    lines = [_BEGINNING, "## Results\n", *_verdict(scale, broken + missing), "", *(f"{each}.\n" for each in machines)]
    lines += ["| part | done | findings | shards | time |", "| --- | --- | --- | --- | --- |"]
    for result in results:
        done = f"{_number(result.counts.get(result.part.unit, 0))} {result.part.unit}"
        if result.part.unit not in result.counts:
            done = "; ".join(f"{_number(count)} {what}" for what, count in list(result.counts.items())[:2])
        lines.append(
            f"| [{result.name}](#{_anchor(result.part.title)}) | {done} | {len(result.findings)} "
            f"| {len(result.shards)} of {result.part.shards(result.scale)} | {_time(result)} |"
        )
    lines.append("")
    for result in results:
        lines += _section(result)
    return "\n".join([*lines, _NOT_COVERED])


def _verdict(scale: float, broken: list[str]) -> Iterable[str]:
    if broken:
        yield "**Not everything held:**\n"
        yield from (f"- {each}" for each in broken)
    else:
        yield "Every part was run in full and held." if scale == 1 else f"Every part held, at a scale of {scale:g}."


def _section(result: PartResult) -> list[str]:
    part = result.part
    lines = [f"## {part.title}\n", fill(part.method, 120) + "\n"]
    lines += ["| what | number |", "| --- | --- |"]
    lines += [f"| {what} | {_number(count)} |" for what, count in result.counts.items()]
    if "steps" in result.counts and result.counts.get("seconds"):
        lines.append(f"| steps per minute | {_number(result.counts['steps'] / result.counts['seconds'] * 60)} |")
    lines.append("")
    words = sorted({word for shard in result.shards.values() for word in shard.words})
    if words:
        lines.append(f"Used: {', '.join(words)}.\n")
    lines += [f"- {words}: {'**no**' if words in result.broken else 'yes'}" for words in part.bars]
    lines += [f"- FOUND, {each.splitlines()[0]:.300}" for each in result.findings[:10]]
    if part.bars or result.findings:
        lines.append("")
    dates = sorted({shard.date for shard in result.shards.values()})
    commits = sorted({shard.commit for shard in result.shards.values()})
    ran = f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else "".join(dates)
    run = (
        f"Base seed {SEED}; {len(result.shards)} of {part.shards(result.scale)} shards, of {part.shard:,} {part.unit} "
        f"at most; run on {ran} at commit {', '.join(commits)}. "
        f"Again: `python -m tests.torture --shard {part.name} N`."
    )
    return [*lines, fill(run, 120, break_on_hyphens=False) + "\n"]


def _number(count: float) -> str:
    return f"{count:,.0f}" if count == int(count) or count >= 1000 else f"{count:,.2f}"


def _time(result: PartResult) -> str:
    return str(timedelta(seconds=round(sum(shard.seconds for shard in result.shards.values()))))


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
