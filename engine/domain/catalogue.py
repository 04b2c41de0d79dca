"""Print docs/events.md: `python -m engine.domain.catalogue`, which `make docs` runs and a test checks."""

import sys

from engine.domain.encoding import encode
from engine.domain.registry import EVENTS, UPCASTS

HEAD = """# Events

Everything that can happen, one line each, made from the classes in `engine/domain/events.py` by `make docs`.
Who did it (actor), when (UTC microseconds), by which command and for what reason stand in the columns
beside the payload: see `docs/architecture.md`.

| tag | what it says | example payload |
|---|---|---|
"""


def page() -> str:
    """The whole page, so that a test can compare it with the file."""
    lines = [
        f"| `{tag}` | {(cls.__doc__ or '').split('. ')[0].rstrip('.')} | `{encode(cls.EXAMPLE).decode()}` |"
        for tag, cls in EVENTS.items()
    ]
    retired = [f"| `{tag}` | retired; read as its successor | |" for tag in UPCASTS]
    return HEAD + "\n".join(lines + retired) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
