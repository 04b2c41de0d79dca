"""The database, its WAL or the index of the WAL taken away under running writers: nothing acknowledged is lost unseen.

The writers are processes. Each looks before an append whether all three files are there: an append to a log that
has lost one must be refused. What was acknowledged before is there when the log is opened again, also if the writer
is killed as soon as it was refused; only what was in a database that is gone is gone with it.
"""

import json
import os
import random
import time
from pathlib import Path

import pytest

from engine.log import EventLog, StorageError
from tests.chance import SEED, SOAK
from tests.faults.children import Child, message

ROUNDS = 2 * SOAK


def take_away(file: Path, how: str) -> None:
    if how == "removed":
        file.unlink()
    else:
        other = file.with_name("another file")
        other.write_bytes(b"")
        other.replace(file)


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("suffix", ["-wal", "-shm", ""], ids=["wal", "shm", "database"])
def test_a_file_that_is_taken_away_under_a_running_writer(tmp_path: Path, suffix: str, how: str) -> None:
    chance = random.Random(f"{SEED} {suffix} {how}")
    for number in range(ROUNDS):
        path, report = tmp_path / f"{number}.db", tmp_path / f"{number}.json"
        with Child("append_until_refused", path, report) as child:
            assert child.said() == "open"
            time.sleep(chance.uniform(0.0, 0.05))
            take_away(Path(f"{path}{suffix}"), how)
            assert child.said() == "refused"
            if number % 2:
                child.tell()
                child.end()
        told = json.loads(report.read_text())
        assert (told["code"], told["blind"]) == ("storage", []), told["error"]
        assert f"{path}{suffix} was" in told["error"]
        if suffix:
            with EventLog(path) as log:
                assert set(told["acknowledged"]) <= {envelope.command for envelope in log.events()}
                assert log.verify().ok


def test_a_log_is_not_opened_without_the_wal_that_others_write_to(tmp_path: Path) -> None:
    """The index of the WAL tells of frames that the new WAL has not: what is read and moved would be nothing."""
    path = tmp_path / "log.db"
    with EventLog(path) as log:
        log.append([message(f"m-{number}", "session:a") for number in range(50)])
        os.unlink(f"{path}-wal")  # noqa: PTH108
        with Child("open_and_append", path, "1") as other:
            code, said = other.said()
        assert code == "storage"
        assert f"{path}-wal" in said
        with pytest.raises(StorageError, match="-wal was"):
            log.append([message("more", "session:a")])
    with EventLog(path) as log:
        assert log.last_position == 50
        assert log.verify().ok


def test_a_process_without_the_common_index_stops_before_it_writes(tmp_path: Path) -> None:
    """After the index was removed another process makes one of its own, and both would write at the same place."""
    path = tmp_path / "log.db"
    with EventLog(path) as log:
        log.append([message("first", "session:a")])
        os.unlink(f"{path}-shm")  # noqa: PTH108
        with Child("open_and_append", path, "20") as other:
            assert other.said() == ["done", 21]
            with pytest.raises(StorageError, match="-shm was"):
                log.append([message("of the first", "session:a")])
            other.tell()
            other.end()
    with EventLog(path) as log:
        assert log.last_position == 21
        assert log.verify().ok
