"""A disk for tests: records what SQLite does to a log's files, fails on demand, and loses power."""

import contextlib
import itertools
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from engine.domain.events import MessageAppended
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.sqlite import database

SECTOR = 512
POLICIES = ("dropped", "kept", "torn", "garbage", "subset")
_names = itertools.count()

Operation = tuple[Any, ...]
"""("create", name, inode), ("write", inode, offset, data), ("truncate", inode, size),
("sync", inode, with the folder), ("delete", name, with the folder), ("folder",)"""

CODES = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
    "size": apsw.SQLITE_IOERR_FSTAT,
    "access": apsw.SQLITE_IOERR_ACCESS,
    "folder": apsw.SQLITE_IOERR_DIR_FSYNC,
}


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one, gone afterwards."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a fresh folder inside it
    folder = tempfile.mkdtemp(prefix="faults-", dir=place)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failure(kind: type[apsw.Error], code: int) -> apsw.Error:
    """An error as SQLite would raise it: apsw gives a Python-made one no result codes of its own."""
    error = kind(f"injected, code {code}")
    error.result, error.extendedresult = code & 0xFF, code
    return error


def io_error(what: str) -> apsw.Error:
    if what == "open":
        return failure(apsw.CantOpenError, apsw.SQLITE_CANTOPEN)
    return failure(apsw.IOError, CODES[what])


def full_error(_what: str) -> apsw.Error:
    return failure(apsw.FullError, apsw.SQLITE_FULL)


def read_only_error(_what: str) -> apsw.Error:
    return failure(apsw.ReadOnlyError, apsw.SQLITE_READONLY)


