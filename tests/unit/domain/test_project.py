"""A project: the fold of its stream (W19)."""

from engine.domain import chat_events as c
from engine.domain.encoding import Erased
from engine.domain.project import Project, evolve


def test_a_project_is_what_its_events_say() -> None:
    project = evolve(Project("p"), c.ProjectCreated(name="Website", color="#fff"), 7, 1)
    assert project == Project("p", 1, "Website", "#fff", 7)
    project = evolve(project, c.ProjectRenamed(name="Web"), 8, 2)
    project = evolve(project, c.ProjectRecolored(), 9, 3)
    assert project == Project("p", 3, "Web", None, 7)
    assert evolve(project, c.ProjectDeleted(), 10, 4).deleted


def test_what_was_erased_says_only_that_there_was_a_project() -> None:
    assert evolve(Project("p"), Erased("project.created", "0" * 64, 5), 7, 1) == Project("p", 1, "", None, 7)
