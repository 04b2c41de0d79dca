"""The file of an archive: blocks of compressed payloads, each with a digest that covers all before it (V16).

    {"format":"session-engine archive","version":1,"log":"<the log's id>","made":"2026-07-01T12:00:00Z"}
    {"block":1,"events":500,"bytes":21034,"digest":"<64 hex digits>"}
    <21034 bytes: zlib, of lines [position, "payload"]>
    …
    {"end":true,"blocks":12,"events":5731,"digest":"<64 hex digits>"}

The first digest is BLAKE2b-256 of the first line; that of a block is of the digest before it, the block's number of
events as decimal text, and its bytes; that of the end is of the digest before it and the number of all events.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from engine.log.errors import ArchiveError

FORMAT, VERSION = "session-engine archive", 1
BLOCK_EVENTS, BLOCK_BYTES = 500, 2 * 1024 * 1024
"""A block is also what is moved in one transaction: some 20 ms under the write lock."""
_LINE = 1000
_LEVEL = 6

Record = tuple[int, str]
"""A position and the payload that was recorded there."""


class _Head(msgspec.Struct):
    format: str
    version: int
    log: str = ""
    made: str = ""


class _BlockLine(msgspec.Struct, forbid_unknown_fields=True):
    block: int
    events: int
    bytes: int
    digest: str


class _EndLine(msgspec.Struct, forbid_unknown_fields=True):
    end: bool
    blocks: int
    events: int
    digest: str


class Written(NamedTuple):
    """The size of an archive: events, bytes of their payloads, and bytes of the file."""

    events: int
    payload_bytes: int
    file_bytes: int


_encode = msgspec.json.encode
_decode_records = msgspec.json.Decoder(Record).decode_lines


def write_archive(path: Path, log_id: bytes, made: datetime, records: Iterable[Record]) -> Written:
    """Write records into a file that is there and empty; return how much it was."""
    events = size = blocks = 0
    with path.open("wb") as file:
        head = _Head(FORMAT, VERSION, log_id.hex(), made.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        line = _encode(head) + b"\n"
        file.write(line)
        digest = _digest(line)
        for block in _blocks(records):
            data = zlib.compress(b"\n".join(map(_encode, block)), _LEVEL)
            digest = _digest(bytes.fromhex(digest), str(len(block)).encode(), data)
            blocks += 1
            events += len(block)
            size += sum(len(payload.encode()) for _, payload in block)
            file.write(_encode(_BlockLine(blocks, len(block), len(data), digest)) + b"\n" + data + b"\n")
        last = _digest(bytes.fromhex(digest), str(events).encode())
        file.write(_encode(_EndLine(True, blocks, events, last)) + b"\n")
        return Written(events, size, file.tell())


def _blocks(records: Iterable[Record]) -> Iterator[list[Record]]:
    block: list[Record] = []
    size = 0
    for record in records:
        block.append(record)
        size += len(record[1])
        if len(block) == BLOCK_EVENTS or size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def read_archive(path: str | os.PathLike[str], log_id: bytes) -> Iterator[list[Record]]:
    """Yield the blocks of a log's archive, each checked; raise ArchiveError for one that is cut, changed or foreign."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed below, also if the iteration is given up
    except OSError as error:
        raise ArchiveError(f"cannot read the archive {path}: {error}; give the path of an archive") from error
    with file:
        try:
            yield from _read(file, path, log_id)
        except OSError as error:
            raise ArchiveError(f"the archive {path} cannot be read to its end: {error}; use another copy") from error


def _read(file: BinaryIO, path: object, log_id: bytes) -> Iterator[list[Record]]:
    line = file.readline(_LINE)
    _check_head(line, path, log_id)
    size = os.fstat(file.fileno()).st_size
    digest, blocks, events = _digest(line), 0, 0
    while True:
        told = _line(file, path)
        if isinstance(told, _EndLine):
            wanted = blocks, events, _digest(bytes.fromhex(digest), str(events).encode())
            if (told.blocks, told.events, told.digest) != wanted or file.read(1):
                raise _damaged(path, "its end does not fit what is before it")
            return
        if not 0 < told.bytes <= size - file.tell():
            raise _damaged(path, f"block {blocks + 1} is cut off")
        data = file.read(told.bytes)
        digest = _digest(bytes.fromhex(digest), str(told.events).encode(), data)
        blocks += 1
        if told.digest != digest or told.block != blocks or file.read(1) != b"\n":
            raise _damaged(path, f"block {blocks} is not what was written")
        records = _records(data, path, blocks)
        if len(records) != told.events:
            raise _damaged(path, f"block {blocks} does not have as many events as it says")
        events += len(records)
        yield records


def _check_head(line: bytes, path: object, log_id: bytes) -> None:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.MsgspecError, UnicodeError):
        head = _Head("", 0)
    if head.format != FORMAT:
        raise ArchiveError(f"{path} is no archive of a session log; give the path of a file that archive() wrote")
    if head.version > VERSION:
        raise ArchiveError(
            f"the archive {path} has version {head.version}, this package knows up to {VERSION}; "
            "upgrade session-engine to use it"
        )
    if head.log != log_id.hex():
        raise ArchiveError(f"the archive {path} is of another log, {head.log[:32]}; restore it into the log it is of")


def _line(file: BinaryIO, path: object) -> _BlockLine | _EndLine:
    line = file.readline(_LINE)
    if not line.endswith(b"\n"):
        raise _damaged(path, "it ends before its end")
    try:
        if line.startswith(b'{"end"'):
            return msgspec.json.decode(line, type=_EndLine)
        return msgspec.json.decode(line, type=_BlockLine)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _damaged(path, "a line that tells of a block was changed") from error


def _records(data: bytes, path: object, block: int) -> list[Record]:
    try:
        return _decode_records(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError, UnicodeError) as error:
        raise _damaged(path, f"block {block} cannot be read: {error}") from error


def _damaged(path: object, problem: str) -> ArchiveError:
    return ArchiveError(
        f"the archive {path} is cut or was changed: {problem}; nothing is taken from it, use another copy"
    )


def _digest(*parts: bytes) -> str:
    return blake2b(b"".join(parts), digest_size=32).hexdigest()
