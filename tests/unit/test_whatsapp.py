"""G12: the alias files of a WhatsApp bridge, and when they are read again."""

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from engine import whatsapp
from engine.whatsapp import canonical_whatsapp_identifier


def write(folder: Path, name: str, content: object) -> None:
    (folder / f"lid-mapping-{name}.json").write_text(json.dumps(content))


def test_g12_aliases_meet_at_the_shortest_id_from_either_side(tmp_path: Path) -> None:
    write(tmp_path, "491701234567", "99887766554433@lid")
    write(tmp_path, "99887766554433_reverse", "491701234567")
    for value in ("+491701234567@s.whatsapp.net", "99887766554433@lid"):
        assert canonical_whatsapp_identifier(value, tmp_path) == "491701234567"


def test_g12_shorter_id_wins_over_one_that_sorts_before_it(tmp_path: Path) -> None:
    write(tmp_path, "1111", "99")
    assert canonical_whatsapp_identifier("1111", tmp_path) == "99"


def test_g12_of_equally_short_ids_the_first_in_order_is_taken(tmp_path: Path) -> None:
    for first in range(100, 200, 10):
        chain = [str(first + number) for number in (5, 9, 1, 7, 0, 3, 8, 2, 6, 4)]
        for alias, target in pairwise(chain):
            write(tmp_path, alias, target)
        assert canonical_whatsapp_identifier(chain[0], tmp_path) == str(first)


def test_g12_mappings_are_followed_through_several_files_and_cycles(tmp_path: Path) -> None:
    write(tmp_path, "4444", "333")
    write(tmp_path, "333_reverse", 22)
    write(tmp_path, "22", "4444")
    assert canonical_whatsapp_identifier("4444", str(tmp_path)) == "22"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"a": 1}', b"[1]", b"null", b"true", b"1.5", b"\xff\xfe", b'""', b'"../x"', b'"1_2"'],
)
def test_g12_unusable_mapping_is_skipped(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lid-mapping-4444.json").write_bytes(content)
    write(tmp_path, "4444_reverse", "333")
    assert canonical_whatsapp_identifier("4444", tmp_path) == "333"


def test_g12_unreadable_mapping_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "lid-mapping-4444.json").mkdir()
    write(tmp_path, "4444_reverse", "333")
    assert canonical_whatsapp_identifier("4444", tmp_path) == "333"


def test_g12_without_a_mapping_the_normalised_form_is_kept(tmp_path: Path) -> None:
    assert canonical_whatsapp_identifier("+4444@lid", tmp_path) == "4444"
    assert canonical_whatsapp_identifier("+4444@lid", tmp_path / "missing") == "4444"
    assert canonical_whatsapp_identifier("", tmp_path) == ""
    assert canonical_whatsapp_identifier("9" * 5000, tmp_path) == "9" * 5000


def test_g12_huge_mapping_file_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / "lid-mapping-4444.json").write_text('"1' + " " * 10_000 + '"')
    assert canonical_whatsapp_identifier("4444", tmp_path) == "4444"


def test_g12_session_folder_is_found_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home, answer in ((tmp_path / "set", "1"), (tmp_path / "user" / ".hermes", "2")):
        folder = home / "whatsapp" / "session"
        folder.mkdir(parents=True)
        write(folder, "4444", answer)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "set"))
    assert canonical_whatsapp_identifier("4444") == "1"
    monkeypatch.delenv("HERMES_HOME")
    assert canonical_whatsapp_identifier("4444") == "2"
    monkeypatch.setenv("HERMES_HOME", "")
    assert canonical_whatsapp_identifier("4444") == "2"


def test_g12_later_hosts_keep_the_mappings_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    folder = tmp_path / "platforms" / "whatsapp" / "session"
    folder.mkdir(parents=True)
    write(folder, "4444", "1")
    assert canonical_whatsapp_identifier("4444") == "1"


def settle(folder: Path) -> None:
    """Make the files of a folder old enough for a later change to show."""
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))


def test_g12_unchanged_mapping_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "4444", "333")
    settle(tmp_path)
    assert canonical_whatsapp_identifier("4444", tmp_path) == "333"
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("opened again"))
    assert canonical_whatsapp_identifier("4444@lid", tmp_path) == "333"


def test_g12_changed_new_and_removed_mappings_are_seen_at_once(tmp_path: Path) -> None:
    write(tmp_path, "4444", "333")
    settle(tmp_path)
    assert canonical_whatsapp_identifier("4444", tmp_path) == "333"
    write(tmp_path, "333_reverse", "22")
    assert canonical_whatsapp_identifier("4444", tmp_path) == "22"
    write(tmp_path, "4444", "1")
    assert canonical_whatsapp_identifier("4444", tmp_path) == "1"
    (tmp_path / "lid-mapping-4444.json").unlink()
    assert canonical_whatsapp_identifier("4444", tmp_path) == "4444"


def test_g12_file_written_twice_within_one_time_stamp_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, "4444", "333")
    before = (tmp_path / "lid-mapping-4444.json").stat()
    assert canonical_whatsapp_identifier("4444", tmp_path) == "333"
    write(tmp_path, "4444", "111")
    os.utime(tmp_path / "lid-mapping-4444.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert canonical_whatsapp_identifier("4444", tmp_path) == "111"


def test_g12_number_of_cached_answers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatsapp, "_MAX_CACHED", 5)
    for number in range(20):
        canonical_whatsapp_identifier(str(number), tmp_path)
    assert len(whatsapp._cache) <= 5
