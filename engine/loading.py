"""Loading a transcript: reading and decoding it in parts, so that nobody waits for the whole of a long one."""

from typing import Any

from engine.archived import saying_where
from engine.domain.transcript import Row, messages_of
from engine.log.protocol import Snapshot
from projections.inline.transcripts import PART, Load, Transcripts, report


class TranscriptLoad:
    """One load: call `step` until it returns True."""

    def __init__(self, transcripts: Transcripts, reads: Snapshot, session_id: str, *, interleaved: bool) -> None:
        self._load = Load(transcripts, reads, session_id, interleaved=interleaved)
        self._reads = reads
        self._left: list[Row] | None = None
        self.messages: list[dict[str, Any]] = []
        """The live messages, when it is done."""

    def whole(self) -> list[dict[str, Any]]:
        """Do all of it; return the messages."""
        try:
            while not self.step():
                pass
        except BaseException:
            self.give_up()
            raise
        return self.messages

    def give_up(self) -> None:
        """Let nobody wait for this load any more: it was interrupted, or its task was cancelled."""
        self._load.give_up()

    def step(self) -> bool:
        """Read or decode a part; return True when it is done."""
        left = self._left
        if left is None:
            if not self._load.step():
                return False
            left = self._left = (self._load.rows or [])[::-1]
            self._load.rows = []
        part = left[-PART:][::-1]
        with saying_where(self._reads):
            self.messages += messages_of(part, report)
        del left[-PART:]  # what is decoded takes no memory any more, but where it is kept
        return not left
