"""The archives that an erasure is told of: looked through for a person, and written anew without what was erased."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from engine.archiving import check_fits, keep_in_archive, states_at
from engine.domain.encoding import decode, tombstone_digest
from engine.domain.events import MessageAppended
from engine.erasure.identity import Identity, senders_of
from engine.log.archive import read_archive
from engine.log.protocol import Log


class Archives:
    """Archives of one log, each checked whole before anything is erased."""

    def __init__(self, log: Log, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._log = log
        self._log_id = log.reader.log_id()
        self._paths = [str(Path(path).absolute()) for path in paths]
        self.positions: set[int] = set()
        """What is in them."""
        for path in self._paths:
            for block in read_archive(path, self._log_id):
                states = states_at(log.reader, [position for position, _ in block])
                for position, payload in block:
                    check_fits(position, payload, states.get(position), path)
                self.positions.update(states)

    def said_by(self, who: Identity) -> dict[int, set[str]]:
        """Return the positions of the messages in them that may be a person's, with the senders that each names."""
        found: dict[int, set[str]] = {}
        for path in self._paths:
            for block in read_archive(path, self._log_id):
                for position, payload in block:
                    event = decode(MessageAppended.TOPIC, payload)
                    named = senders_of(event.message) if isinstance(event, MessageAppended) else set[str]()
                    if who.anywhere_among(named):
                        found[position] = named
        return found

    def rewrite(self, now: datetime) -> tuple[str, ...]:
        """Write those anew that have something the log has no more; return which."""
        rewritten = []
        for path in self._paths:
            kept, gone = set[int](), False
            for block in read_archive(path, self._log_id):
                states = states_at(self._log.reader, [position for position, _ in block])
                found = {position for position, state in states.items() if tombstone_digest(state) is None}
                gone = gone or len(found) < len(block)
                kept |= found
            if gone:
                keep_in_archive(path, self._log_id, now, kept.__contains__)
                rewritten.append(path)
        return tuple(rewritten)
