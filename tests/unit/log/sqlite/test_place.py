"""The names of an open log's files, and whether they still lead to them."""

import os

import pytest

from engine.log.sqlite import place as places
from engine.log.sqlite.place import Place


@pytest.fixture
def place(path):
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).write_bytes(b"x")
    found = Place(str(path))
    found.remember_wal()
    yield found
    found.close()


@pytest.fixture
def settled(place, path, monkeypatch):
    """A place whose folder has not changed for longer than a tick."""
    monkeypatch.setattr(places, "_TICK_SECONDS", -1.0)
    assert place.lost() == {}
    assert not place.may_have_changed()
    return place


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_name_that_is_gone_is_seen_by_a_look_at_the_folder(settled, path, suffix):
    os.unlink(f"{path}{suffix}")  # noqa: PTH108
    assert settled.may_have_changed()
    assert list(settled.lost()) == [f"{path}{suffix}"]
    assert settled.may_have_changed(), "what is lost is looked at every time"


def test_a_name_that_leads_to_another_file_is_seen(settled, path):
    other = path.with_name("other")
    other.write_bytes(b"y")
    other.replace(f"{path}-wal")
    assert settled.may_have_changed()
    assert settled.lost() == {f"{path}-wal": "was replaced by another file"}


def test_other_files_of_the_folder_cost_one_full_look(settled, path):
    path.with_name("views.db").write_bytes(b"z")
    assert settled.may_have_changed()
    assert settled.lost() == {}
    assert not settled.may_have_changed()


def test_writing_to_the_files_changes_no_name(settled, path):
    path.write_bytes(b"longer")
    assert not settled.may_have_changed()


def test_a_folder_that_changed_a_moment_ago_is_not_trusted(place, monkeypatch):
    """Two changes within one tick of the kernel's clock leave the same time behind."""
    monkeypatch.setattr(places, "_TICK_SECONDS", 1000.0)
    assert place.lost() == {}
    assert place.may_have_changed()


def test_the_wal_is_beside_the_file_and_not_beside_a_link_to_it(path, tmp_path):
    path.write_bytes(b"x")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    place = Place(str(link))
    assert place.wal == f"{path}-wal"
    place.close()
    link.unlink()
    assert list(place.lost()) == [str(link)]
    assert place.may_have_changed(), "after closing, a full look is what is left"
