"""The reference pages, made from the code: `make docs` writes them, and a test checks that they are current."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from devtools.reference import api, behaviours, command, errors, events, modules, settings, tables

ROOT = Path(__file__).parent.parent.parent

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": api.page,
    "docs/reference/events.md": events.page,
    "docs/reference/errors.md": errors.page,
    "docs/reference/command.md": command.page,
    "docs/reference/tables.md": tables.page,
    "docs/reference/settings.md": settings.page,
    "docs/explanation/architecture.md": modules.page,
    **{path: partial(behaviours.page, letter) for letter, path in behaviours.PAGES.items()},
}
"""Each generated page, by its path, and the function that returns its text."""
