"""Export of a lane or a conversation, and importing it back (R17)."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from engine import ArchivedError, SessionCatalog, SessionStore, acting
from engine.domain import events as e
from engine.log.sqlite.eventlog import EventLog
from replay import (
    BadExportError,
    ExportConflictError,
    ImportedExport,
    UnknownSubjectError,
    export,
    import_export,
    timeline_html,
)
from tests.chance import SOAK
from tests.faults.disk import memory_folder
from tests.gateway.support import FakeClock, policy, said, say, source
from tests.replay.decisions import told
from tests.replay.everything import ToldEverything, histories
from tests.replay.incident import ADA, MARGARET, TEAM, ZONE

KEY = "agent:main:telegram:dm:4711"
FEW = settings(max_examples=15 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
Opening = Callable[..., SessionStore]


@pytest.fixture
def other(tmp_path: Path, clock: FakeClock) -> Iterator[SessionStore]:
    """Another store, to import into."""
    with SessionStore(tmp_path / "other", clock=clock, synchronous="OFF", views=False) as store:
        yield store


def talked(store: SessionStore) -> str:
    """A lane with a compressed session, a fork, an undo and an erased message; its key."""
    first = store.get_or_create_session(source(chat_name="Ada", user_id="u-1234", user_name="Ada Byron")).session_id
    store.append_to_transcript(first, {"role": "user", "content": "Ada here, +31 6 1234 5678", "message_id": "tg-77"})
    say(store, first, "mail me: ada@example.org", "a\ud800 nul\x00", role="assistant")
    child = store.compress_session(first, None, [{"role": "system", "content": "so far"}], covers=1)
    store.fork_session(child)
    say(store, child, "one", "two")
    store.rewind_session(child)
    (gone,) = store.append_messages(child, [{"role": "user", "content": "secret"}])
    store.log.erase([gone], actor="desk", reason="asked for")
    return KEY


def test_an_export_imports_back_exactly(open_store: Opening, other: SessionStore) -> None:
    """R17: every event with its time, actor, id and version; transcripts, heads and the lane are the same."""
    store = open_store(policy("both"))
    lines = list(export(store.log, talked(store)))
    with acting("ada", reason="moved house"):
        report = import_export(other, lines)
    assert report == ImportedExport(KEY, sessions=3, lanes=1, events=len(lines) - 1, erased=1)
    assert list(export(other.log, KEY)) == lines
    for session in store.conversation(store.peek_session_id(KEY) or ""):
        assert other.get_session(session.session_id) == session
        assert said(other, session.session_id) == said(store, session.session_id)
    assert other.list_sessions() == store.list_sessions()
    found = other.verify()
    assert found.ok, found
    assert found.erased == 1
    assert other.has_platform_message_id(store.peek_session_id(KEY) or "", "tg-77")
    *_, recorded = other.log.events()
    assert (recorded.event, recorded.actor, recorded.reason) == (
        e.ImportFinished(source="export", sessions=3, messages=6, skipped=0),
        "ada",
        "moved house",
    )


def test_life_goes_on_after_an_import(open_store: Opening, other: SessionStore, clock: FakeClock) -> None:
    """R17: the lane leads on, and what was sent before is known."""
    store = open_store()
    talked(store)
    import_export(other, export(store.log, KEY))
    entry = other.get_or_create_session(source())
    assert entry.session_id == store.peek_session_id(KEY)
    before = len(other.load_transcript(entry.session_id))
    other.append_to_transcript(entry.session_id, {"role": "user", "content": "again", "message_id": "tg-77"})
    say(other, entry.session_id, "new")
    assert len(other.load_transcript(entry.session_id)) == before + 1


def test_a_session_is_exported_with_its_conversation_and_no_lane(open_store: Opening, other: SessionStore) -> None:
    """R17: `export SESSION`."""
    store = open_store()
    talked(store)
    tip = store.peek_session_id(KEY) or ""
    lines = list(export(store.log, tip))
    assert json.loads(lines[0])["kind"] == "session"
    assert import_export(other, lines).lanes == 0
    assert said(other, tip) == said(store, tip)
    assert other.list_sessions() == []


def test_an_export_up_to_a_moment_is_as_it_was_then(open_store: Opening, other: SessionStore) -> None:
    store = open_store()
    session = store.get_or_create_session(source()).session_id
    say(store, session, "one")
    then = store.log.last_position
    say(store, session, "two")
    import_export(other, export(store.log, KEY, at=then))
    assert [each["content"] for each in said(other, session)] == ["one"]


@FEW
@given(history=histories)
def test_any_history_imports_back_exactly(history) -> None:
    """R17: whatever commands made it."""
    with told(history, ToldEverything) as story, memory_folder() as folder:
        keys = sorted({entry.session_key for entry in story.store.list_sessions()})
        for number, key in enumerate(keys[:3]):
            try:
                lines = list(export(story.store.log, key))
            except ArchivedError:
                continue
            with SessionStore(folder / str(number), synchronous="OFF", views=False) as back:
                import_export(back, lines)
                assert list(export(back.log, key)) == lines
                assert back.verify().ok
                for session_id in {each.stream.removeprefix("session:") for each in back.log.events()}:
                    if not session_id.startswith(("lane:", "log")):
                        assert said(back, session_id) == said(story.store, session_id)


# What is refused


def test_what_was_added_to_a_message_comes_along_to_the_same_one(open_store: Opening, other: SessionStore) -> None:
    """R17, W8: it names the position of the message, which is another one there."""
    store = open_store()
    for each in (store, other):
        each.get_or_create_session(source("elsewhere"))
        say(each, each.get_or_create_session(source("elsewhere")).session_id, *"abcdefg"[: 3 if each is store else 7])
    catalog = SessionCatalog(store)
    chat = catalog.new_session().session_id
    told = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    catalog.save_messages(chat, told)
    catalog.save_messages(chat, [told[0], {**told[1], "liked": True}])
    import_export(other, export(store.log, chat))
    assert [each.get("liked") for each in other.load_transcript(chat)] == [None, True]
    assert other.load_transcript(chat) == store.load_transcript(chat)


def test_what_is_in_an_archive_is_not_exported_as_if_it_were_there(
    open_store: Opening, other: SessionStore, clock: FakeClock, tmp_path: Path
) -> None:
    """R17, V16: the error names the archive; a line without its content does not import."""
    store = open_store()
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one")
    store.end_session(entry.session_id, "idle")
    store.set_expiry_finalized(entry.session_key)
    clock.advance(days=1)
    lines = list(export(store.log, entry.session_id))
    assert store.archive(timedelta(hours=1), tmp_path / "old.archive").messages == 1
    for form in ("jsonl", "markdown", "html"):
        with pytest.raises(ArchivedError, match=r"old\.archive"):
            export(store.log, entry.session_id, form)
    (position,) = (each.position for each in store.log.events(topics=["message.appended"]))
    ((*_, marker),) = store.log.reader.stored_at([position])
    row = next(number for number, line in enumerate(lines) if '"message.appended"' in line)
    lines[row] = json.dumps({**json.loads(lines[row]), "payload": json.loads(str(marker))}, separators=(",", ":"))
    with pytest.raises(BadExportError, match="in an archive"):
        import_export(other, lines)
    store.restore(tmp_path / "old.archive")
    import_export(other, export(store.log, entry.session_id))
    assert other.verify().ok


def test_nothing_is_imported_twice(open_store: Opening, other: SessionStore) -> None:
    store = open_store()
    talked(store)
    lines = list(export(store.log, KEY))
    import_export(other, lines)
    last = other.log.last_position
    with pytest.raises(ExportConflictError, match="is in this store already"):
        import_export(other, lines)
    assert other.log.last_position == last


def test_a_lane_and_a_title_of_the_store_are_not_taken_over(open_store: Opening, other: SessionStore) -> None:
    store = open_store()
    talked(store)
    lines = list(export(store.log, KEY))
    other.get_or_create_session(source())
    with pytest.raises(ExportConflictError, match=r"the lane 'agent:main:telegram:dm:4711' is in this store"):
        import_export(other, lines)
    tip = store.peek_session_id(KEY) or ""
    store.set_session_title(tip, "Trip")
    mine = other.get_or_create_session(source("9")).session_id
    other.set_session_title(mine, "Trip")
    last = other.log.last_position
    with pytest.raises(ExportConflictError, match=f"{mine}.*'Trip'; rename it first"):
        import_export(other, export(store.log, tip))
    assert other.log.last_position == last


def test_a_dry_run_changes_nothing_and_says_the_same(open_store: Opening, other: SessionStore) -> None:
    """R6."""
    store = open_store()
    talked(store)
    lines = list(export(store.log, KEY))
    tried = import_export(other, lines, dry_run=True)
    assert (tried.dry_run, other.log.last_position) == (True, 0)
    done = import_export(other, lines)
    assert (done.sessions, done.events) == (tried.sessions, tried.events)


@pytest.mark.parametrize(
    ("change", "said_so"),
    [
        (lambda lines: [], "the first line is no head"),
        (lambda lines: ["hello"], "the first line is no head"),
        (lambda lines: ['{"export":"other","version":1,"subject":"x","events":0}'], "not 'session-engine export'"),
        (lambda lines: ['{"export":"session-engine export","version":9,"subject":"x","events":0}'], "of version 9"),
        (lambda lines: lines[:-1], "it was cut off"),
        (lambda lines: [*lines[:-1], lines[-1][:40]], "is no event of an export"),
        (lambda lines: [lines[0], lines[1].replace('"session:', '"log:'), *lines[2:]], "lanes and sessions"),
        (lambda lines: [lines[0], lines[1].replace('"session:', '"session:../'), *lines[2:]], "line 2 is no event"),
    ],
)
def test_what_is_no_export_is_refused_and_changes_nothing(
    open_store: Opening, other: SessionStore, change: Callable[[list[str]], list[str]], said_so: str
) -> None:
    store = open_store()
    talked(store)
    with pytest.raises(BadExportError, match=said_so):
        import_export(other, change(list(export(store.log, KEY))))
    assert other.log.last_position == 0


def test_lines_in_another_order_are_refused(open_store: Opening, other: SessionStore) -> None:
    store = open_store()
    talked(store)
    head, *lines = export(store.log, KEY)
    with pytest.raises(Exception, match="version"):
        import_export(other, [head, *reversed(lines)])
    assert other.log.last_position == 0


def test_an_unknown_form_and_an_unknown_subject_are_refused(incident: EventLog) -> None:
    with pytest.raises(ValueError, match="jsonl, markdown, html"):
        export(incident, ADA, "pdf")  # type: ignore[arg-type]
    for subject in ("nobody", "@1"):
        with pytest.raises(UnknownSubjectError):
            export(incident, subject)


def test_an_event_of_a_newer_version_and_a_payload_that_is_no_json_come_back_too(
    open_store: Opening, other: SessionStore
) -> None:
    """R17: what this version cannot read it does not lose."""
    store = open_store()
    session = store.get_or_create_session(source()).session_id
    rows = store.log.reader.stored_stream(f"session:{session}", -1, 9, 9)
    blob = export(store.log, session)
    lines = list(blob)
    strange = json.loads(lines[1]) | {"version": len(rows) + 1, "type": "session.flown", "payload": {"to": "Delft"}}
    broken = strange | {"version": len(rows) + 2, "payload": {"$raw": b"\xff not JSON".hex(), "text": False}}
    head = json.loads(lines[0]) | {"events": len(rows) + 2}
    for number, each in enumerate((strange, broken)):
        each["id"] = f"{number:032x}"
    given = [json.dumps(head), *lines[1:], json.dumps(strange, separators=(",", ":")), json.dumps(broken)]
    import_export(other, given)
    again = list(export(other.log, session))
    assert [json.loads(each) for each in again] == [json.loads(each) for each in given]


# For reading


def test_markdown_has_the_live_messages_and_what_happened(incident: EventLog) -> None:
    """R17."""
    text = "\n".join(export(incident, MARGARET, "markdown", zone=ZONE))
    assert text.startswith("# agent:main:telegram:dm:4703\n\nFrom 2026-07-01 16:19:16")
    assert text.count("\n## Session ") == 4
    assert "**user**, 2026-07-02 22:10:07\n\n> " in text
    assert "\n## What happened\n\n- 2026-07-01 16:19:16: created 20260701_161916_11ecba29" in text


def test_markdown_quotes_what_would_be_markup(open_store: Opening) -> None:
    store = open_store()
    session = store.get_or_create_session(source()).session_id
    say(store, session, "# no heading\n<script>alert(1)</script>\n\x1b[31m\u202e")
    text = "\n".join(export(store.log, KEY, "markdown"))
    assert "> # no heading\n> &lt;script&gt;alert(1)&lt;/script&gt;\n> \ufffd[31m\ufffd" in text


def test_html_is_the_timelines_page(incident: EventLog) -> None:
    assert "".join(export(incident, TEAM, "html", zone=ZONE)) == timeline_html(incident, TEAM, zone=ZONE)


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html"])
def test_redaction_hides_ids_names_addresses_and_numbers_in_every_form(open_store: Opening, form) -> None:
    """R17: the same person is the same word everywhere; what says nothing of anybody stays."""
    store = open_store()
    talked(store)
    text = "\n".join(export(store.log, KEY, form, redact=True))
    for hidden in (":4711", '"4711"', "u-1234", "Ada Byron", "ada@example.org", "1234 5678", "tg-77"):
        assert hidden not in text, hidden
    assert "[address]" in text
    assert "[number]" in text
    assert "two" in text or "one" in text
    keyed = "\n".join(export(store.log, KEY, form, redact=True, key="of this house"))
    assert keyed != text


def test_a_redacted_export_does_not_import_back(open_store: Opening, other: SessionStore) -> None:
    store = open_store()
    talked(store)
    with pytest.raises(BadExportError, match="export without redaction"):
        import_export(other, export(store.log, KEY, redact=True))


def test_times_and_sessions_are_no_numbers_to_hide(incident: EventLog) -> None:
    text = "\n".join(export(incident, ADA, "markdown", redact=True, zone=ZONE))
    assert "## Session 20260702_150500_204db854" in text
    assert "2026-07-02 15:05:00" in text
