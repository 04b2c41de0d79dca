"""`python -m tests.torture [PART…] [--scale 0.01] [--jobs N]`: everything that can go wrong, with big numbers.

Each part is cut into shards; a shard runs in a process of its own and is kept in `build/torture`, so a run that is
stopped goes on where it was. `--shard PART N` runs one alone. The exit status is 1 if anything was found.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.torture.page import render
from tests.torture.parts import PARTS, Part, Shard
from tests.torture.results import PartResult, load, save

ROOT = Path(__file__).parent.parent.parent
KEPT = ROOT / "build/torture"
DOCS = ROOT / "docs"
PATIENCE = 3 * 3600.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the whole of it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="shards that run at once")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the folder of what was run")
    parser.add_argument("--again", action="store_true", help="forget what was run before")
    parser.add_argument("--shard", nargs=2, metavar=("PART", "N"), help="run one shard and print what it came to")
    given = parser.parse_args(arguments)
    if given.shard:
        return one(PARTS[given.shard[0]], int(given.shard[1]), given.scale)
    unknown = set(given.parts) - PARTS.keys()
    if unknown or not given.scale > 0:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}" if unknown else "the scale must be more than 0")
    for name in given.parts or PARTS:
        path = given.kept / f"{name}.json"
        if given.again:
            path.unlink(missing_ok=True)
        run_part(load(path, name, given.scale), path, given.jobs)
    results = [load(given.kept / f"{name}.json", name, given.scale) for name in PARTS]
    page = write_page([result for result in results if result.shards], given.kept, given.scale)
    broken = [f"{result.name}: {each}" for result in results if result.shards for each in result.broken]
    print("\n".join([f"wrote {page}", *broken]), flush=True)
    return 1 if broken else 0


def one(part: Part, number: int, scale: float) -> int:
    """Run one shard here."""
    started = time.monotonic()
    shard = part.run_shard(number, scale)
    shard.seconds = round(time.monotonic() - started, 2)
    sys.stdout.write(msgspec.json.encode(shard).decode() + "\n")
    sys.stdout.flush()
    return 1 if shard.findings else 0


def run_part(result: PartResult, path: Path, jobs: int) -> None:
    """Run the shards that are not there yet, and keep each as soon as it is done."""
    part, total = result.part, result.part.shards(result.scale)
    missing = [number for number in range(total) if number not in result.shards]
    commit = _commit()
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(in_a_process, part, number, result.scale): number for number in missing}
        for done in as_completed(running):
            shard = done.result()
            shard.commit, shard.date = commit, f"{datetime.now(UTC):%Y-%m-%d}"
            result.shards[running[done]] = shard
            result.shards = dict(sorted(result.shards.items()))
            save(path, result)
            said = ", ".join(f"{count:,.0f} {what}" for what, count in list(result.counts.items())[:4])
            print(f"{part.name}: {len(result.shards)} of {total} shards; {said}; {len(result.findings)} findings")
            for finding in shard.findings[:3]:
                print(f"  FOUND: {finding:.1000}")
            sys.stdout.flush()


def in_a_process(part: Part, number: int, scale: float) -> Shard:
    """Run a shard in a process of its own: if it dies or hangs, that is a finding."""
    command = [sys.executable, "-m", "tests.torture", "--shard", part.name, str(number), "--scale", str(scale)]
    # The order of sets must not differ from run to run.
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Shard(findings=[f"it was not done after {PATIENCE / 3600:g} hours"], seconds=PATIENCE)
    lines = ended.stdout.splitlines()
    try:
        return msgspec.json.decode(lines[-1], type=Shard)
    except (IndexError, msgspec.DecodeError):
        return Shard(findings=[f"it ended with status {ended.returncode}: {ended.stderr[-1000:]}"])


def write_page(results: list[PartResult], kept: Path, scale: float) -> Path:
    """Write the page of a full run to the documentation, with its numbers beside it; any other to where it is kept."""
    folder = DOCS if scale == 1 and kept == KEPT else kept
    path = folder / "reliability.md"
    path.write_text(render(results))
    (folder / "reliability.json").write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    return path


def _commit() -> str:
    """Return which code it was; "+" if it was changed since."""
    git = ["git", "-C", str(ROOT)]
    try:
        head, changed = (
            subprocess.run([*git, *words], check=True, capture_output=True, text=True).stdout.strip()
            for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "engine", "projections", "tests"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+" if changed else head


if __name__ == "__main__":
    sys.exit(main())
