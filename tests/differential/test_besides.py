"""Each difference that scripts do not reach, seen on hermes-agent and on the engine: a check of its name."""

import importlib.metadata
import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import UnknownLaneError, UnknownSessionError
from tests.differential.differences import BESIDES
from tests.differential.ours import EngineDriver
from tests.differential.script import FakeClock, Json
from tests.differential.test_hermes import VERSION, _installed

SOURCE: Json = {"platform": "telegram", "chat_id": "100", "user_id": "u1"}
KEY = "agent:main:telegram:dm:100"
GHOST = "20200101_000000_00000000"
CHECKS: dict[str, Callable[[Any, Any], None]] = {}


def check(difference: str) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
    """Register the check of a difference: it gets hermes-agent's driver and the engine's."""

    def register(function: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        CHECKS[difference] = function
        return function

    return register


def stores(theirs: Any, ours: Any) -> tuple[Any, Any]:
    return theirs._store, ours.store


def routed(theirs: Any, ours: Any, **fields: Any) -> tuple[Any, Any]:
    """The entries of one message, sent to both."""
    message = {**SOURCE, **fields}
    return (
        theirs._store.get_or_create_session(theirs._source(message)),
        ours.store.get_or_create_session(ours._source(message)),
    )


@check("times have a zone")
def _(theirs, ours):
    first, second = routed(theirs, ours)
    assert first.created_at.tzinfo is None
    assert second.created_at.tzinfo is not None


@check("entries are snapshots")
def _(theirs, ours):
    for entry in routed(theirs, ours):
        entry.suspended = True
    again = [entry.was_auto_reset for entry in routed(theirs, ours)]
    assert again == [True, False]


@check("keys may hold any chat's id")
def _(theirs, ours):
    import gateway.session

    first, second = routed(theirs, ours, chat_id="a..b")
    with pytest.raises(ValueError, match="session_key"):
        gateway.session.SessionEntry.from_dict(first.to_dict())
    assert engine.SessionEntry.from_dict(second.to_dict()) == second


@check("strangers never share a lane")
def _(theirs, ours):
    one, other = ({"chat_id": "alice:t1"}, {"chat_id": "alice", "thread_id": "t1"})
    first, second = routed(theirs, ours, **one), routed(theirs, ours, **other)
    assert first[0].session_id == second[0].session_id
    assert first[1].session_id != second[1].session_id


@check("a switch needs a session that exists")
def _(theirs, ours):
    routed(theirs, ours)
    assert theirs._store.switch_session(KEY, GHOST).session_id == GHOST
    with pytest.raises(UnknownSessionError):
        ours.store.switch_session(KEY, GHOST)


@check("a model needs a lane that leads somewhere")
def _(theirs, ours):
    assert theirs._store.set_model_override(KEY, {"model": "m"}) is None
    assert theirs._store.get_model_override(KEY) is None
    with pytest.raises(UnknownLaneError):
        ours.store.set_model_override(KEY, {"model": "m"})


@check("a base URL is cleaned")
def _(theirs, ours):
    import gateway.session

    given = {"base_url": "https://u:secret@host/v1?key=secret"}
    assert "secret" in gateway.session.sanitize_model_override(given)["base_url"]
    assert engine.sanitize_model_override(given) == {"base_url": "https://host/v1"}


@check("writing to an unknown session raises")
def _(theirs, ours):
    first, second = stores(theirs, ours)
    assert first.append_to_transcript(GHOST, {"role": "user", "content": "x"}) is None
    with pytest.raises(UnknownSessionError):
        second.append_to_transcript(GHOST, {"role": "user", "content": "x"})


@check("a platform's id is stored once")
def _(theirs, ours):
    message = {"role": "user", "content": "x", "platform_message_id": "m1"}
    counts = []
    for entry, store in zip(routed(theirs, ours), stores(theirs, ours), strict=True):
        for _ in range(2):
            store.append_to_transcript(entry.session_id, dict(message))
    first, second = routed(theirs, ours)
    counts = [len(theirs._db.get_messages(first.session_id)), len(ours.store.load_transcript(second.session_id))]
    assert counts == [2, 1]


@check("rewriting keeps the old history")
def _(theirs, ours):
    for entry, store in zip(routed(theirs, ours), stores(theirs, ours), strict=True):
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "unusual words"})
        store.rewrite_transcript(entry.session_id, [])
    rows = theirs._db._conn.execute("SELECT content FROM messages").fetchall()
    assert "unusual words" not in repr([tuple(row) for row in rows])
    assert "unusual words" in repr(ours.store.log.query("SELECT state FROM events"))


@check("neighbours of one role stay two messages")
def _(theirs, ours):
    counts = []
    for entry, store in zip(routed(theirs, ours), stores(theirs, ours), strict=True):
        for text in ("a", "b"):
            store.append_to_transcript(entry.session_id, {"role": "user", "content": text})
        counts.append(len(store.load_transcript(entry.session_id)))
    assert counts == [1, 2]


