"""The public names: listed once, spelled out, and the same to be called and to be awaited."""

import inspect
from collections.abc import Iterator
from typing import get_args, get_type_hints

import pytest

import engine
from engine import AnyEvent, AsyncSessionStore, AsyncTurn, SessionSource, SessionStore, Turn
from engine.domain.registry import EVENTS
from engine.domain.sources import SourceFields

PUBLIC = {name: value for name, value in vars(engine).items() if not name.startswith("_")}
OPEN = {"SessionSource.replace", "SessionCatalog.set_attributes", "AsyncSessionCatalog.set_attributes"}
"""The options of the first are the keys of a TypedDict; a host may give the others attributes of its own (W8)."""


def methods(name: str) -> Iterator[tuple[str, inspect.Signature]]:
    for method, function in inspect.getmembers(PUBLIC[name], inspect.isroutine):
        if not method.startswith("_") and getattr(function, "__module__", "").startswith("engine"):
            yield f"{name}.{method}", inspect.signature(function)


def parameters(function: object) -> list[tuple[str, inspect._ParameterKind, object, object]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in found if each.name not in ("self", "cls")]


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isclass(value)])
def test_no_public_signature_hides_its_options(name: str) -> None:
    for method, signature in methods(name):
        kinds = {each.kind for each in signature.parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds or method in OPEN, method


def test_both_stores_open_with_the_same_options() -> None:
    assert parameters(AsyncSessionStore.open) == parameters(SessionStore.__init__)


@pytest.mark.parametrize("name", [name for name in vars(AsyncTurn) if not name.startswith("_")])
def test_both_turns_take_the_same(name: str) -> None:
    assert parameters(getattr(AsyncTurn, name)) == parameters(getattr(Turn, name))


def test_the_union_of_events_is_the_vocabulary() -> None:
    assert set(get_args(AnyEvent)) == set(EVENTS.values())


def test_the_fields_of_a_source_are_those_it_can_be_replaced_by() -> None:
    assert get_type_hints(SourceFields) == get_type_hints(SessionSource)
