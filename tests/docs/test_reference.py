"""The reference is made from the code: every page is current, and nothing that is public is left out."""

import ast
import re
from pathlib import Path

import pytest

import engine
import engine.log
from devtools.reference import PAGES
from devtools.reference.errors import errors
from devtools.reference.settings import ENVIRONMENT
from engine import EngineError
from engine.domain.registry import EVENTS, UPCASTS

ROOT = Path(__file__).parent.parent.parent


def page(name: str) -> str:
    return (ROOT / f"docs/reference/{name}.md").read_text()


def headings(name: str) -> list[str]:
    return re.findall(r"^#{2,4} (.*)$", page(name), re.MULTILINE)


def all_errors(base: type[EngineError] = EngineError) -> set[type[EngineError]]:
    return {base}.union(*(all_errors(each) for each in base.__subclasses__()))


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_is_current(path: str) -> None:
    assert (ROOT / path).read_text() == PAGES[path](), "run `make docs`"


def test_every_name_that_engine_exports_stands_in_the_reference() -> None:
    source = ast.parse((ROOT / "engine/__init__.py").read_text())
    imported = [name for node in source.body if isinstance(node, ast.ImportFrom) for name in node.names]
    exported = {name.asname for name in imported if name.asname}
    assert len(exported) > 50
    in_errors = {name for name in exported if name.endswith("Error")}
    assert exported - in_errors <= set(headings("api"))
    assert in_errors == {cls.__name__ for cls in errors() if not cls.__module__.startswith("replay.")}
    assert set(engine.log.__all__) - in_errors <= set(headings("api"))


def test_every_public_method_of_a_store_stands_in_the_reference() -> None:
    awaited = re.search(r"^As those of `SessionStore`, to be awaited: (.*)\.$", page("api"), re.MULTILINE)
    assert awaited is not None
    named = set(re.findall(r"`(\w+)`", awaited[1]))
    named |= {name.partition(".")[2] for name in headings("api") if name.startswith("AsyncSessionStore.")}
    plain = {name.partition(".")[2] for name in headings("api") if name.startswith(("SessionStore.", "SessionReader."))}
    assert "append_to_transcript" in named
    assert plain - named == {"log"}, "the async store has every method of the store"


def test_every_error_is_public_and_documented_with_its_code() -> None:
    ours = {cls for cls in all_errors() if cls.__module__.startswith(("engine.", "projections.", "replay."))}
    assert ours == set(errors())
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\S[^|]*) \| (\S[^|]*) \|", page("errors"), re.MULTILINE)
    assert {(name, code) for name, code, _, _ in rows} == {(cls.__name__, cls.code) for cls in ours}
    assert len({cls.code for cls in ours}) == len(ours), "a code tells one error from all others"


def test_every_event_is_documented_with_an_example() -> None:
    text = page("events")
    retired = re.findall(r"^\| `([\w.]+)` \| its successor", text, re.MULTILINE)
    assert {*EVENTS, *UPCASTS} <= {*headings("events"), *retired}
    assert text.count("\nExample: `{") == len(EVENTS)


def test_every_environment_variable_that_is_read_stands_in_the_settings() -> None:
    literals = {
        node.value
        for path in (ROOT / "engine").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    read = {text for text in literals if re.fullmatch(r"HERMES_[A-Z_]+|TZ|LOG_SYNCHRONOUS", text)}
    assert len(read) > 10
    assert read <= set(re.findall(r"^\| `([A-Z_]+)` \|", page("settings"), re.MULTILINE))
    library = (ROOT / "engine/log/library/factory.py").read_text()
    inherited = {name for name in ENVIRONMENT if name.startswith(("SQLITE_", "ORIGINATOR_"))}
    assert {name for name in inherited if name in library} == inherited


def test_every_table_of_a_store_and_each_of_its_columns_is_explained() -> None:
    tables = headings("tables")
    assert {"events", "names", "log", "lanes", "sessions", "turns", "message_ids", "quarantine"} <= set(tables)
    silent = re.findall(r"^\| `(\w+)` \| [^|]+ \|  \|$", page("tables"), re.MULTILINE)
    assert set(silent) <= {"key", "application_name", "stream", "session_id"}, "what the name says needs no words"


def test_a_retired_tag_stands_in_the_page_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPCASTS, "message.v0", dict)
    assert PAGES["docs/reference/events.md"]().endswith("| `message.v0` | its successor |\n")


def test_the_page_of_the_command_has_the_examples_of_every_verb() -> None:
    """R8."""
    assert "For example ." not in page("command")
