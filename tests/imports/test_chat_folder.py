"""V18: a web chat's folder is imported with its sessions, projects, places, contexts, turns, tokens and cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine import ForeignFileError, SessionCatalog, SessionStore, UnknownSessionError

THEN = 1_780_000_000.0
PROJECT = "4f1d6a0b9c2e"
MESSAGES = [
    {"role": "user", "content": "hello", "timestamp": THEN + 1},
    {"role": "assistant", "content": "hi", "timestamp": THEN + 2},
]


def chat(session_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "title": "Trip",
        "workspace": "/work",
        "model": "large",
        "messages": MESSAGES,
        "created_at": THEN,
        "updated_at": THEN + 60,
        **fields,
    }


class Folder:
    """The files of a web chat: sessions in a folder of their own, projects beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "webui" / "sessions"
        self.path.mkdir(parents=True)
        self.index: list[dict[str, Any]] = []
        self.write("_index.json", self.index)

    def write(self, name: str, found: Any) -> None:
        (self.path / name).write_text(json.dumps(found))

    def add(self, session_id: str, **fields: Any) -> None:
        found = chat(session_id, **fields)
        self.write(f"{session_id}.json", found)
        self.index.append({key: value for key, value in found.items() if key != "messages"})
        self.write("_index.json", self.index)

    def projects(self, *found: Any) -> None:
        self.write("../projects.json", list(found))

    def state(self) -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in self.path.parent.rglob("*") if each.is_file()}


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


@pytest.fixture
def store(tmp_path):
    with SessionStore(tmp_path / "store", synchronous="OFF", views=False) as store:
        yield store
        assert store.verify().ok


@pytest.fixture
def catalog(store):
    return SessionCatalog(store)


def test_a_chat_keeps_all_it_was(folder, catalog):
    """V18, W1, W19: fields, place, project, context, tool calls, open turn, tokens and cost."""
    folder.projects({"project_id": PROJECT, "name": "Website", "color": "#6366f1", "created_at": THEN - 100})
    fields = {
        "pinned": True,
        "archived": True,
        "project_id": PROJECT,
        "profile": "ada",
        "input_tokens": 1200,
        "output_tokens": 80,
        "estimated_cost": 0.5,
        "context_messages": [{"role": "system", "content": "summary"}],
        "tool_calls": [{"name": "f"}],
        "active_stream_id": "t-1",
        "pending_user_message": "and then?",
        "pending_attachments": [{"name": "a.png"}],
        "pending_started_at": THEN + 50.5,
        "parent_session_id": "0f0f0f0f0f0f",
        "enabled_toolsets": ["web"],
        "last_prompt_tokens": 900,
        "llm_title_generated": True,
    }
    folder.add("0a1b2c3d4e5f", **fields)
    report = catalog.store.import_from(folder.path)
    assert (report.sessions, report.messages, report.projects, report.skipped) == (1, 2, 1, [])
    found = catalog.get_session("0a1b2c3d4e5f")
    expected = chat("0a1b2c3d4e5f", **fields)
    assert found.extra == {"llm_title_generated": expected.pop("llm_title_generated")}
    assert {name: getattr(found, name) for name in expected} == expected
    assert catalog.list_projects() == [
        {"project_id": PROJECT, "name": "Website", "color": "#6366f1", "created_at": THEN - 100}
    ]
    (spent,) = [each.event for each in catalog.store.log.events(topics=["usage.recorded"])]
    assert (spent.input_tokens, spent.output_tokens, spent.cost_usd, spent.model) == (1200, 80, 0.5, "large")
    assert [each.time for each in catalog.store.log.events(topics=["message.appended"])] == [
        (THEN + 1) * 1e6,
        (THEN + 2) * 1e6,
    ]


def test_the_source_is_only_read_and_a_second_run_adds_nothing(folder, catalog):
    """V18: idempotent; also the folder above may be named."""
    folder.projects({"project_id": PROJECT, "name": "Website"})
    folder.add("a", active_stream_id="t-1", pending_user_message="x", context_messages=MESSAGES[:1])
    folder.add("b", messages=[])
    before = folder.state()
    catalog.store.import_from(folder.path.parent)
    position = catalog.store.log.last_position
    again = catalog.store.import_from(folder.path)
    assert (again.sessions, again.messages, again.projects, again.skipped) == (0, 0, 0, [])
    assert catalog.store.log.last_position == position
    assert folder.state() == before


