"""G18 and G18a: no credential of a model override reaches a file, a log line or an answer, whatever its shape."""

import logging
from pathlib import Path

import pytest

from engine import SessionEntry
from tests.gateway.support import lane
from tests.unit.secret_urls import SECRET, URLS

KEY = "agent:main:telegram:dm:4711"


def files_with(folder: Path, secret: str) -> list[str]:
    """Return the names of files of a folder that have a text in any byte of them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    return [path.name for path in files if secret.encode() in path.read_bytes()]


def test_g18a_no_secret_of_any_url_reaches_a_file_of_the_store_or_the_log(store, source, caplog):
    """While it is open, with its WAL, and after it was closed."""
    assert len(set(URLS)) >= 22
    with caplog.at_level(logging.DEBUG):
        for number, url in enumerate(URLS):
            key = store.get_or_create_session(source(str(number))).session_key
            store.set_model_override(key, {"model": "m", "provider": "p", "base_url": url, "api_key": SECRET})
            assert SECRET not in repr(store.get_model_override(key))
            assert SECRET not in repr(lane(store, key))
        assert files_with(store.sessions_dir, SECRET) == []
        store.close()
    assert files_with(store.sessions_dir, SECRET) == []
    assert SECRET not in caplog.text
    assert "'api_key'" in caplog.text


@pytest.mark.parametrize(
    "override",
    [
        {"model": "m", "headers": {"Authorization": SECRET}},
        {"model": {"api_key": SECRET}},
        {"model": "m", "provider": [SECRET]},
        {"model": f"{SECRET}\n"},
        {"model": f" {SECRET}"},
        {"model": SECRET * 50},
        {"model": "m", SECRET: "x"},
        {"model": "m", "base_url": {"url": SECRET}},
    ],
)
def test_g18a_no_secret_beside_the_names_reaches_a_file(store, source, override):
    store.get_or_create_session(source())
    store.set_model_override(KEY, override)
    assert SECRET not in repr(store.get_model_override(KEY))
    assert files_with(store.sessions_dir, SECRET) == []


def test_g18a_an_override_that_was_set_stays_though_a_bad_one_is_dropped_whole(store, source):
    """Nothing worth keeping is None: the choice is given back, not left half."""
    store.get_or_create_session(source())
    store.set_model_override(KEY, {"model": "large"})
    store.set_model_override(KEY, {"api_key": SECRET})
    assert store.get_model_override(KEY) is None


def test_g18_an_entry_read_from_a_file_has_no_credential():
    written = SessionEntry.from_dict(
        {
            "session_key": KEY,
            "session_id": "s",
            "created_at": "2026-07-01T12:00:00+00:00",
            "updated_at": "2026-07-01T12:00:00+00:00",
            "model_override": {"model": "m", "api_key": SECRET, "base_url": f"https://u:{SECRET}@host/v1"},
        }
    )
    assert written.model_override == {"model": "m", "base_url": "https://host/v1"}
    assert SECRET not in repr(written.to_dict())
