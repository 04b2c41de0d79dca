"""The projects that sessions can be moved to."""

from collections.abc import Iterable, Sequence

from engine.domain.encoding import encode
from engine.domain.project import Project
from engine.log.protocol import Queries
from projections.inline.changes import Change
from projections.inline.states import States
from projections.inline.texts import storable

TABLES = (
    """CREATE TABLE projects (  -- The projects there are.
    project_id TEXT PRIMARY KEY,  -- as in the name of its stream
    name       TEXT NOT NULL,     -- one project is found by it
    created_at INTEGER NOT NULL,  -- they are listed by it
    state      TEXT NOT NULL     -- the fold of the project's stream
)""",
    "CREATE INDEX projects_by_name ON projects (name, created_at)",
)
KEYS = {"projects": "project_id"}
NAMES = tuple(KEYS)

_states = States("projects", "project_id", Project, lambda project: (project.project_id,))
_WRITTEN = (
    "INSERT INTO projects VALUES (?,?,?,?) ON CONFLICT (project_id) DO UPDATE SET "
    "name = excluded.name, created_at = excluded.created_at, state = excluded.state"
)


def find_project(reads: Queries, project_id: str) -> Project | None:
    """Return a project; None if there is none."""
    return _states.first(reads, "WHERE project_id = ?", (project_id,))


def project_named(reads: Queries, name: str) -> Project | None:
    """Return the oldest project of a name; None if there is none."""
    return _states.first(reads, "WHERE name = ? ORDER BY created_at, project_id LIMIT 1", (storable(name),))


def all_projects(reads: Queries) -> list[Project]:
    """Return all projects that can be used, oldest first."""
    return _states.usable(reads, "WHERE 1 = 1 ORDER BY created_at, project_id", ())


def change_of(project: Project) -> Change:
    """Return what brings a project's row up to date: one that was deleted has none."""
    if project.deleted:
        return "DELETE FROM projects WHERE project_id = ?", (project.project_id,)
    values = (project.project_id, storable(project.name), project.created_at, encode(project).decode())
    return _WRITTEN, values


def removal_of(project_ids: Iterable[str]) -> Sequence[Change]:
    """Return what takes projects out of the table, to be folded again."""
    return [("DELETE FROM projects WHERE project_id = ?", (project_id,)) for project_id in project_ids]