@check("a finished expiry keeps its reason")
def _(theirs, ours):
    first, second = routed(theirs, ours)
    theirs._store.set_expiry_finalized(first)
    ours.store.set_expiry_finalized(second)
    assert theirs._db.get_session(first.session_id)["end_reason"] == "session_reset"
    assert ours.store.get_session(second.session_id).end_reason == "expired"


@check("an undo returns the whole message")
def _(theirs, ours):
    found = []
    for entry, store in zip(routed(theirs, ours), stores(theirs, ours), strict=True):
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "x"})
        found.append(set(store.rewind_session(entry.session_id)))
    assert found[1] - found[0] == {"target_message"}


@check("a redacted prompt hides numbers in names")
def _(theirs, ours):
    import gateway.config
    import gateway.session as original

    fields = {**SOURCE, "user_id": "491701234567", "user_name": "0170 1234567"}
    context = original.build_session_context(theirs._source(fields), gateway.config.GatewayConfig())
    assert "0170 1234567" in original.build_session_context_prompt(context, redact_pii=True)
    context = engine.build_session_context(ours._source(fields), engine.GatewayConfig())
    assert "0170 1234567" not in engine.build_session_context_prompt(context, redact_pii=True)


@check("bad values raise")
def _(theirs, ours):
    import gateway.config

    assert gateway.config.SessionResetPolicy(mode="daily", at_hour=99).at_hour == 99
    with pytest.raises(ValueError, match="at_hour"):
        engine.SessionResetPolicy(mode="daily", at_hour=99)


@check("a source cannot be changed")
def _(theirs, ours):
    theirs._source(SOURCE).chat_id = "other"
    with pytest.raises(AttributeError, match="replace"):
        ours._source(SOURCE).chat_id = "other"


@check("arguments of the task's variables")
def _(theirs, ours):
    import gateway.session_context

    first = list(inspect.signature(gateway.session_context.set_session_vars).parameters)
    second = list(inspect.signature(engine.set_session_vars).parameters)
    assert set(first) - set(second) == {"cwd", "async_delivery", "ui_session_id"}
    assert [name for name in first if name in second and name != "source"] == [n for n in second if n != "source"]
    assert (first.index("source"), second.index("source")) == (1, second.index("session_key") + 1)


@check("names of settings")
def _(theirs, ours):
    import gateway.config

    assert {"token", "api_key"} <= set(inspect.signature(gateway.config.PlatformConfig).parameters)
    assert not {"token", "api_key"} & set(inspect.signature(engine.PlatformConfig).parameters)
    assert (gateway.config.PlatformConfig().enabled, engine.PlatformConfig().enabled) == (False, True)
    settings = set(inspect.signature(engine.GatewayConfig).parameters)
    assert settings <= set(inspect.signature(gateway.config.GatewayConfig).parameters)


def test_every_difference_has_its_check_and_every_check_its_difference() -> None:
    assert set(CHECKS) == set(BESIDES)


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """hermes-agent and the engine, each in a folder of its own."""
    from tests.differential.hermes import HermesDriver

    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    logging.disable(logging.ERROR)
    drivers = []
    for kind in (HermesDriver, EngineDriver):
        home = tmp_path / kind.__name__
        home.mkdir()
        drivers.append(kind(home, FakeClock(), {"mode": "none"}))
    yield drivers[0], drivers[1]
    for driver in drivers:
        driver.close()
    logging.disable(logging.NOTSET)


@pytest.mark.peers
@pytest.mark.skipif(_installed() != VERSION, reason=f"needs hermes-agent {VERSION}")
class TestOnBoth:
    @pytest.mark.parametrize("name", BESIDES)
    def test_the_difference_is_one(self, both, name):
        CHECKS[name](*both)

    def test_every_public_method_of_the_originals_store_is_here_with_its_parameters(self):
        """But for set_expiry_finalized, which takes a lane's key as well, and its entry by the original's name."""
        import gateway.session

        for name, method in inspect.getmembers(gateway.session.SessionStore, inspect.isfunction):
            if name.startswith("_"):
                continue
            ours = inspect.signature(getattr(engine.SessionStore, name)).parameters
            theirs = list(inspect.signature(method).parameters)
            if name == "set_expiry_finalized":
                assert set(theirs) <= set(ours)
            else:
                assert list(ours)[: len(theirs)] == theirs, name

    def test_the_version_is_the_one_the_page_speaks_of(self):
        page = (Path(__file__).parents[2] / "docs/how-to/coming-from-hermes-agent.md").read_text()
        assert f"hermes-agent {importlib.metadata.version('hermes-agent')}" in page
