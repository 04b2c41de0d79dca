"""Projects (W19)."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from engine import SessionCatalog, SessionStore
from tests.gateway.support import FakeClock


def test_projects_are_rows_with_an_id_of_twelve_hex_digits(catalog: SessionCatalog, clock: FakeClock) -> None:
    """W19."""
    one = catalog.create_project("Website", "#10b981")
    clock.advance(seconds=1)
    other = catalog.create_project("  Two\nlines ")
    assert re.fullmatch("[0-9a-f]{12}", one["project_id"])
    assert {**one, "project_id": ""} == {
        "project_id": "",
        "name": "Website",
        "color": "#10b981",
        "created_at": 1782915930.0,
    }
    assert (other["name"], other["color"]) == ("Two lines", None)
    assert catalog.list_projects() == [one, other]


def test_a_project_is_renamed_and_recolored(catalog: SessionCatalog) -> None:
    """W19."""
    project_id = catalog.create_project("Website")["project_id"]
    assert catalog.rename_project(project_id, "Web")["name"] == "Web"
    assert catalog.recolor_project(project_id, "#fff")["color"] == "#fff"
    assert catalog.recolor_project(project_id, None) == catalog.list_projects()[0]
    for bad in ("", " ", None, "a\0b"):
        with pytest.raises(ValueError, match="name must be"):
            catalog.rename_project(project_id, bad)  # type: ignore[arg-type]


def test_the_sessions_of_a_deleted_project_have_none_and_are_untouched(
    catalog: SessionCatalog, clock: FakeClock
) -> None:
    """W19."""
    project_id = catalog.create_project("Website")["project_id"]
    here = catalog.move_to_project(catalog.new_session().session_id, project_id)
    deleted = catalog.move_to_project(catalog.new_session().session_id, project_id)
    catalog.delete_session(deleted.session_id)
    assert here.project_id == project_id
    clock.advance(seconds=5)
    assert catalog.delete_project(project_id) is None
    after = catalog.get_session(here.session_id)
    assert (after.project_id, after.updated_at) == (None, here.updated_at)
    assert catalog.list_projects() == []


def test_an_unknown_project_is_a_key_error(catalog: SessionCatalog) -> None:
    """W19."""
    chat = catalog.new_session()
    gone = catalog.create_project("Website")["project_id"]
    catalog.delete_project(gone)
    asked: list[Callable[[str], Any]] = [
        lambda project: catalog.move_to_project(chat.session_id, project),
        lambda project: catalog.rename_project(project, "Web"),
        lambda project: catalog.recolor_project(project, None),
        catalog.delete_project,
    ]
    for ask in asked:
        for unknown in (gone, "0" * 12):
            with pytest.raises(KeyError, match=f"there is no project '{unknown}'"):
                ask(unknown)
        with pytest.raises(ValueError, match="project_id must be"):
            ask("../x")


def test_projects_outlive_the_store_and_a_rebuild(
    catalog: SessionCatalog, store: SessionStore, open_store: Callable[..., SessionStore]
) -> None:
    """W19."""
    chat = catalog.move_to_project(catalog.new_session().session_id, catalog.create_project("Website")["project_id"])
    listed = catalog.list_projects()
    store.rebuild()
    again = SessionCatalog(open_store())
    assert again.list_projects() == listed
    assert again.get_session(chat.session_id) == chat


def test_there_is_one_project_of_scheduled_jobs(catalog: SessionCatalog) -> None:
    """W19: found by its name, whoever made it, and made by one of many who ask at once."""
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: catalog.ensure_cron_project(), range(32)))
    [cron] = catalog.list_projects()
    assert found == {cron["project_id"]}
    assert (cron["name"], cron["color"]) == ("Cron Jobs", "#6366f1")
    catalog.delete_project(cron["project_id"])
    own = catalog.create_project("Cron Jobs", "#fff")
    assert catalog.ensure_cron_project() == own["project_id"]


def ensured(folder: Path) -> str:
    with SessionStore(folder, views=False) as store:
        return SessionCatalog(store).ensure_cron_project()


def test_two_processes_make_one_project_of_scheduled_jobs(tmp_path: Path) -> None:
    """W19."""
    with get_context("spawn").Pool(2) as processes:
        assert len(set(processes.map(ensured, [tmp_path / "sessions"] * 4, 1))) == 1
