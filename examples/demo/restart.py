"""Break what a restart must heal, restart, and show that the log alone was enough."""

from pathlib import Path

from engine import SessionStore
from engine.domain.events import MessageAppended
from engine.domain.times import microseconds
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.protocol import Transaction
from engine.reader import FILE_NAME
from examples.demo.chats import CHATS, CONFIG, Conversations, FastClock, Ledger
from examples.demo.crash import CUT_OFF, before_the_kill
from examples.demo.report import show

TABLES = ("lanes", "sessions", "message_ids", "turns")


def break_the_tables(folder: Path, clock: FastClock, ledger: Ledger) -> None:
    """Append past the tables by the plain log, then empty them: what a bad migration or a stray script may do."""
    with EventLog(folder / FILE_NAME, clock=lambda: microseconds(clock())) as log:
        [(session_id,)] = log.query("SELECT session_id FROM lanes WHERE key LIKE '%:signal:%'")
        message = MessageAppended(message={"role": "user", "content": "by another program"}, message_id="stray")
        log.append([Envelope(f"session:{session_id}", NEXT_VERSION, message, actor="another program")])
        ledger.deliveries += 1
        ledger.acknowledge(session_id, "stray")

        def empty(transaction: Transaction) -> None:
            for table in TABLES:
                transaction.execute(f"DELETE FROM {table}")
            transaction.execute("UPDATE projections SET position = 0")

        log.transact(empty)
        lanes = log.query("SELECT count(*) FROM lanes")[0][0]
        show("events in the log", log.last_position)
        show("lanes in the emptied index", lanes, "one message was appended past it, then it was emptied")


def contents(store: SessionStore) -> list[list[tuple[object, ...]]]:
    return [sorted(store.log.query(f"SELECT * FROM {table}")) for table in TABLES]


async def restart(folder: Path, clock: FastClock, ledger: Ledger) -> bool:
    """Open the store again: it replays, recovers the turns, and everybody goes on; whether that is so."""
    with SessionStore(folder, CONFIG, clock=clock) as store:
        conversations = Conversations(store, clock, ledger)
        healed = contents(store)
        show("lanes after the restart", len(healed[0]), "replayed from the log")
        rebuilt = store.rebuild()
        same = contents(store) == healed
        show("events replayed by a rebuild", rebuilt, "same tables" if same else "OTHER TABLES")
        interrupted = await conversations.store.recover_interrupted_turns()
        marked = [entry for entry in await conversations.store.list_sessions() if entry.resume_pending]
        show("turns cut off by the kill", interrupted)
        show("lanes marked for resuming", len(marked))
        for platform in CUT_OFF:  # the platform delivers again what nobody confirmed
            entry = await conversations.store.get_or_create_session(CHATS[platform])
            await conversations.deliver(entry.session_id, "user", before_the_kill(platform))
        for platform in CHATS:
            await conversations.turn(platform, "after the restart")
        store.wait_for_views()
        return same and interrupted == len(marked) == len(CUT_OFF) and len(healed[0]) == len(CHATS)
