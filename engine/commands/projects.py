"""Commands on projects (W19)."""

from engine.chat_values import check_chat_id, checked_color, checked_project_name
from engine.command import Command
from engine.domain import chat_events as c
from engine.domain.project import CRON_COLOR, CRON_ID, CRON_NAME, Project
from engine.domain.streams import project_stream
from engine.work import Work
from projections.inline.chats import sessions_in
from projections.inline.projects import project_named


def create_project(name: str, color: str | None) -> Command[Project]:
    return Command("create_project", _create, (checked_project_name(name), checked_color(color)))


def _create(work: Work, name: str, color: str | None) -> Project:
    return work.on_project(Project(work.new_id()), c.ProjectCreated(name=name, color=color))


def rename_project(project_id: str, name: str) -> Command[Project]:
    return Command("rename_project", _rename, (check_chat_id(project_id, "project_id"), checked_project_name(name)))


def _rename(work: Work, project_id: str, name: str) -> Project:
    project = work.known_project(project_id)
    return project if project.name == name else work.on_project(project, c.ProjectRenamed(name=name))


def recolor_project(project_id: str, color: str | None) -> Command[Project]:
    return Command("recolor_project", _recolor, (check_chat_id(project_id, "project_id"), checked_color(color)))


def _recolor(work: Work, project_id: str, color: str | None) -> Project:
    project = work.known_project(project_id)
    return project if project.color == color else work.on_project(project, c.ProjectRecolored(color=color))


def delete_project(project_id: str) -> Command[None]:
    return Command("delete_project", _delete, (check_chat_id(project_id, "project_id"),))


def _delete(work: Work, project_id: str) -> None:
    """Delete a project; its sessions stay where they are and have none."""
    project = work.known_project(project_id)
    for session_id in sessions_in(work.transaction, project_id):
        session = work.session(session_id)
        if session is not None and not session.deleted:
            work.on_session(session, c.SessionMoved(), "its project was deleted")
    work.on_project(project, c.ProjectDeleted())


def ensure_cron_project() -> Command[Project]:
    return Command("ensure_cron_project", _ensure)


def _ensure(work: Work) -> Project:
    """Return the project of scheduled jobs; make it if there is none. The write lock keeps it one."""
    found = project_named(work.transaction, CRON_NAME)
    if found is not None:
        return found
    was_there = work.transaction.version(project_stream(CRON_ID)) is not None
    project = Project(work.new_id() if was_there else CRON_ID)
    return work.on_project(project, c.ProjectCreated(name=CRON_NAME, color=CRON_COLOR))