def test_a_chat_that_went_on_there_goes_on_here(folder, catalog):
    """V18: new messages, context, tool calls and usage come; what was set here stays; the turn that ended is over."""
    folder.add("a", active_stream_id="t-1", pending_user_message="x", input_tokens=100, context_messages=MESSAGES[:1])
    catalog.store.import_from(folder.path)
    catalog.rename_session("a", "Mine", touch=False)
    catalog.pin_session("a", touch=False)
    new = {"role": "user", "content": "x"}
    later = {"messages": [*MESSAGES, new], "input_tokens": 150, "updated_at": THEN + 90, "tool_calls": [1]}
    folder.add("a", context_messages=[MESSAGES[0], new], **later)
    report = catalog.store.import_from(folder.path)
    assert (report.sessions, report.messages) == (0, 1)
    found = catalog.get_session("a")
    assert (found.title, found.pinned, found.active_stream_id) == ("Mine", True, None)
    assert found.messages == [*MESSAGES, new]
    assert (found.context_messages, found.tool_calls) == ([MESSAGES[0], new], [1])
    assert (found.input_tokens, found.updated_at) == (150, THEN + 90)
    folder.add("a", active_stream_id="t-2", pending_user_message="y", **later)
    catalog.store.import_from(folder.path)
    assert catalog.get_session("a").active_stream_id == "t-2"


def test_a_turn_that_runs_here_is_not_touched(folder, catalog):
    """V18, W16."""
    folder.add("a")
    catalog.store.import_from(folder.path)
    catalog.start_turn("a", "own", "hello")
    folder.add("a", active_stream_id="t-2", pending_user_message="y")
    catalog.store.import_from(folder.path)
    assert catalog.get_session("a").active_stream_id == "own"


def test_nothing_is_taken_away_because_a_file_got_shorter(folder, catalog):
    """V18, W9."""
    folder.add("a")
    catalog.store.import_from(folder.path)
    folder.add("a", messages=MESSAGES[:1])
    report = catalog.store.import_from(folder.path)
    assert [each.item for each in report.skipped] == ["session 'a'"]
    assert "1 of the 2 messages" in report.skipped[0].reason
    assert len(catalog.get_session("a").messages) == 2


BAD: dict[str, bytes] = {
    "half.json": b'{"session_id": "half", "messages": [{"role": "us',
    "empty.json": b"",
    "latin.json": b'{"title": "\xff"}',
    "list.json": b"[]",
    "other.json": b'{"session_id": "another", "messages": []}',
    "words.json": b'{"messages": "hello"}',
    "number.json": b'{"messages": [7]}',
    "flag.json": b'{"messages": [], "pinned": "yes"}',
    "time.json": b'{"messages": [], "created_at": 1e300}',
    "deep.json": b"[" * 200_000,
    "a b.json": b'{"messages": []}',
}


def test_damaged_and_half_written_files_are_reported_and_the_rest_is_imported(folder, catalog, caplog):
    """V18."""
    folder.add("a")
    folder.index.append({"session_id": "lost"})
    folder.add("z")
    for name, content in BAD.items():
        (folder.path / name).write_bytes(content)
    (folder.path / "a.json.tmp.17").write_bytes(b"{")
    (folder.path / "folder.json").mkdir()
    folder.projects({"project_id": PROJECT, "name": "Website"}, {"name": "none"}, 7, {"project_id": "x/y", "name": "n"})
    report = catalog.store.import_from(folder.path)
    assert (report.sessions, report.projects) == (2, 1)
    found = {each.item for each in report.skipped}
    assert found == {*BAD, "folder.json", "lost.json", "project None", "project 7", "project 'x/y'"}
    assert all(each.reason for each in report.skipped)
    assert "half.json" in caplog.text


@pytest.mark.parametrize("content", [b"{broken", b"{}", b'[7, {"session_id": 5}]'])
def test_an_index_or_projects_that_cannot_be_read_cost_no_chat(folder, catalog, content):
    """V18: the index is made from the files, and not the other way round."""
    folder.add("a")
    (folder.path / "_index.json").write_bytes(content)
    (folder.path / "projects.json").write_bytes(b"{")
    report = catalog.store.import_from(folder.path)
    assert report.sessions == 1
    assert {each.item for each in report.skipped} >= {"projects.json"}


