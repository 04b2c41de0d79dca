"""Commits in a WAL that SQLite does not see: it stops at the first frame that is damaged, and says nothing.

    file:  32 bytes header, then frames
    header: magic, version, page size, checkpoints; salt 1, salt 2; checksum 1, checksum 2
    frame: page number, pages of the database after a commit or 0; salt 1, salt 2; checksum 1, checksum 2; the page

Each number has four bytes, big-endian. A frame counts while its salts are those of the header and its checksum,
which goes on from the frame before, is right. Frames of an earlier round have other salts. So a frame of the
same salts with the mark of a commit, beyond the last one that counts, is a commit that something has cut off.

One such mark is nothing: a process that was killed while it committed leaves one, and so does a power cut. Two say
that a commit was finished, since the next one had begun, and that it is not there any more.
"""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
_CHUNK = 1 << 20


class Beyond(NamedTuple):
    """The marks of commits in a WAL beyond the frames that SQLite counts."""

    salts: tuple[int, int]
    commits: frozenset[int]
    """The numbers of the frames that end a commit, from 1."""


def lost_commits(wal: str, page_size: int, count: Callable[[], int]) -> int:
    """Return how many commits of a WAL are cut off, at least; `count` says how many frames SQLite counts.

    It is asked again after the file was read: what other processes have committed meanwhile is counted then, but for
    one commit that may be on its way.
    """
    seen = _beyond(wal, count(), page_size)
    if seen is None:
        return 0
    again = _beyond(wal, count(), page_size)
    if again is None or again.salts != seen.salts:  # the WAL has begun again
        return 0
    cut_off = len(seen.commits & again.commits)
    return cut_off if cut_off > 1 else 0


def _beyond(wal: str, counted: int, page_size: int) -> Beyond | None:
    try:
        with Path(wal).open("rb", buffering=0) as file:
            header = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
            frames = (size - _HEADER.size) // (_FRAME.size + page_size)
            if len(header) < _HEADER.size or frames <= counted:
                return None
            salts = _salts(header)
            if salts is None:
                first = _frame(file.fileno(), 1, page_size)
                salts = first[2], first[3]
            commits = set()
            for number in range(counted + 1, frames + 1):
                _, pages, *found, _, _ = _frame(file.fileno(), number, page_size)
                if pages and tuple(found) == salts:
                    commits.add(number)
    except FileNotFoundError:
        return None
    return Beyond(salts, frozenset(commits)) if commits else None


def _frame(descriptor: int, number: int, page_size: int) -> tuple[int, ...]:
    offset = _HEADER.size + (number - 1) * (_FRAME.size + page_size)
    return _FRAME.unpack(os.pread(descriptor, _FRAME.size, offset))


def _salts(header: bytes) -> tuple[int, int] | None:
    """Return the salts of a header, or None if the header itself is damaged."""
    magic, *_, salt_1, salt_2, checksum_1, checksum_2 = _HEADER.unpack(header)
    order = _MAGIC.get(magic)
    if order is None or _checksum(header[:24], order) != (checksum_1, checksum_2):
        return None
    return salt_1, salt_2


def _checksum(data: bytes, order: str) -> tuple[int, int]:
    one = two = 0
    for first, second in struct.iter_unpack(f"{order}2I", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def keep_aside(wal: str) -> str:
    """Copy a WAL beside itself, readable by its owner alone; return the path of the copy."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    copy, number = f"{wal}.damaged-{stamp}", 1
    while True:
        try:
            target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            break
        except FileExistsError:
            number += 1
            copy = f"{wal}.damaged-{stamp}-{number}"
    try:
        with Path(wal).open("rb") as source:
            while chunk := source.read(_CHUNK):
                os.write(target, chunk)
        os.fsync(target)
    finally:
        os.close(target)
    return copy
