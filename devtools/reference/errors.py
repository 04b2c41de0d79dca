"""The page of errors, from their classes: a docstring's first paragraph says what happened, the next what to do."""

import inspect

import engine
import replay.errors
from devtools.reference.markdown import code, paragraphs, table
from engine import EngineError

HEAD = """# Errors

<!-- made by `make docs` from engine/errors.py and engine/log/errors.py -->

Everything the engine refuses on purpose is an `EngineError` with a `code` for logs and hosts to match. A bad argument
is a `ValueError` that names the argument. An error's message says what happened to what, and what to do; this page says
the same in general. A command that raised has changed nothing, but for the
exceptions in [guarantees](../explanation/guarantees.md#durability).

All can be imported from `engine`, but those of `replay`.
"""


ALSO = "Each is also a class of the eventsourcing library, for code that was written for that library."


def page() -> str:
    """Return the page."""
    return "\n".join(
        [
            HEAD,
            f"## Of a store's commands\n\n{_table('engine.errors')}",
            f"## Of the log\n\n{ALSO}\n\n{_table('engine.log.errors')}",
            f"## Of questions about a log\n\nFrom `replay`.\n\n{_table('replay.errors')}",
            f"## The base of all\n\n{_table(EngineError.__module__)}",
        ]
    )


def errors() -> list[type[EngineError]]:
    """Return the public errors, in the order they are defined in."""
    classes = [*vars(engine).values(), *vars(replay.errors).values()]
    found = {cls for cls in classes if inspect.isclass(cls) and issubclass(cls, EngineError)}
    return sorted(found, key=lambda cls: inspect.getsourcelines(cls)[1])


def _table(module: str) -> str:
    rows = [_row(cls) for cls in errors() if cls.__module__ == module]
    return table(["class", "code", "what it means", "what to do", "is also"], rows)


def _row(cls: type[EngineError]) -> list[str]:
    meaning, remedy = paragraphs(cls)
    foreign = [base for base in cls.__mro__ if not issubclass(base, EngineError) and not issubclass(EngineError, base)]
    also = [*(base for base in cls.__bases__ if base in errors()), *foreign[:1]]
    return [code(cls.__name__), code(cls.code), meaning, remedy, ", ".join(code(each.__name__) for each in also)]
