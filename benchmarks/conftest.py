"""Parts that the benchmarks share: a folder on a real disk, a summary per file, and the page they may write."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.compare import METHOD, Summary, describe
from benchmarks.gateways import build, megabytes

HERE = Path(__file__).parent
LANES = (10, 1_000, 100_000)
COLD_LANES, COLD_MESSAGES = 10_000, 98
COLD_EVENTS = COLD_LANES * (2 + COLD_MESSAGES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-results", action="store_true", help="write benchmarks/results.md and routing.svg")


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    path = HERE / ".tmp"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def page(folder: Path, request: pytest.FixtureRequest) -> Iterator[results.Page]:
    found = results.Page(describe(folder))
    print(f"\n{found.machine}\n{METHOD}")
    yield found
    if request.config.getoption("--write-results"):
        found.write(HERE)


@pytest.fixture(scope="module")
def summary(page: results.Page) -> Iterator[Summary]:
    started = time.perf_counter()
    result = Summary()
    yield result
    result.notes.append(f"this part of the run took {time.perf_counter() - started:.0f} s")
    result.show()
    page.summaries.append(result)


@pytest.fixture(scope="session")
def gateways(folder: Path) -> dict[int, Path]:
    """Stores with few and with many lanes, by their number."""
    found = {lanes: folder / f"lanes-{lanes}" for lanes in LANES}
    for lanes, path in found.items():
        build(path, lanes)
    return found


@pytest.fixture(scope="session")
def veteran(folder: Path, page: results.Page) -> Path:
    """A store that has been at work for long: 10,000 lanes and 1,000,000 events."""
    path = folder / "veteran"
    took = build(path, COLD_LANES, COLD_MESSAGES)
    size = megabytes(path)
    page.notes.append(
        f"the store of {COLD_EVENTS:,} events ({size:.0f} MB) was built in {took:.0f} s at synchronous OFF in large "
        "commands; it is read through the operating system's page cache, which cannot be emptied here"
    )
    return path
