"""Opening what somebody points at: a store's folder, its file, a copy of it; for reading, whoever else writes it."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.clock import local_now
from engine.domain.config import GatewayConfig
from engine.domain.encoding import decode
from engine.domain.events import StoreOpened
from engine.domain.platforms import Platform
from engine.domain.streams import LOG
from engine.domain.times import names_of
from engine.log.errors import ForeignFileError
from engine.log.protocol import Queries
from engine.log.sqlite.eventlog import EventLog
from engine.reader import FILE_NAME, SessionReader
from engine.views import StoreViews, ViewAnswers
from projections.inline.projection import check_current
from replay.errors import NoStoreError, UnsupportedStoreError

if TYPE_CHECKING:
    from engine.store import SessionStore

ACTOR = "sessions"
"""Who acts in the log when the command writes."""
_WAYS = "name one with --store PATH, in SESSION_STORE, or go to its folder"


def open_log(where: str | os.PathLike[str], *, damaged: bool = False) -> EventLog:
    """Return the log of a store, read-only: of a folder with `sessions.db`, or of a file of any name.

    Others may write it meanwhile. Raise NoStoreError where none is, UnsupportedStoreError for a URL, and what the log
    itself raises for a file that is damaged, another program's or of a newer version. With `damaged` also one that was
    cut off is opened, for `salvage`.
    """
    path = _local(where)
    if path.is_dir():
        path /= FILE_NAME
        if not path.exists():
            raise NoStoreError(f"there is no store in {where}: it has no {FILE_NAME}; {_WAYS}")
    elif not path.exists():
        raise NoStoreError(f"there is no store at {where}: no such file or folder; {_WAYS}")
    if not path.is_file():  # a pipe would be waited for, and never answer
        raise NoStoreError(f"there is no store at {where}: {path} is no file; {_WAYS}")
    return EventLog(path, read_only=True, damaged=damaged)


def open_reader(where: str | os.PathLike[str], clock: Callable[[], datetime] = local_now) -> SessionReader:
    """Return every question about the sessions of a store, read-only; close it with `close` or `with`.

    Raise what `open_log` raises, and ReadOnlyLogError if the tables were made by another version.
    """
    log = open_log(where)
    try:
        check_current(log)
        return SessionReader(log, clock=clock, answers=ViewAnswers.read_only(log, Path(log.path).parent, clock))
    except BaseException:
        log.close()
        raise


def open_views(log: EventLog, clock: Callable[[], datetime] | None = None) -> StoreViews:
    """Return the views beside a log, to be looked at and compared with it; close them. They write nothing.

    Their days are those of the clock's zone, by default of the one that the store ran in last.
    """
    clock = clock or _clock(_last_opened(log.reader))
    return StoreViews(log, Path(log.path).parent, clock, search=True, read_only=True)


def has_store(where: str | os.PathLike[str]) -> bool:
    """Return True if there is a store at a place, of whatever kind and in whatever state."""
    path = _local(where)
    return path.is_file() or (path / FILE_NAME).exists()


def open_store(where: str | os.PathLike[str], *, create: bool = False, views: bool = True) -> "SessionStore":
    """Return a store for writing, as the actor `sessions`; its settings are those it ran with last.

    So a command that was given at a terminal neither looks like a change of the reset policy, nor makes one. With
    `create` a folder without a store gets one. Without `views` search and usage are left alone.
    """
    from engine.store import SessionStore

    path = _local(where)
    if path.is_file() and path.name != FILE_NAME:
        raise UnsupportedStoreError(f"{where} can only be read: a store that is written is a folder with {FILE_NAME}")
    folder = path.parent if path.is_file() else path
    last = None
    if (folder / FILE_NAME).exists():
        with open_log(folder) as log:
            last = _last_opened(log.reader)
    elif not create:
        raise NoStoreError(f"there is no store in {where}: it has no {FILE_NAME}; {_WAYS}")
    if last is None:
        return SessionStore(folder, actor=ACTOR, create=create, views=views)
    return SessionStore(folder, _config(last), clock=_clock(last), actor=ACTOR, create=False, views=views)


def _last_opened(reads: Queries) -> StoreOpened | None:
    for _, topic, state, _, _ in reversed(reads.payloads(LOG)):
        event = decode(topic, state) if topic == StoreOpened.TOPIC else None
        if isinstance(event, StoreOpened):
            return event
    return None


def _config(opened: StoreOpened) -> GatewayConfig:
    settings = opened.settings or {}
    try:
        for name in settings.get("reset_by_platform") or ():
            Platform.register(name)  # a host's own: its name is all that is needed here
        return GatewayConfig.from_dict(settings)
    except (ValueError, TypeError, AttributeError) as error:
        raise ForeignFileError(
            f"the settings that the store ran with last cannot be used here ({error}); do it from the gateway itself"
        ) from error


def _clock(opened: StoreOpened | None) -> Callable[[], datetime]:
    """Return a clock in the zone that a store ran in; the machine's own where that has its name."""
    if opened is None or opened.zone in names_of(local_now().tzinfo):
        return local_now
    zone = _zone(opened.zone)
    return local_now if zone is None else lambda: datetime.now(zone)


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def _local(where: str | os.PathLike[str]) -> Path:
    if "://" in str(where):
        raise UnsupportedStoreError(f"{_without_password(str(where))} cannot be opened yet: only files can; {_WAYS}")
    path = Path(where)
    if path.parts[:1] == ("~",) and not path.exists():  # `--store=~/gateway`: no shell put the home there
        return path.expanduser()
    return path


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if "@" in rest else url
