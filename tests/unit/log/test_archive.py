"""The file of an archive (V16): what is read is what was written, or an error says what is wrong."""

import json
from datetime import UTC, datetime

import pytest

from engine.log import archive
from engine.log.archive import read_archive, write_archive
from engine.log.errors import ArchiveError

LOG, MADE = b"\1" * 16, datetime(2026, 7, 1, tzinfo=UTC)
RECORDS = [(n, json.dumps({"message": {"content": f"words {n} \u2028 \U0001f600"}})) for n in range(1, 8)]


def written(path, records=RECORDS):
    path.touch()
    return write_archive(path, LOG, MADE, iter(records))


def read(path):
    return [record for block in read_archive(path, LOG) for record in block]


def test_what_is_read_is_what_was_written_in_blocks(tmp_path, monkeypatch):
    """V16."""
    monkeypatch.setattr(archive, "BLOCK_EVENTS", 3)
    found = written(tmp_path / "a")
    assert [len(block) for block in read_archive(tmp_path / "a", LOG)] == [3, 3, 1]
    assert read(tmp_path / "a") == RECORDS
    assert found.events == 7
    assert found.payload_bytes == sum(len(payload.encode()) for _, payload in RECORDS)
    assert found.file_bytes == (tmp_path / "a").stat().st_size


def test_a_block_is_bounded_by_bytes_too(tmp_path, monkeypatch):
    """V16: it is what is moved in one transaction."""
    monkeypatch.setattr(archive, "BLOCK_BYTES", 100)
    written(tmp_path / "a", [(n, "x" * 60) for n in range(4)])
    assert [len(block) for block in read_archive(tmp_path / "a", LOG)] == [2, 2]


def test_an_archive_without_events_is_one(tmp_path):
    """V16: all of it may have been erased."""
    written(tmp_path / "a", [])
    assert read(tmp_path / "a") == []


@pytest.mark.parametrize("at", range(0, 400, 3))
def test_a_change_of_any_byte_is_noticed(tmp_path, at):
    """V16."""
    written(tmp_path / "a")
    data = bytearray((tmp_path / "a").read_bytes())
    at %= len(data)
    data[at] ^= 4
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ArchiveError):
        read(tmp_path / "a")


@pytest.mark.parametrize("line", [b'{"block":1,"events":1,"bytes":99999999999999,"digest":""}\n', b"\xff\n", b"{}\n"])
def test_a_line_that_cannot_be_is_refused_without_reading_what_it_says(tmp_path, line):
    """V16."""
    written(tmp_path / "a", [])
    head = (tmp_path / "a").read_bytes().split(b"\n")[0]
    (tmp_path / "a").write_bytes(head + b"\n" + line)
    with pytest.raises(ArchiveError, match="cut or was changed"):
        read(tmp_path / "a")
