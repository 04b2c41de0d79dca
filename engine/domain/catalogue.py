"""Print docs/events.md: `python -m engine.domain.catalogue`, which `make docs` runs and a test checks."""

import sys

from engine.domain.encoding import encode
from engine.domain.registry import EVENTS, UPCASTS

HEAD = """# Events

The vocabulary, one line each, made from the classes in `engine/domain/events.py` by `make docs`. A tag with
a * is read and folded, but nothing here writes it yet: it is for a web chat's host, for importing and for
deleting. So are the optional fields of a turn that keep its texts.
Who did it (actor), when (UTC microseconds), by which command and for what reason stand in the columns
beside the payload: see `docs/architecture.md`.

| tag | what it says | example payload |
|---|---|---|
"""

NOT_WRITTEN = {"session.attributes_set", "session.deleted", "session.imported"}
NOT_WRITTEN |= {"project.created", "project.renamed", "project.recoloured", "project.deleted"}


def page() -> str:
    """The whole page, so that a test can compare it with the file."""
    lines = [
        f"| `{tag}`{'*' * (tag in NOT_WRITTEN)} | {_first_sentence(cls)} | `{encode(cls.EXAMPLE).decode()}` |"
        for tag, cls in EVENTS.items()
    ]
    retired = [f"| `{tag}` | retired; read as its successor | |" for tag in UPCASTS]
    return HEAD + "\n".join(lines + retired) + "\n"


def _first_sentence(cls: type) -> str:
    return (cls.__doc__ or "").split(". ")[0].rstrip(".")


if __name__ == "__main__":
    sys.stdout.write(page())
