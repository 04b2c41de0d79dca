"""G12: one id for one WhatsApp person, whatever the mapping files say."""

import json

import pytest
from hypothesis import given, strategies as st

from engine.domain.whatsapp import canonical_identifier, normalize_whatsapp_identifier


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


@pytest.mark.parametrize("odd", ["../../secret", "a/b", "a\\b", "a b", "é", "a\x00b", "a_b", "a\nb"])
def test_g12_odd_id_never_reaches_a_path(odd: str) -> None:
    def read(name: str) -> bytes | None:
        raise AssertionError(f"read {name!r}")

    assert canonical_identifier(odd, read) == normalize_whatsapp_identifier(odd)


@given(st.text(), st.lists(st.text(), max_size=5))
def test_g12_no_content_of_a_mapping_reaches_a_path_unless_it_is_plain(start: str, targets: list[str]) -> None:
    answers = iter(targets)
    names: list[str] = []

    def read(name: str) -> bytes | None:
        names.append(name)
        target = next(answers, None)
        return None if target is None else json.dumps(target).encode()

    canonical_identifier(start, read)
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

    assert canonical_identifier("10000000", read) == "10000000"
