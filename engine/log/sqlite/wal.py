"""Commits in a WAL that SQLite does not see: it stops at the first frame that is damaged, and says nothing.

    file:  32 bytes header, then frames
    header: magic, version, page size, checkpoints; salt 1, salt 2; checksum 1, checksum 2
    frame: page number, pages of the database after a commit or 0; salt 1, salt 2; checksum 1, checksum 2; the page

Each number has four bytes, big-endian. A frame counts while its salts are those of the header and its checksum,
which goes on from the frame before, is right. Frames of an earlier round have other salts.

What stands beyond the last frame that counts says by itself whether it was acknowledged. A commit is lost if a frame
beyond it goes on from its checksum: SQLite writes the next commit only when this one was synced. A mark of a commit
that nothing goes on from is none: a kill or a power cut leaves one behind, and so does a commit whose sync failed,
over which the next one was written.

A header is written anew when all of the WAL is in the database, so a power cut then can damage it while the frames of
the round before are whole. Nothing is lost if the database has every page as these frames say.
"""

import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_ORDERS = {0x377F0682: "<", 0x377F0683: ">"}
"""The magic number says in which byte order the checksums read what they cover."""
_OWN_ORDER = "<" if sys.byteorder == "little" else ">"
_CHUNK = 1 << 20

Pair = tuple[int, int]


class Beyond(NamedTuple):
    """The commits in a WAL beyond the frames that SQLite counts, as far as something follows them."""

    salts: Pair
    commits: frozenset[int]
    """The numbers of the frames that end a commit, from 1."""


def lost_commits(wal: str, database: str, page_size: int, count: Callable[[], int]) -> int:
    """Return how many commits of a WAL are cut off, at least; `count` says how many frames SQLite counts.

    It is asked again after the file was read: what other processes have committed meanwhile is counted then.
    """
    seen = _beyond(wal, database, count(), page_size)
    if seen is None:
        return 0
    again = _beyond(wal, database, count(), page_size)
    if again is None or again.salts != seen.salts:  # the WAL has begun again
        return 0
    return len(seen.commits & again.commits)


def _beyond(wal: str, database: str, counted: int, page_size: int) -> Beyond | None:
    try:
        with Path(wal).open("rb", buffering=0) as file:
            header = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
            frames = (size - _HEADER.size) // (_FRAME.size + page_size)
            if len(header) < _HEADER.size or frames <= counted:
                return None
            found = _Frames(file.fileno(), page_size, header, Path(database).stat().st_size // page_size + frames)
            if not any(found.ends_commit(number) for number in range(counted + 1, frames + 1)):
                return None
            if not found.header_is_sound and _is_all_in(found, frames, database, page_size):
                return None
            commits = frozenset(_followed(found, counted, frames))
    except FileNotFoundError:
        return None
    return Beyond(found.salts, commits) if commits else None


class _Frame(NamedTuple):
    page: int
    pages: int
    salts: Pair
    checksum: Pair


class _Frames:
    """The frames of a WAL that is open, by number; the database has so many pages at most."""

    def __init__(self, descriptor: int, page_size: int, header: bytes, most_pages: int) -> None:
        self._descriptor = descriptor
        self._page_size = page_size
        self._most_pages = most_pages
        magic, *_, salt_1, salt_2, checksum_1, checksum_2 = _HEADER.unpack(header)
        self._order = _ORDERS.get(magic, _OWN_ORDER)
        self.header_is_sound = magic in _ORDERS and self._sum(header[:24]) == (checksum_1, checksum_2)
        if self.header_is_sound:
            self.salts = salt_1, salt_2
        else:
            self._order, self.salts = _OWN_ORDER, self.read(1).salts

    def _offset(self, number: int) -> int:
        return _HEADER.size + (number - 1) * (_FRAME.size + self._page_size)

    def read(self, number: int) -> _Frame:
        """Return what stands before the page."""
        page, pages, *rest = _FRAME.unpack(os.pread(self._descriptor, _FRAME.size, self._offset(number)))
        return _Frame(page, pages, (rest[0], rest[1]), (rest[2], rest[3]))

    def content(self, number: int) -> bytes:
        """Return the page."""
        return os.pread(self._descriptor, self._page_size, self._offset(number) + _FRAME.size)

    def ends_commit(self, number: int) -> bool:
        """Return True if a frame of this round bears the mark of a commit."""
        return self.is_marked(number) and self.read(number).salts == self.salts

    def is_marked(self, number: int) -> bool:
        """Return True if a frame bears the mark of a commit, and not what a sector of garbage left of it.

        Garbage in one of its two numbers is damage; in both, it is what a power cut leaves.
        """
        frame = self.read(number)
        return frame.pages > 0 and min(frame.page, frame.pages) <= self._most_pages

    def checksum(self, number: int, before: Pair) -> Pair:
        """Return the checksum of a frame that goes on from one before."""
        whole = os.pread(self._descriptor, _FRAME.size + self._page_size, self._offset(number))
        return self._sum(whole[:8] + whole[_FRAME.size :], before)

    def _sum(self, data: bytes, before: Pair = (0, 0)) -> Pair:
        one, two = before
        for first, second in struct.iter_unpack(f"{self._order}2I", data):
            one = (one + first + two) & 0xFFFFFFFF
            two = (two + second + one) & 0xFFFFFFFF
        return one, two

    def goes_on(self, number: int) -> bool:
        """Return True if a frame was written after the one before it, also if the checksum of that was damaged.

        Both must be of this round then: a power cut may leave a header of this round on a page of the one before,
        from which the next frame of that round goes on.
        """
        this, before = self.read(number), self.read(number - 1)
        if self.salts not in (this.salts, before.salts):
            return False
        if self.checksum(number, before.checksum) == this.checksum:
            return True
        if number == 2 or this.salts != before.salts:
            return False
        meant = self.checksum(number - 1, self.read(number - 2).checksum)
        return self.checksum(number, meant) == this.checksum


def _followed(found: _Frames, counted: int, frames: int) -> Iterator[int]:
    """Find the commits that another one follows, and the last of each such row."""
    in_row = False
    for number in range(counted + 2, frames + 1):
        after_commit = found.is_marked(number - 1)
        in_row = (in_row or after_commit) and found.goes_on(number)
        if in_row and after_commit:
            yield number - 1
        if in_row and found.is_marked(number):
            yield number


def _is_all_in(found: _Frames, frames: int, database: str, page_size: int) -> bool:
    """Return True if the database has every page as the unbroken row of frames from the first on leaves it."""
    latest: dict[int, int] = {}
    since: dict[int, int] = {}
    size = 0
    for number in range(1, frames + 1):
        frame = found.read(number)
        if frame.salts != found.salts or (number > 1 and not found.goes_on(number)):
            break
        since[frame.page] = number
        if frame.pages:
            latest |= since
            since, size = {}, frame.pages
    with Path(database).open("rb", buffering=0) as file:
        return size > 0 and all(
            os.pread(file.fileno(), page_size, (page - 1) * page_size) == found.content(number)
            for page, number in latest.items()
            if page <= size  # the database is cut to this size when the WAL is moved into it
        )


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
