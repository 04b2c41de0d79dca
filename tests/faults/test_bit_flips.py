"""Single flipped bits in a closed store: each is detected by `verify`, or changes no answer. Silent ones: 0."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import CorruptLogError, SessionStore
from engine.reader import FILE_NAME
from tests.chance import SEED, SOAK
from tests.faults.disk import memory_folder
from tests.faults.flips import DETECTED, HARMLESS, SILENT, START, Specimen, ask_all, tally
from tests.gateway.support import FakeClock

FLIPS = 150 * SOAK
CHUNKS = 2


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


@pytest.fixture(scope="module")
def specimen(folder: Path) -> Specimen:
    logging.disable(logging.ERROR)  # hundreds of rows that are left out
    try:
        return Specimen(folder / "intact")
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_flipped_bit_is_silent(specimen: Specimen, folder: Path, chunk: int) -> None:
    """Reading raises nothing but the engine's own errors, and `verify` knows of every wrong answer."""
    damaged = folder / f"chunk-{chunk}"
    damaged.mkdir()
    judged = [specimen.judge(damaged, offset, bit) for offset, bit in specimen.flips(FLIPS, SEED + chunk)]
    found = tally(judged)
    assert [words for kind, words in judged if kind == SILENT] == []
    assert min(found[DETECTED], found[HARMLESS]) > FLIPS // 10, found


def test_a_definition_that_is_no_text_any_more_is_told(specimen: Specimen, folder: Path) -> None:
    """SQLite refuses to query the table, and the reason for that cannot be read either."""
    damaged = folder / "definition"
    damaged.mkdir()
    place = specimen.intact.index(b"metadata", specimen.intact.index(b"CREATE TABLE events"))
    kind, words = specimen.judge(damaged, place, 7)
    assert (kind, "definitions of the tables" in words) == (DETECTED, True), words


def test_a_store_with_a_flipped_bit_in_a_state_table_can_be_rebuilt(specimen: Specimen, folder: Path) -> None:
    """After `rebuild()`, which `verify` says to do, every answer is right again. Until then it closes well."""
    damaged = folder / "rebuilt"
    damaged.mkdir()
    rebuilt = 0
    for offset, bit in specimen.flips_in(("lanes", "sessions", "message_ids", "turns"), 40 * SOAK, SEED):
        specimen.flipped(damaged, offset, bit)
        try:
            store = SessionStore(damaged, clock=FakeClock(START), synchronous="OFF")
        except CorruptLogError:  # a page is not a page any more
            continue
        with store:
            found = store.verify()
            if found.ok or found.table is None:
                continue
            store.rebuild()
            assert store.verify().ok
            answers = ask_all(store)
            assert {name for name, answer in answers.items() if repr(answer) != repr(specimen.answers[name])} == set()
            rebuilt += 1
    assert rebuilt > 10


def test_a_copy_of_the_intact_file_is_verified(specimen: Specimen, folder: Path) -> None:
    """The instrument: nothing is found where nothing was changed."""
    copy = folder / "copy"
    copy.mkdir()
    shutil.copy(folder / "intact" / FILE_NAME, copy)
    with SessionStore(copy, clock=FakeClock(START)) as store:
        found = store.verify()
    assert found.ok
    assert found.state_rows > 100
