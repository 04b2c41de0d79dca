"""G44: titles are unique in a store, and numbered in a lineage."""

import pytest
from hypothesis import given, strategies as st

from engine.domain.titles import following, numbered

NAMES = st.text(st.sampled_from("ab #123"), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("title", "name", "number"),
    [
        ("Trip", "Trip", 1),
        ("Trip #2", "Trip", 2),
        ("Trip #13", "Trip", 13),
        ("Trip #2 #3", "Trip #2", 3),
        ("Trip #1", "Trip #1", 1),
        ("Trip #0", "Trip #0", 1),
        ("Trip #02", "Trip #02", 1),
        ("Trip#2", "Trip#2", 1),
        ("Trip #2 ", "Trip #2 ", 1),
        ("Trip #x", "Trip #x", 1),
        ("a\nb #2", "a\nb", 2),
        ("#2", "#2", 1),
        (" #2", "", 2),
        ("Trip #" + "9" * 18, "Trip", 10**18 - 1),
        ("Trip #" + "9" * 19, "Trip #" + "9" * 19, 1),
    ],
)
def test_g44_a_title_is_a_name_and_a_number_that_was_given(title: str, name: str, number: int) -> None:
    assert numbered(title) == (name, number)


@given(NAMES, NAMES)
def test_g44_two_titles_are_the_same_if_name_and_number_are(one: str, other: str) -> None:
    assert (numbered(one) == numbered(other)) == (one == other)


@pytest.mark.parametrize(
    ("title", "highest", "expected"),
    [("Trip", 1, "Trip #2"), ("Trip", 7, "Trip #8"), ("Trip #2", 2, "Trip #3"), ("Trip #5", 0, "Trip #2")],
)
def test_g44_the_next_title_has_the_number_after_the_highest(title: str, highest: int, expected: str) -> None:
    assert following(title, highest) == expected


@given(NAMES, st.integers(1, 20))
def test_g44_a_lineage_counts_up_without_a_gap(title: str, count: int) -> None:
    taken = [title]
    for _ in range(count):
        taken.append(following(title, max(numbered(each).number for each in taken)))
    assert len(set(taken)) == count + 1
    start = numbered(title).number
    assert [numbered(each).number for each in taken] == list(range(start, start + count + 1))
