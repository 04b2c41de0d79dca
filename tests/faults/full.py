"""A disk that really is full: a file system of its own, or a limit on the size of files where none can be mounted."""

import contextlib
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from engine import SessionStore
from engine.domain.encoding import Erased
from engine.domain.errors import EngineError
from engine.log.errors import DiskFullError, StorageError
from tests.faults.stores import START, Says, Work, everyday
from tests.gateway.support import FakeClock

_MEGABYTE = 1_000_000
MAKE = {
    "ext4 in a loop device": [
        ["/sbin/mkfs.ext4", "-q", "-F", "{image}"],
        ["/bin/mount", "-o", "loop", "{image}", "{place}"],
    ],
    "tmpfs": [["/bin/mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", "{place}"]],
}


class Room(msgspec.Struct):
    """A place for files with little space, which is taken and given back."""

    kind: str
    place: Path
    take: Callable[[int], None]
    """Leave so many bytes."""
    give_back: Callable[[], None]


@contextlib.contextmanager
def small_room(folder: Path) -> Iterator[Room]:
    """Return a room of 8 MB: a file system if this process may mount one, else a limit on its files."""
    image, place = folder / "image", folder / "small"
    place.mkdir()
    image.write_bytes(bytes(8 * _MEGABYTE))
    for kind, commands in MAKE.items():
        if all(_done([word.format(image=image, place=place) for word in command]) for command in commands):
            try:
                yield _mounted(kind, place)
            finally:
                subprocess.run(["/bin/umount", "-l", str(place)], check=True, capture_output=True)
            return
    yield _limited(place)


def _done(command: list[str]) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _mounted(kind: str, place: Path) -> Room:
    ballast = place / "ballast"

    def take(left: int) -> None:
        space = contextlib.suppress(OSError)
        with space, ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(16_384))
        with ballast.open("r+b") as file:
            file.truncate(max(0, ballast.stat().st_size - left))

    return Room(kind, place, take, lambda: ballast.unlink(missing_ok=True))


def _limited(place: Path) -> Room:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def take(left: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (left, hard))

    return Room("RLIMIT_FSIZE", place, take, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))


class Filled(msgspec.Struct):
    """The result of one store on a disk that ran full."""

    done: int
    refused: int


def fill_up(room: Room, name: str, chance: random.Random) -> Filled:
    """Work until the disk is full and after, give space back, and look that nothing acknowledged is lost."""
    clock = FakeClock(START)

    def opened() -> SessionStore:
        return SessionStore(room.place / name, clock=clock, views=False, checkpoint_pages=chance.choice((8, 100)))

    works = list(everyday(chance, 3000))
    store = opened()  # what is tested is that it goes on, not that it can be made
    room.take(chance.randrange(1, _MEGABYTE // 2))
    try:
        done, refused = _until_refused(store, works)
    finally:
        room.give_back()
    for work in works[done + refused :][:20]:
        work(store)
    store.close()
    with opened() as again:
        _check(again, works)
    return Filled(done, refused)


def _until_refused(store: SessionStore, works: list[Work]) -> tuple[int, int]:
    """Work until five refusals have come; what is asked meanwhile is answered."""
    done = refused = 0
    for work in works:
        try:
            work(store)
            done += 1
        except (DiskFullError, StorageError):
            refused += 1
            assert len(store.list_sessions()) <= 4
        except EngineError:  # nothing to undo, another state: not of the disk
            done += 1
        if refused == 5:
            return done, refused
    raise AssertionError(f"the disk was never full after {done}")


def _check(store: SessionStore, works: list[Work]) -> None:
    assert store.verify().ok, store.verify()
    events = {each.position: each.event for each in store.log.events()}
    for work in works:
        if isinstance(work, Says) and work.position is not None:
            event = events.get(work.position)
            assert event is not None, f"position {work.position} was acknowledged and is lost"
            assert isinstance(event, Erased) or getattr(event, "message_id", None) == work.message_id
