"""A store that is told random commands of every kind: those of a gateway, of web chats, imports, archives, erasures."""

import json
from datetime import UTC, timedelta
from typing import Any

from hypothesis import strategies as st

from engine import SessionCatalog
from tests.properties.test_store_machine import STARTS, ZONE
from tests.replay.decisions import Told, commands, configs, number

every_command = st.one_of(
    commands,
    st.tuples(st.sampled_from(["chat", "save", "extend", "context", "clear", "truncate", "take_back"]), number, number),
    st.tuples(
        st.sampled_from(["shorten", "branch", "duplicate", "rotate", "delete", "project", "pin"]), number, number
    ),
    st.tuples(st.sampled_from(["start", "finish_chat", "spend_chat"]), number, number),
    st.tuples(st.sampled_from(["bring", "document", "older"]), number, number),
    st.tuples(st.sampled_from(["archive", "unarchive", "erase_person", "erase_session"]), number, number),
)
histories = st.tuples(configs, st.sampled_from(STARTS), st.lists(every_command, min_size=5, max_size=50))


class ToldEverything(Told):
    """A store, a catalogue on it, and everything they were told."""

    archives = 0
    projects: tuple[str, ...] = ()

    @property
    def catalog(self) -> SessionCatalog:
        return SessionCatalog(self.store)

    def said(self, session_id: str) -> list[dict[str, Any]]:
        return list(self.catalog.get_session(session_id).messages)

    def chat(self, which: int, _: int) -> None:
        chat = self.catalog.new_session(model=f"m{which}")
        self.catalog.save_messages(chat.session_id, [{"role": "user", "content": f"chat {which}"}])

    def save(self, which: int, other: int) -> None:
        session_id = self.session(which)
        new = [{"role": role, "content": f"{role} {other}"} for role in ("user", "assistant")]
        self.catalog.save_messages(session_id, [*self.said(session_id), *new])

    def extend(self, which: int, other: int) -> None:
        session_id = self.session(which)
        told = self.said(session_id)
        told[other % len(told)] = {**told[other % len(told)], "liked": True}
        self.catalog.save_messages(session_id, told)

    def context(self, which: int, other: int) -> None:
        session_id = self.session(which)
        told = self.said(session_id)
        calls = [{"name": "read"}] if other % 2 else None
        self.catalog.save_messages(session_id, told, [{"role": "system", "content": "be kind"}, *told], calls)

    def clear(self, which: int, _: int) -> None:
        self.catalog.clear_session(self.session(which))

    def truncate(self, which: int, other: int) -> None:
        self.catalog.truncate_session(self.session(which), other)

    def take_back(self, which: int, _: int) -> None:
        self.catalog.undo(self.session(which))

    def shorten(self, which: int, _: int) -> None:
        self.catalog.compress_session(self.session(which), [{"role": "user", "content": "so far"}])

    def branch(self, which: int, other: int) -> None:
        self.catalog.branch_session(self.session(which), at=other)

    def duplicate(self, which: int, _: int) -> None:
        self.catalog.duplicate_session(self.session(which))

    def rotate(self, which: int, other: int) -> None:
        self.catalog.rotate_session(self.session(which), f"rotated_{which}_{other}")

    def delete(self, which: int, _: int) -> None:
        self.catalog.delete_session(self.session(which))

    def project(self, which: int, other: int) -> None:
        if other % 3 == 0:
            self.projects += (self.catalog.create_project(f"p{which}")["project_id"],)
        elif other % 3 == 1:
            self.catalog.move_to_project(self.session(which), self.projects[other % len(self.projects)])
        else:
            self.catalog.delete_project(self.projects[which % len(self.projects)])

    def pin(self, which: int, other: int) -> None:
        self.catalog.pin_session(self.session(which), bool(other % 2))
        self.catalog.archive_session(self.session(other))

    def start(self, which: int, other: int) -> None:
        self.catalog.start_turn(self.session(which), f"stream-{other}", f"asked {which}")

    def finish_chat(self, which: int, other: int) -> None:
        open_ones = self.store.log.query(
            "SELECT session_id, stream_id FROM chats WHERE stream_id IS NOT NULL ORDER BY 1"
        )
        session_id, stream_id = open_ones[which % len(open_ones)]
        told = [*self.said(session_id), {"role": "user", "content": f"asked {which}"}]
        if other % 3:
            told.append({"role": "assistant", "content": "done"})
            self.catalog.finish_turn(session_id, stream_id, told, input_tokens=other)
        else:
            self.catalog.cancel_turn(session_id, stream_id)

    def spend_chat(self, which: int, other: int) -> None:
        self.catalog.record_usage(self.session(which), input_tokens=other, output_tokens=1)

    def bring(self, which: int, other: int) -> None:
        told = [{"role": "user", "content": f"cli {each}", "_row_id": each} for each in range(1, other + 2)]
        self.catalog.import_cli_session(f"cli_{which}", f"title {which}", told)

    def document(self, which: int, other: int) -> None:
        told = [{"role": "user", "content": f"from elsewhere {other}"}]
        self.catalog.import_session({"session_id": f"document_{which}", "title": "there", "messages": told})

    def older(self, which: int, _: int) -> None:
        folder = self.folder / f"older{which}"
        folder.mkdir(exist_ok=True)
        at, key = "2026-06-01T10:00:00+00:00", f"agent:main:sms:dm:{which}"
        entry = {"session_key": key, "session_id": f"old_{which}", "created_at": at, "updated_at": at}
        (folder / "sessions.json").write_text(json.dumps({key: entry}))
        line = {"role": "user", "content": "long ago", "timestamp": 1780000000}
        (folder / f"old_{which}.jsonl").write_text(json.dumps(line) + "\n")
        self.store.import_from(folder)

    def archive(self, which: int, other: int) -> None:
        for each in (which, other):
            self.store.end_session(self.session(each), "idle")
        self.now = (self.now.astimezone(UTC) + timedelta(hours=1)).astimezone(ZONE)
        to = self.folder / f"{self.archives + 1}.archive"
        self.archives += self.store.archive(timedelta(minutes=1), to).archive is not None

    def unarchive(self, which: int, _: int) -> None:
        self.store.restore(self.folder / f"{which % max(self.archives, 1) + 1}.archive")

    def erase_person(self, which: int, _: int) -> None:
        people = sorted({each.origin.user_id for each in self.store.list_sessions() if each.origin} - {None})
        self.store.erase(user_id=people[which % len(people)], reason="asked for")

    def erase_session(self, which: int, _: int) -> None:
        self.store.erase(session_id=self.session(which), reason="asked for")
