from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Envelope, GatewayConfig, SessionCatalog, SessionResetPolicy, SessionStore
from engine.domain.events import LaneSuspended, MessageAppended
from engine.log.sqlite.eventlog import EventLog
from replay import open_log
from tests.gateway.conftest import clock as clock, open_store as open_store, store as store
from tests.gateway.support import source
from tests.histories.histories import Clock, live_through
from tests.replay.incident import record


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The incident of three days, recorded once: its `sessions.db`, to be read and never written."""
    return record(tmp_path_factory.mktemp("incident"))


@pytest.fixture
def incident(recorded: Path) -> Iterator[EventLog]:
    with open_log(recorded) as log:
        yield log


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionStore]:
    """A store that has lived through everything once, and erased some of it."""
    clock = Clock()
    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=30))
    folder = tmp_path_factory.mktemp("lived")
    with SessionStore(folder, config, clock=clock, synchronous="OFF", views=False) as store:
        live_through(store, clock)
        with EventLog(store.log.path, synchronous="OFF") as other:
            other.append(
                [
                    Envelope("lane:nobody", 1, LaneSuspended(session_id="nowhere")),
                    *(
                        Envelope("session:nowhere", n, MessageAppended(message={"role": "user"}, message_id="1"))
                        for n in (1, 2, 3)
                    ),
                ]
            )
        clock.advance(days=200)
        store.prune_old_entries(30)
        for chat in ("4711", "back"):
            entry = store.get_or_create_session(source(chat))
            store.append_to_transcript(entry.session_id, {"role": "user", "content": "again", "message_id": "tg-1"})
        key = entry.session_key
        store.erase(lane=key, reason="asked to")
        live_as_chats(SessionCatalog(store))
        yield store


def live_as_chats(catalog: SessionCatalog) -> None:
    """Do what web clients do."""
    talk = [{"role": role, "content": role} for role in ("user", "assistant", "user", "assistant")]
    chat = catalog.new_session(model="large", profile="ada").session_id
    project = catalog.create_project("Website")["project_id"]
    catalog.rename_project(project, "Web")
    catalog.move_to_project(chat, project)
    catalog.save_messages(chat, talk, [{"role": "system", "content": "be kind"}, *talk], [{"name": "read"}])
    catalog.save_messages(chat, [*talk[:1], {**talk[1], "liked": True}, *talk[2:]])
    catalog.record_usage(chat, input_tokens=7, output_tokens=2)
    copy = catalog.duplicate_session(chat).session_id
    catalog.branch_session(chat, at=2)
    catalog.undo(chat)
    catalog.compress_session(chat, [{"role": "user", "content": "so far"}])
    catalog.rotate_session(chat, "another_id")
    catalog.save_messages("another_id", [*catalog.get_session("another_id").messages, talk[0]])
    catalog.truncate_session(copy, 1)
    catalog.clear_session(copy)
    catalog.delete_project(project)
    catalog.delete_session(copy)