class Disk(apsw.VFS):
    """The default VFS, with every call counted, recorded if it changes something, and failing if told to."""

    def __init__(self, *, record: bool = False) -> None:
        self.name = f"faults-{os.getpid()}-{next(_names)}"
        self.base = apsw.vfs_names()[0]
        super().__init__(self.name, self.base)
        self.record = record
        self.operations: list[Operation] = []
        self.lock = threading.RLock()
        self.inodes: dict[str, int] = {}
        self.calls = 0
        self.fired = 0
        self.fail: Callable[[int, str], apsw.Error | None] | None = None
        self._fresh_inodes = itertools.count()

    def call(self, what: str) -> None:
        """Count a call; raises if this is one that is to fail."""
        with self.lock:
            number = self.calls
            self.calls += 1
            error = self.fail(number, what) if self.fail is not None else None
            if error is not None:
                self.fired += 1
                raise error

    def note(self, *operation: Any) -> None:
        if self.record:
            self.operations.append(operation)

    def inode(self, name: str) -> int:
        """The inode under a name; one that was not seen before is a file that was just created."""
        with self.lock:
            if name not in self.inodes:
                self.inodes[name] = next(self._fresh_inodes)
                self.note("create", name, self.inodes[name])
            return self.inodes[name]

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        self.call("open")
        with self.lock:
            return DiskFile(self, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802
        self.call("delete")
        with self.lock:
            super().xDelete(name, syncdir)
            self.inodes.pop(Path(name).name, None)
            self.note("delete", Path(name).name, bool(syncdir))

    def xAccess(self, name: str, flags: int) -> bool:  # noqa: N802
        self.call("access")
        return super().xAccess(name, flags)

    @contextlib.contextmanager
    def in_use(self) -> Iterator["Disk"]:
        """Count and record the engine's own folder syncs too, until the end; then the VFS is gone."""
        plain = database.sync_folder

        def sync_folder(folder: Path) -> None:
            try:
                self.call("folder")
            except apsw.Error as error:
                raise OSError(5, "injected") from error
            with self.lock:
                plain(folder)
                self.note("folder")

        database.sync_folder = sync_folder
        try:
            yield self
        finally:
            database.sync_folder = plain
            self.unregister()


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__(disk.base, name, flags)
        self.disk = disk
        asked = flags[0]
        log = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
        temporary = name is None or not asked & (log | apsw.SQLITE_OPEN_MAIN_DB)
        self.number = -1 if temporary else disk.inode(Path(name.filename() if hasattr(name, "filename") else name).name)
        # The unix VFS syncs the folder at the first sync of a journal or WAL it was asked to create.
        self.folder_too = bool(asked & log and asked & apsw.SQLITE_OPEN_CREATE)

    def _note(self, what: str, *rest: Any) -> None:
        if self.number >= 0:
            self.disk.note(what, self.number, *rest)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.call("read")
        return super().xRead(amount, offset)

    def xFileSize(self) -> int:  # noqa: N802
        self.disk.call("size")
        return super().xFileSize()

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.call("write")
        with self.disk.lock:
            super().xWrite(data, offset)
            self._note("write", offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.disk.call("truncate")
        with self.disk.lock:
            super().xTruncate(size)
            self._note("truncate", size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.call("sync")
        with self.disk.lock:
            super().xSync(flags)
            self._note("sync", self.folder_too)
            self.folder_too = False


class _Inode:
    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[Operation] = []

    def after(self, operations: list[Operation]) -> bytearray:
        content = bytearray(self.durable)
        for kind, _number, *rest in operations:
            if kind == "truncate":
                size = rest[0]
                del content[size:]
                content.extend(bytes(size - len(content)))
            else:
                offset, data = rest
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
        return content

    def sync(self) -> None:
        self.durable = self.after(self.pending)
        self.pending = []


def _sectors(operation: Operation) -> Iterator[Operation]:
    """A write, cut where the disk may tear it."""
    kind, number, offset, data = operation
    start = 0
    while start < len(data):
        stop = min(len(data), ((offset + start) // SECTOR + 1) * SECTOR - offset)
        yield kind, number, offset + start, data[start:stop]
        start = stop


class Platter:
    """The recorded operations: those that are durable so far, and those a power loss may leave a part of."""

    def __init__(self) -> None:
        self.inodes: dict[int, _Inode] = {}
        self.names: dict[str, int] = {}
        self.durable_names: dict[str, int] = {}

    def apply(self, operation: Operation) -> None:
        match operation:
            case ("create", name, number):
                self.inodes[number] = _Inode()
                self.names[name] = number
            case ("delete", name, folder):
                self.names.pop(name, None)
                if folder:
                    self.durable_names = dict(self.names)
            case ("folder",):
                self.durable_names = dict(self.names)
            case ("sync", number, folder):
                self.inodes[number].sync()
                if folder:
                    self.durable_names = dict(self.names)
            case _:
                self.inodes[operation[1]].pending.append(operation)

    def image(self, under_way: Operation, policy: str, lazy_names: bool, rng: random.Random) -> dict[str, bytes]:
        """The files as the power loss leaves them, while one more operation was under way."""
        files = {}
        for name, number in (self.durable_names if lazy_names else self.names).items():
            inode = self.inodes[number]
            pending = list(inode.pending)
            if under_way[0] in ("write", "truncate") and under_way[1] == number:
                pending.append(under_way)
            files[name] = bytes(inode.after(_survivors(pending, policy, rng)))
        return files


def _survivors(pending: list[Operation], policy: str, rng: random.Random) -> list[Operation]:
    if policy == "dropped":
        return []
    if policy == "kept":
        return pending
    if policy == "subset":
        return [operation for operation in pending if rng.random() < 0.5]
    left: list[Operation] = []
    for operation in pending:
        if operation[0] == "truncate":
            if rng.random() < 0.5:
                left.append(operation)
            continue
        for kind, number, offset, data in _sectors(operation):
            luck = rng.random()
            if policy == "garbage" and luck < 0.3:
                left.append((kind, number, offset, rng.randbytes(len(data))))
            elif luck < (0.5 if policy == "torn" else 0.8):
                left.append((kind, number, offset, data))
    return left


class Heads:
    """An inline projection: the last version and the number of events of each stream."""

    def create(self, transaction: Any) -> None:
        transaction.execute(
            "CREATE TABLE IF NOT EXISTS heads (stream TEXT PRIMARY KEY, version INTEGER, count INTEGER) STRICT"
        )

    def apply(self, transaction: Any, events: Any) -> None:
        for envelope in events:
            transaction.execute(
                "INSERT INTO heads VALUES (?1, ?2, 1) "
                "ON CONFLICT (stream) DO UPDATE SET version = ?2, count = count + 1",
                (envelope.stream, envelope.version),
            )


class Submitted:
    """One command: what it was to append, and when it was given and acknowledged."""

    def __init__(self, name: str, envelopes: list[Envelope], since: int, *, doomed: bool = False) -> None:
        self.name = name
        self.contents = [(envelope.stream, envelope.event) for envelope in envelopes]
        self.since = since
        self.doomed = doomed
        self.acknowledged: int | None = None
        self.positions: list[int] | None = None
        self.erased_since: int | None = None
        self.erased_by: int | None = None


class Ledger:
    """Everything that was ever given to a log, to hold what is found later against."""

    def __init__(self, now: Callable[[], int], rng: random.Random) -> None:
        self.now = now
        self.rng = rng
        self.commands: dict[str, Submitted] = {}
        self.lock = threading.Lock()

    def new(self, streams: list[str], *, doomed: bool = False, size: int = 0) -> tuple[Submitted, list[Envelope]]:
        with self.lock:
            name = f"c{len(self.commands)}"
            envelopes = []
            for number, stream in enumerate(streams):
                length = size or self.rng.choice((10, 60, 200, 700, 3000))
                text = f"{name}.{number} " + "".join(self.rng.choices("abcdefghijklmnop", k=length))
                event = MessageAppended(message={"role": "user", "content": text}, message_id=f"{name}.{number}")
                envelopes.append(Envelope(stream, NEXT_VERSION, event, actor="test", command=name))
            self.commands[name] = Submitted(name, envelopes, self.now(), doomed=doomed)
            return self.commands[name], envelopes

    def acknowledge(self, command: Submitted, positions: list[int]) -> None:
        command.positions = positions
        command.acknowledged = self.now()

    def check(self, log: Any, at: int | None = None) -> None:
        """Hold a log against the ledger: as at an operation of the disk, or as at the end."""
        moment = self.now() if at is None else at
        found: dict[str, list[Envelope]] = {}
        heads: dict[str, list[int]] = {}
        last = 0
        erasures = set()
        for envelope in log.events():
            assert envelope.position == last + 1, f"a gap before {envelope.position}"
            last = envelope.position
            head = heads.setdefault(envelope.stream, [0, 0])
            head[0], head[1] = envelope.version, head[1] + 1
            if envelope.stream == "log":
                erasures.update(envelope.event.positions)
            else:
                found.setdefault(envelope.command, []).append(envelope)
        for name, envelopes in found.items():
            self._check_found(name, envelopes, moment, erasures)
        for name, command in self.commands.items():
            if command.acknowledged is not None and command.acknowledged <= moment:
                assert name in found, f"{name} was acknowledged and is lost"
                places = [envelope.position for envelope in found[name]]
                assert places == command.positions, f"{name} was acknowledged at {command.positions}, is at {places}"
                if command.erased_by is not None and command.erased_by <= moment:
                    assert erasures.issuperset(places), f"the erasure of {name} was acknowledged and is lost"
        result = log.verify()
        assert result.ok, result
        assert result.events == last
        assert log.query("PRAGMA integrity_check") == [("ok",)]
        table = {stream: [version, count] for stream, version, count in log.query("SELECT * FROM heads")}
        assert table == heads, f"inline table {table} is not the fold {heads}"

    def _check_found(self, name: str, envelopes: list[Envelope], moment: int, erasures: set[int]) -> None:
        assert name in self.commands, f"{name} was never submitted"
        command = self.commands[name]
        assert not command.doomed, f"{name} failed and must have left nothing"
        assert command.since <= moment, f"{name} was not submitted yet"
        count = len(command.contents)
        assert len(envelopes) == count, f"{name} is there in part: {len(envelopes)} of {count}"
        first = envelopes[0].position
        assert [envelope.position for envelope in envelopes] == list(range(first, first + count))
        for envelope, (stream, event) in zip(envelopes, command.contents, strict=True):
            assert envelope.stream == stream
            if envelope.position in erasures:
                assert command.erased_since is not None, f"{name} was erased by nobody"
                assert command.erased_since <= moment, f"{name} was erased before anybody asked"
                assert not isinstance(envelope.event, MessageAppended), f"{name} is recorded as erased and is not"
            else:
                assert envelope.event == event, f"{name} has other content"
