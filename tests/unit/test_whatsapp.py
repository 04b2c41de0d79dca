"""G12: one id for one WhatsApp person."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domain.whatsapp import canonical_whatsapp_identifier, normalize_whatsapp_identifier


def write(folder: Path, name: str, content: object) -> None:
    (folder / f"lid-mapping-{name}.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("value", "normal"),
    [
        ("+491701234567", "491701234567"),
        ("  491701234567@s.whatsapp.net ", "491701234567"),
        ("491701234567:12@s.whatsapp.net", "491701234567"),
        ("99@lid:7", "99"),
        ("1+2+3", "12+3"),
        (491701234567, "491701234567"),
        ("", ""),
        (None, ""),
        ("@lid", ""),
    ],
)
def test_g12_normalised_form(value: object, normal: str) -> None:
    assert normalize_whatsapp_identifier(value) == normal


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


@pytest.mark.parametrize("odd", ["../../secret", "a/b", "a\\b", "a b", "é", "a\x00b", "a_b", "a\nb"])
def test_g12_odd_id_never_reaches_a_path(odd: str) -> None:
    def read(name: str) -> bytes | None:
        raise AssertionError(f"read {name!r}")

    assert canonical_whatsapp_identifier(odd, read=read) == normalize_whatsapp_identifier(odd)


@given(st.text(), st.lists(st.text(), max_size=5))
def test_g12_no_content_of_a_mapping_reaches_a_path_unless_it_is_plain(start: str, targets: list[str]) -> None:
    answers = iter(targets)
    names: list[str] = []

    def read(name: str) -> bytes | None:
        names.append(name)
        target = next(answers, None)
        return None if target is None else json.dumps(target).encode()

    canonical_whatsapp_identifier(start, read=read)
    for name in names:
        bare = name.removeprefix("lid-mapping-").removesuffix(".json").removesuffix("_reverse")
        assert bare
        assert bare.isascii()
        assert all(letter.isalnum() or letter in "@.+-" for letter in bare)


def test_g12_endless_chain_of_mappings_ends() -> None:
    reads = 0

    def read(name: str) -> bytes | None:
        nonlocal reads
        reads += 1
        assert reads < 200, "the search for aliases does not end"
        return str(10**15 + reads).encode()

    assert canonical_whatsapp_identifier("10000000", read=read) == "10000000"


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
