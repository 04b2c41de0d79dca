"""The page of the API, from the signatures and docstrings of everything that `engine` exports."""

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import msgspec

import engine
import engine.log
from devtools.reference.markdown import code, paragraphs, table
from devtools.reference.signatures import fields, members, result, signature
from engine import EngineError

HEAD = """# API

<!-- made by `make docs` from the docstrings and signatures of what `engine` exports -->

Everything here can be imported from `engine`, if not said otherwise. Numbers such as G36 are those of
[behaviours](../explanation/behaviours.md). What is raised is in [errors](errors.md), the events are in
[events](events.md), and the options of constructors in [settings](settings.md).
"""

SECTIONS = {
    "Stores": ["SessionStore", "AsyncSessionStore", "SessionReader"],
    "Chats": ["SessionCatalog", "AsyncSessionCatalog", "ChatSession", "ChatSummary"],
    "Turns": ["Turn", "AsyncTurn", "acting"],
    "The log": ["EventLog", "Envelope", "NEXT_VERSION"],
}
"""Names that come first; all others follow by kind."""

OTHERS = {
    "events": "The module of all [events](events.md).",
    "AnyEvent": "The union of all events, for annotations: a `match` on it is narrowed and checked by type checkers.",
    "__version__": "The version of the installed package.",
}
"""Names that are neither classes nor functions."""

_OWN = ("package_version", "TYPE_CHECKING")
"""Names that the module imports for itself."""

FOR_THE_PACKAGE = {"abandon_after_fork", "read", "repairing", "sweeping", "live_rows", "run", "line", "keep"}
"""Methods that only the package's own modules call."""


def page() -> str:
    """Return the page."""
    names = exported()
    first = [name for section in SECTIONS.values() for name in section]
    rest = {name: value for name, value in names.items() if name not in first}
    errors = [name for name, value in rest.items() if inspect.isclass(value) and issubclass(value, EngineError)]
    values = [name for name, value in rest.items() if inspect.isclass(value) and name not in errors]
    functions = [name for name, value in rest.items() if inspect.isfunction(value)]
    unknown = rest.keys() - {*errors, *values, *functions, *OTHERS}
    if unknown:
        raise TypeError(f"the page has no section for {sorted(unknown)}")
    parts = [HEAD]
    for title, listed in SECTIONS.items():
        parts += [f"## {title}\n", *(_entry(name, names[name]) for name in listed)]
    parts += ["## Values\n", *(_entry(name, names[name]) for name in sorted(values))]
    parts += ["## Functions\n", *(_entry(name, names[name]) for name in sorted(functions))]
    parts += ["## From `engine.log`\n\nFor commands and projections on a log of one's own.\n"]
    parts += [_entry(name, value) for name, value in of_the_log().items()]
    parts += [f"## Errors\n\n{', '.join(code(name) for name in sorted(errors))}: see [errors](errors.md).\n"]
    parts += ["## Other names\n", *(f"### {name}\n\n{said}\n" for name, said in OTHERS.items())]
    return "\n".join(parts)


def exported() -> dict[str, Any]:
    """Return what `engine` exports: the names its `__init__` imports under their own name, and the version."""
    return {
        name: value
        for name, value in [*vars(engine).items(), ("__version__", engine.__version__)]
        if name == "__version__" or (not name.startswith("_") and not _submodule(name, value) and name not in _OWN)
    }


def of_the_log() -> dict[str, Any]:
    """Return what `engine.log` exports and `engine` does not, in the order of its `__all__`."""
    return {name: getattr(engine.log, name) for name in engine.log.__all__ if not hasattr(engine, name)}


def _submodule(name: str, value: object) -> bool:
    return inspect.ismodule(value) and name != "events"


def _entry(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return _class(name, value)
    if inspect.isfunction(value):
        return f"### {name}\n\n`{signature(value)}`\n\n{_text(value)}\n"
    return f"### {name}\n\n`{value!r}`: {_CONSTANTS[name]}\n"


_CONSTANTS = {
    "NEXT_VERSION": "stands in an envelope for the stream's next version, for facts that depend on no earlier state.",
    "LOG_STREAM": "the stream of what happens to the log itself.",
}


def _class(name: str, cls: type) -> str:
    own_call = None if getattr(cls, "_is_protocol", False) else vars(cls).get("__init__")
    parts = [
        f"### {name}\n",
        f"`{signature(own_call, name)}`\n" if inspect.isfunction(own_call) else "",
        f"{_text(cls)}\n",
    ]
    if issubclass(cls, Enum):
        parts.append(f"Members: {', '.join(code(value) for value in members(cls))}.\n")
    if issubclass(cls, msgspec.Struct):
        parts.append(_fields(cls))
    methods = {each.name: each for each in _members(cls)}
    inherited = [base for base in cls.__mro__[1:] if base in exported().values()]
    if inherited:
        parts.append(f"It has everything of {' and '.join(code(base.__name__) for base in inherited)} as well.\n")
    if cls is engine.AsyncSessionStore:
        same = _awaited(methods)
        parts.append(f"As those of `SessionStore`, to be awaited: {', '.join(code(each) for each in same)}.\n")
        methods = {each: method for each, method in methods.items() if each not in same}
    parts += [f"#### {name}.{each.name}\n\n{each.call}{each.text}\n" for each in methods.values()]
    return "\n".join(part for part in parts if part)


class Member(NamedTuple):
    """A method or property: its name, its call as a paragraph, and what its docstring says."""

    name: str
    call: str
    text: str


def _fields(cls: type) -> str:
    bases = [base for base in reversed(cls.__mro__) if base.__module__.startswith("engine")]
    rows = [
        [code(each.name), code(each.kind), code(each.default), each.meaning] for base in bases for each in fields(base)
    ]
    return table(["field", "type", "default", "meaning"], rows)


def _members(cls: type) -> Iterator[Member]:
    """Yield the members of a class and of those of its bases that are not public themselves."""
    seen = set(FOR_THE_PACKAGE)
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != "engine" or (base is not cls and base in exported().values()):
            continue
        for name, member in vars(base).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            called = function.fget if isinstance(function, property) else function
            if inspect.isfunction(called):
                call = result(called) if isinstance(function, property) else signature(called)
                named_only = getattr(cls, "_is_protocol", False) and called.__doc__ is None
                yield Member(name, f"`{call}`\n\n", "" if named_only else _text(called))


def _awaited(methods: dict[str, Member]) -> list[str]:
    """Return the methods that are those of SessionStore but for the `await`."""
    plain = {each.name: each.call for cls in (engine.SessionReader, engine.SessionStore) for each in _members(cls)}
    return sorted(name for name, each in methods.items() if each.call == f"`await {plain.get(name, '')[1:]}")


def _text(documented: object) -> str:
    return "\n\n".join(part for part in paragraphs(documented) if not part.startswith("Args:"))
