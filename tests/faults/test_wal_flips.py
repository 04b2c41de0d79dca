"""Single flipped bits in the WAL of a crashed log: whoever opens it is told of every commit that is lost by one.

Apart from the last commit: what is damaged there looks like a commit that never got through. Its flips are counted
apart. A WAL that was cut off looks like one that was never longer: only a published head shows that.
"""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.log import EventLog
from engine.log.errors import LogError
from tests.chance import SEED, SOAK
from tests.faults.children import message
from tests.faults.disk import memory_folder

FLIPS = 300 * SOAK
COMMITS = 40
HEADER, FRAME = 32, 24 + 4096
NOTICED, HARMLESS, LAST, SILENT = "noticed", "harmless", "in the last commit", "silent"


class Crash:
    """The files of a log as a crash leaves them: commits of one frame and of many in the WAL, none in the database."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.db"
        chance = random.Random(SEED)
        with EventLog(folder / "live.db") as log:
            for number in range(COMMITS):
                log.append(
                    [message(f"{number}-{each}", f"session:{number % 7}") for each in range(chance.choice((1, 1, 30)))]
                )
            self.events = log.last_position
            self.head = log.verify().head
            self.database, self.wal = (Path(f"{folder}/live.db{suffix}").read_bytes() for suffix in ("", "-wal"))
        frames = [self.wal[start : start + FRAME] for start in range(HEADER, len(self.wal), FRAME)]
        ends = [number for number, frame in enumerate(frames, 1) if any(frame[4:8])]
        assert len(ends) >= COMMITS
        self.last_commit = HEADER + ends[-2] * FRAME

    def left(self, wal: bytes) -> None:
        """Leave these files behind."""
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink()
        self.path.write_bytes(self.database)
        Path(f"{self.path}-wal").write_bytes(wal)

    def judge(self, offset: int, bit: int) -> str:
        """Return what a flipped bit comes to; the log is sound in any case."""
        damaged = bytearray(self.wal)
        damaged[offset] ^= 1 << bit
        self.left(damaged)
        try:
            with EventLog(self.path, synchronous="OFF") as log:
                position, kept = log.last_position, log.health().damaged_wal
                assert log.verify().ok
        except LogError:
            return NOTICED
        if kept is not None:
            assert Path(kept).read_bytes() == damaged
            return NOTICED
        if position == self.events:
            return HARMLESS
        return LAST if offset >= self.last_commit else SILENT


@pytest.fixture(scope="module")
def crash() -> Iterator[Crash]:
    logging.disable(logging.ERROR)  # hundreds of damaged WALs
    try:
        with memory_folder() as folder:
            yield Crash(folder)
    finally:
        logging.disable(logging.NOTSET)


def test_no_flipped_bit_loses_a_commit_unseen(crash: Crash) -> None:
    chance = random.Random(f"{SEED} flips")
    found = Counter(crash.judge(chance.randrange(len(crash.wal)), chance.randrange(8)) for _ in range(FLIPS))
    assert found[SILENT] == 0, found
    assert found[NOTICED] > FLIPS // 2, found


@pytest.mark.parametrize("offset", range(0, HEADER, 4))
def test_no_flipped_bit_of_the_header_loses_the_log_unseen(crash: Crash, offset: int) -> None:
    assert crash.judge(offset, 0) in (NOTICED, HARMLESS)


@pytest.mark.parametrize("field", range(0, 24, 4))
def test_no_flipped_bit_of_a_frames_own_header_loses_a_commit_unseen(crash: Crash, field: int) -> None:
    frames = (crash.last_commit - HEADER) // FRAME
    for number in [*range(0, frames, 9), frames - 1]:
        assert crash.judge(HEADER + number * FRAME + field, 0) == NOTICED


def test_a_wal_that_was_cut_off_is_seen_by_a_published_head_alone(crash: Crash) -> None:
    crash.left(crash.wal[: crash.last_commit // 2])
    with EventLog(crash.path) as log:
        assert log.last_position < crash.events
        assert log.health().damaged_wal is None
        assert log.verify().ok
        assert not log.verify(published=crash.head).ok