def test_a_message_that_the_log_cannot_keep_costs_no_other(folder, tmp_path):
    """V18."""
    huge = {"role": "user", "content": "x" * 5000}
    folder.add("a", messages=[MESSAGES[0], huge, MESSAGES[1]])
    with SessionStore(tmp_path / "small", synchronous="OFF", views=False, payload_limit=4000) as store:
        report = store.import_from(folder.path)
        assert [each.item for each in report.skipped] == ["message 2 of session 'a'"]
        assert len(store.load_transcript("a")) == 2


def test_a_dry_run_says_what_would_be_and_changes_nothing(folder, catalog):
    """V18."""
    folder.projects({"project_id": PROJECT, "name": "Website"})
    folder.add("a")
    folder.add("b")
    catalog.store.import_from(folder.path, dry_run=True)
    assert catalog.store.log.last_position == 0
    told = []
    report = catalog.store.import_from(
        folder.path, dry_run=True, progress=lambda each: told.append((each.sessions, each.messages))
    )
    assert (report.sessions, report.messages, report.projects, report.dry_run) == (2, 4, 1, True)
    assert told == [(1, 2), (2, 4)]
    catalog.store.import_from(folder.path)
    assert catalog.store.import_from(folder.path, dry_run=True).sessions == 0


def test_an_import_that_was_cut_off_goes_on_where_it_was(folder, catalog):
    """V18: resumable, in the middle of a session and before its place was set."""
    many = [{"role": "user", "content": f"m{number}"} for number in range(450)]
    folder.add("a", messages=many, pinned=True, active_stream_id="t-1")

    def stop(report):
        if report.messages >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalog.store.import_from(folder.path, progress=stop)
    assert len(catalog.get_session("a").messages) == 200
    catalog.store.import_from(folder.path)
    found = catalog.get_session("a")
    assert (found.messages, found.pinned, found.active_stream_id) == (many, True, "t-1")


def test_what_is_here_already_or_was_deleted_is_left_alone_and_told(folder, catalog):
    """V18, W9: a session of the same id that came another way, and one that does not return."""
    catalog.import_session(chat("a", messages=MESSAGES[:1]))
    catalog.import_session(chat("b"))
    catalog.delete_session("b")
    folder.add("a")
    folder.add("b")
    report = catalog.store.import_from(folder.path)
    assert [(each.item, each.reason.partition(" ")[0]) for each in report.skipped] == [
        ("session 'a'", "SessionConflictError:"),
        ("session 'b'", "SessionConflictError:"),
    ]
    assert len(catalog.get_session("a").messages) == 1
    with pytest.raises(UnknownSessionError):
        catalog.get_session("b")


def test_a_deleted_project_does_not_return_and_that_of_timers_stays_one(folder, catalog):
    """V18, W19."""
    cron = catalog.ensure_cron_project()
    folder.projects(
        {"project_id": PROJECT, "name": "Website"}, {"project_id": "111111111111", "name": "Cron Jobs", "color": "#fff"}
    )
    folder.add("cron_a", project_id="111111111111")
    catalog.store.import_from(folder.path)
    assert {each["project_id"] for each in catalog.list_projects()} == {cron, PROJECT}
    assert catalog.get_session("cron_a").project_id == cron
    catalog.delete_project(PROJECT)
    assert catalog.store.import_from(folder.path).projects == 0
    assert [each["project_id"] for each in catalog.list_projects()] == [cron]


def test_a_chat_without_times_has_those_of_its_file_and_messages(folder, catalog):
    """V18: a message without a time has that of the one before it."""
    messages = [MESSAGES[0], {"role": "assistant", "content": "hi"}, {"role": "user", "content": "x", "_ts": 1e300}]
    (folder.path / "a.json").write_text(json.dumps({"messages": messages}))
    catalog.store.import_from(folder.path)
    found = catalog.get_session("a")
    assert found.created_at == pytest.approx((folder.path / "a.json").stat().st_mtime)
    assert {each.time for each in catalog.store.log.events(topics=["message.appended"])} == {(THEN + 1) * 1e6}
    assert found.title == "Untitled"


def test_a_folder_that_is_no_source_is_refused(tmp_path, store):
    """V18."""
    with pytest.raises(ForeignFileError, match=r"_index\.json"):
        store.import_from(tmp_path)
