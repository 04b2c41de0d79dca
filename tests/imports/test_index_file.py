"""V18, V19: older installations with an index file, also found by a store that opens on them."""

import json

import pytest

from engine import ForeignFileError, Platform, SessionSource, SessionStore
from tests.imports.sources import entry

KEY = "agent:main:telegram:dm:4711"
ADA = SessionSource(Platform.TELEGRAM, "4711", user_id="ada")


@pytest.fixture
def old(tmp_path):
    """A folder as an older gateway left it."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    index = {
        "_README": "a note",
        KEY: entry(KEY, "20260601_100000_1a2b3c4d", input_tokens=1200, estimated_cost_usd=0.5),
        "bad": True,
        "worse": {"session_id": "x"},
    }
    (folder / "sessions.json").write_text(json.dumps(index))
    lines = [
        {"role": "session_meta", "model": "m"},
        {"role": "user", "content": "hello", "timestamp": 1780000000.5, "message_id": "tg-1"},
        {"role": "assistant", "content": "hi"},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "20260601_100000_1a2b3c4d.jsonl").write_text(f"{text}\n{{broken\n")
    (folder / "20260501_100000_00000000.jsonl").write_text('{"role":"user","content":"of no lane"}\n')
    return folder


def test_an_upgrade_loses_no_conversation(old, caplog):
    """V19: the folder is imported when a store opens on it, and its files stay as they were."""
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    caplog.set_level("INFO", "engine.store")
    with SessionStore(old, synchronous="OFF", views=False) as store:
        entry = store.get_or_create_session(ADA)
        assert entry.session_id == "20260601_100000_1a2b3c4d"
        messages = store.load_transcript(entry.session_id)
        assert [message["content"] for message in messages] == ["hello", "hi"]
        assert messages[0]["timestamp"] == 1780000000.5
        assert store.has_platform_message_id(entry.session_id, "tg-1")
        assert len(store.load_transcript("20260501_100000_00000000")) == 1
        (spent,) = [each.event for each in store.log.events(topics=["usage.recorded"])]
        assert (spent.input_tokens, spent.cost_usd) == (1200, 0.5)
        (said,) = [each.event for each in store.log.events(topics=["log.imported"])]
        assert (said.sessions, said.messages, said.skipped) == (2, 3, 4)
    assert {name: (old / name).read_bytes() for name in before} == before
    assert "imported 2 sessions, 3 messages and 1 lanes" in caplog.text


def test_the_index_itself_may_be_named(old, tmp_path):
    """V18."""
    with SessionStore(tmp_path / "new", synchronous="OFF", views=False) as store:
        report = store.import_from(old / "sessions.json", dry_run=True)
        assert (report.sessions, report.lanes) == (2, 1)


@pytest.mark.parametrize("key", ["agent:main:telegram:dm", "telegram:4711", "agent:main:whatsapp:group:1@g.us:2@lid"])
def test_an_older_form_of_a_key_is_kept(tmp_path, key):
    """V18."""
    (tmp_path / "sessions.json").write_text(json.dumps({key: entry(key, "s1"), "_schema": {"session_id": "s2"}}))
    with SessionStore(tmp_path, synchronous="OFF", views=False) as store:
        assert [each.session_key for each in store.list_sessions()] == [key]
        assert store.peek_session_id(key) == "s1"


def test_a_store_with_a_log_of_its_own_imports_nothing_by_itself(old):
    """V19."""
    (old / "sessions.json").rename(old / "later.json")
    with SessionStore(old, synchronous="OFF", views=False) as store:
        store.get_or_create_session(ADA)
    (old / "later.json").rename(old / "sessions.json")
    with SessionStore(old, synchronous="OFF", views=False) as store:
        assert len(store.list_sessions()) == 1
        assert list(store.log.events(topics=["log.imported"])) == []


@pytest.mark.parametrize("content", ["{broken", "[]", "\xff"])
def test_an_index_that_cannot_be_read_stops_no_gateway(old, content, caplog):
    """V19."""
    (old / "sessions.json").write_bytes(content.encode("latin-1"))
    with SessionStore(old, synchronous="OFF", views=False) as store:
        assert store.get_or_create_session(ADA).session_id
        with pytest.raises(ForeignFileError):
            store.import_from(old)
    assert "could not be imported" in caplog.text
