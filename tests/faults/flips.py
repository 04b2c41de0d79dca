"""Single flipped bits: a small store with everything in it, every question asked of it, and what a flip came to."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine import SessionReader, SessionStore
from engine.domain.errors import EngineError
from engine.domain.events import LaneTouched
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.reader import FILE_NAME
from tests.gateway.support import FakeClock, source

START = datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC)
CHATS = [f"chat-{number}" for number in range(12)]
DETECTED, HARMLESS, SILENT = "detected", "harmless", "silent"


def build(folder: Path) -> None:
    """A closed store in which every table has rows: forks, children, undos, titles, turns, erasures, quarantine."""
    clock = FakeClock(START)
    with SessionStore(folder, clock=clock, synchronous="OFF") as store:
        ids = []
        for number, chat in enumerate(CHATS):
            entry = store.get_or_create_session(source(chat, user_id=f"user-{number}", chat_name=f"Chat {number}"))
            ids.append(entry.session_id)
            clock.advance(seconds=1)
            store.append_messages(entry.session_id, [_message(number, each) for each in range(6)])
        keys = {each.session_id: each.session_key for each in store.list_sessions()}
        store.set_session_title(ids[0], "Trip to Delft")
        store.set_session_title(ids[1], "Trip to Delft")
        store.set_session_title(ids[2], "$ with a NUL \0")
        store.set_model_override(keys[ids[3]], {"model": "large-2", "provider": "example"})
        store.fork_session(ids[4], 3)
        store.compress_session(ids[5], None, [{"role": "system", "content": "summary", "message_id": "summary-5"}])
        store.rewind_session(ids[6])
        store.rewind_session(ids[7])
        store.restore_rewound(ids[7])
        store.rewrite_transcript(ids[8], [{"role": "user", "content": "another history", "message_id": "new-8"}])
        store.reset_session(keys[ids[9]])
        store.suspend_session(keys[ids[10]])
        store.mark_resume_pending(keys[ids[11]])
        store.update_session(keys[ids[0]], 900, input_tokens=70, output_tokens=7, cost_usd=0.25)
        for session_id in ids[:3]:
            store.begin_turn(keys[session_id], lease_seconds=None)
        store.end_turn(store.begin_turn(keys[ids[3]]))
        store.log.erase([recorded.position for recorded in store.recorded_messages(ids[2])][1:3], actor="t", reason="r")
        store.log.append([Envelope("lane:unknown", NEXT_VERSION, LaneTouched(at=1 << 62))])


def _message(number: int, each: int) -> dict[str, Any]:
    role = "user" if each % 2 == 0 else "assistant"
    return {"role": role, "content": f"{number}/{each} " + "words " * 9, "message_id": f"m-{number}-{each}"}


def answers(reader: SessionReader) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every question a host may ask, by name."""
    yield "lanes", reader.list_sessions
    yield "quarantined", reader.quarantined
    yield "turns", lambda: reader.log.query("SELECT * FROM turns ORDER BY conversation_id")
    yield "any", reader.has_any_sessions
    for number, chat in enumerate(CHATS):
        key = f"agent:main:telegram:dm:{chat}"
        yield f"peek {key}", lambda key=key: reader.peek_session_id(key)
        yield f"model {key}", lambda key=key: reader.get_model_override(key)
        yield f"sessions of {key}", lambda key=key: reader.sessions_of(key)
        yield f"ids {number}", lambda number=number: _known_ids(reader, number)
    for session_id in _session_ids:
        yield f"session {session_id}", lambda each=session_id: reader.get_session(each)
        yield f"conversation {session_id}", lambda each=session_id: reader.conversation(each)
        yield f"lane of {session_id}", lambda each=session_id: reader.lookup_by_session_id(each)
        yield f"transcript {session_id}", lambda each=session_id: reader.recorded_messages(each)


_session_ids: list[str] = []


def _known_ids(reader: SessionReader, number: int) -> list[bool]:
    wanted = [f"m-{number}-{each}" for each in range(6)] + [f"new-{number}", f"summary-{number}"]
    return [reader.has_platform_message_id(each, wanted_id) for each in _session_ids[:16] for wanted_id in wanted]


def ask_all(reader: SessionReader) -> dict[str, Any]:
    """Every answer; that of a question that is refused is the class of its error, which must be the engine's."""
    found: dict[str, Any] = {}
    for name, question in answers(reader):
        try:
            found[name] = question()
        except EngineError as error:
            found[name] = error
    return found


class Specimen:
    """A closed store's file, its right answers, and the places in it that hold something."""

    def __init__(self, folder: Path) -> None:
        build(folder)
        self.intact = (folder / FILE_NAME).read_bytes()
        with SessionReader.open(folder, clock=FakeClock(START)) as reader:
            self.pages = reader.log.query("SELECT name, pageno, pgsize FROM dbstat")
            _session_ids[:] = [each for (each,) in reader.log.query("SELECT session_id FROM sessions ORDER BY 1")]
            self.answers = ask_all(reader)
            self.verification = reader.verify()
        assert self.verification.ok, self.verification

    def flips(self, count: int, seed: int) -> list[tuple[int, int]]:
        """Places and bits to flip, anywhere in the file."""
        chance = random.Random(seed)
        return [(chance.randrange(len(self.intact)), chance.randrange(8)) for _ in range(count)]

    def flips_in(self, tables: tuple[str, ...], count: int, seed: int) -> Iterator[tuple[int, int]]:
        """Places in the pages of some tables."""
        chance = random.Random(seed)
        pages = [page for page in self.pages if page[0] in tables]
        for _ in range(count):
            _, number, size = chance.choice(pages)
            yield (number - 1) * size + chance.randrange(size), chance.randrange(8)

    def flipped(self, folder: Path, offset: int, bit: int) -> None:
        """Put the file with one bit flipped into a folder."""
        damaged = bytearray(self.intact)
        damaged[offset] ^= 1 << bit
        for old in folder.glob(f"{FILE_NAME}*"):
            old.unlink()
        (folder / FILE_NAME).write_bytes(damaged)

    def judge(self, folder: Path, offset: int, bit: int) -> tuple[str, str]:
        """Return what a flipped bit comes to, and the words for it; foreign errors pass through."""
        self.flipped(folder, offset, bit)
        try:
            reader = SessionReader.open(folder, clock=FakeClock(START))
        except EngineError as error:
            return DETECTED, str(error)
        with reader:
            found = ask_all(reader)
            verification = reader.verify()
        if not verification.ok:
            return DETECTED, str(verification.problem)
        wrong = [name for name, answer in found.items() if repr(answer) != repr(self.answers[name])]
        return (SILENT, f"byte {offset} bit {bit}: {wrong}") if wrong else (HARMLESS, "")


def tally(judged: list[tuple[str, str]]) -> Counter[str]:
    return Counter(kind for kind, _ in judged)
