"""The page of events, from the registered classes."""

from devtools.reference.markdown import code, paragraphs, table
from devtools.reference.signatures import Field, fields
from engine.domain.encoding import encode
from engine.domain.events import DecisionInputs, Inherited
from engine.domain.registry import EVENTS, UPCASTS, Event

HEAD = """# Events

<!-- made by `make docs` from engine/domain/events.py and chat_events.py -->

The whole vocabulary. An event's payload says what happened; who did it, when, by which command and for what reason
stand in the columns beside it, see [tables](tables.md). A field with a default is left out of the payload while it has
that value. Which event is on which stream, and how old payloads are read, is in
[architecture](../explanation/architecture.md).
"""

STREAMS = {
    "lane": "On the stream of a lane, `lane:<opaque id>`",
    "turn": "On the stream of the session in which the turn began",
    "session": "On the stream of a session, `session:<id>`",
    "message": "On the stream of a session, `session:<id>`",
    "transcript": "On the stream of a session, `session:<id>`",
    "usage": "On the stream of a lane, `lane:<opaque id>`, or of a session, `session:<id>`",
    "project": "On the stream of a project, `project:<id>`",
    "log": "On the stream of the log itself, `log`",
    "store": "On the stream of the log itself, `log`",
}
"""The stream of each kind of event, by the first part of its tag."""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for kind in dict.fromkeys(tag.partition(".")[0] for tag in EVENTS):
        parts.append(f"## {kind}\n\n{STREAMS[kind]}.\n")
        parts += [_section(tag, cls) for tag, cls in EVENTS.items() if tag.startswith(f"{kind}.")]
    parts.append(f"## Parts of events\n\n{_part(DecisionInputs)}\n{_part(Inherited)}")
    if UPCASTS:
        parts.append("## Retired\n\n" + table(["tag", "read as"], [[code(tag), "its successor"] for tag in UPCASTS]))
    return "\n".join(parts)


def _section(tag: str, cls: type[Event]) -> str:
    said = "\n\n".join(paragraphs(cls))
    example = encode(cls.EXAMPLE).decode()
    return f"### {tag}\n\n`{cls.__name__}`: {said}\n\n{fields_table(fields(cls))}\nExample: `{example}`\n"


def _part(cls: type) -> str:
    said = "\n\n".join(paragraphs(cls))
    return f"### {cls.__name__}\n\n{said}\n\n{fields_table(fields(cls))}"


def fields_table(listed: list[Field]) -> str:
    """Return the table of a struct's fields."""
    return table(
        ["field", "type", "default", "meaning"],
        [[code(each.name), code(each.kind), code(each.default), each.meaning] for each in listed],
    )
