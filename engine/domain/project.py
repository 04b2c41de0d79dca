"""A project: a name and a colour that sessions are moved to (W19)."""

import msgspec

from engine.domain import chat_events as c
from engine.domain.encoding import Content

CRON_NAME = "Cron Jobs"
CRON_COLOR = "#6366f1"
CRON_ID = "c20c20c20c20"
"""The id that the project of scheduled jobs gets, so that it can be told before anybody has made the project."""


class Project(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A project as its events make it. One whose creation was erased has no name."""

    project_id: str
    version: int = 0
    name: str = ""
    color: str | None = None
    created_at: int = 0
    deleted: bool = False


def evolve(project: Project, event: Content, time: int, version: int) -> Project:
    """Return the project after an event."""
    after = msgspec.structs.replace(project, version=version, created_at=project.created_at or time)
    match event:
        case c.ProjectCreated():
            return msgspec.structs.replace(after, name=event.name, color=event.color)
        case c.ProjectRenamed():
            return msgspec.structs.replace(after, name=event.name)
        case c.ProjectRecolored():
            return msgspec.structs.replace(after, color=event.color)
        case c.ProjectDeleted():
            return msgspec.structs.replace(after, deleted=True)
    return after
