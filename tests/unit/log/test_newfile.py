"""A new file: private, whole or not there, and never in the place of another by accident (V16, V17)."""

import os
import stat

import pytest

from engine.log.errors import DiskFullError, StorageError
from engine.log.newfile import new_file


def test_it_gets_its_name_when_the_block_has_ended(tmp_path):
    with new_file(tmp_path / "a", "a thing") as part:
        part.write_text("words")
        assert not (tmp_path / "a").exists()
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert (tmp_path / "a").read_text() == "words"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_block_that_fails_leaves_nothing(tmp_path):
    def fail():
        with new_file(tmp_path / "a", "a thing") as part:
            part.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_it_never_replaces_a_file(tmp_path, when):
    def make():
        (tmp_path / "a").write_text("mine")

    if when == "before":
        make()
    with pytest.raises(StorageError, match="never replaces"), new_file(tmp_path / "a", "a thing"):
        make()
    assert (tmp_path / "a").read_text() == "mine"


def test_but_when_it_is_asked_to(tmp_path):
    (tmp_path / "a").write_text("old")
    with new_file(tmp_path / "a", "a thing", replacing=True) as part:
        part.write_text("new")
    assert (tmp_path / "a").read_text() == "new"


def test_a_full_disk_is_said_to_be_one(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="free space"), new_file(tmp_path / "a", "a thing"):
        pass
