"""Results of the parts, kept after each shard, so that a run that is stopped loses nothing."""

import os
import platform
from collections import Counter
from pathlib import Path

import apsw
import msgspec

from tests.torture.parts import PARTS, Part, Shard


class PartResult(msgspec.Struct):
    """A part as far as it has come."""

    name: str
    scale: float
    machine: str
    shards: dict[int, Shard] = {}

    @property
    def part(self) -> Part:
        return PARTS[self.name]

    @property
    def complete(self) -> bool:
        return len(self.shards) == self.part.shards(self.scale)

    @property
    def findings(self) -> list[str]:
        return [f"shard {number}: {each}" for number, shard in self.shards.items() for each in shard.findings]

    @property
    def counts(self) -> dict[str, float]:
        """Numbers of all shards, added up; of the slowest and the largest, the most."""
        found: Counter[str] = Counter()
        for shard in self.shards.values():
            for name, count in shard.counts.items():
                found[name] = (
                    max(found[name], count) if name.startswith(("slowest", "largest")) else found[name] + count
                )
        return dict(found)

    @property
    def broken(self) -> list[str]:
        """The bars that do not hold, in words."""
        found = [] if self.complete else [f"{len(self.shards)} of {self.part.shards(self.scale)} shards were run"]
        if self.findings:
            found.append(f"{len(self.findings)} findings")
        counts = self.counts
        return found + [words for words, holds in self.part.bars.items() if not (counts and holds(counts))]


def machine() -> str:
    """Say what the numbers were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    versions = f"CPython {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {system}, {versions}"


def load(path: Path, name: str, scale: float) -> PartResult:
    """Return what a part came to so far; nothing, if it was run at another scale."""
    if path.exists():
        found = msgspec.json.decode(path.read_bytes(), type=PartResult)
        if found.scale == scale:
            return found
    return PartResult(name, scale, machine())


def save(path: Path, result: PartResult) -> None:
    """Keep it, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
    draft.replace(path)
