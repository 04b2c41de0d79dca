"""G18 and G18a: what of a model override is kept, and that no credential is."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.domain.model_override import clean_model_override
from tests.unit.secret_urls import SECRET, URLS


@pytest.mark.parametrize(
    ("override", "kept"),
    [
        ({"model": "m", "provider": "p", "base_url": "http://h:1/v1"}, None),
        ({"model": "m", "api_key": "k", "headers": {"Authorization": "k"}}, {"model": "m"}),
        ({"model": 4.5, "provider": 7}, {"model": "4.5", "provider": "7"}),
        ({"model": "", "provider": None, "base_url": "https://h"}, {"base_url": "https://h"}),
        ({"model": {"api_key": "k"}, "provider": ["k"], "base_url": True}, {}),
        ({"base_url": "https://host/@x/v1"}, None),
        ({"base_url": "https://[::1]:8080/v1"}, None),
        ({"base_url": "https://müller.example/v1/models:go"}, None),
        ({"base_url": "https://host/v1?api-version=2024-05-01-preview"}, None),
        ({"base_url": "https://host/v1?a=1&api-version=2024&b=2"}, {"base_url": "https://host/v1?api-version=2024"}),
        ({"model": "a model/with:tags", "provider": "x" * 200}, None),
        ({"model": " m", "provider": "p\n"}, {}),
        ({"model": "x" * 201, "provider": "a\u200bb"}, {}),
    ],
)
def test_g18a_override_keeps_names_and_the_plain_address(override: Any, kept: Any) -> None:
    assert clean_model_override(override).kept == ((override if kept is None else kept) or None)


@pytest.mark.parametrize("nothing", [None, {}, "model", [("model", "m")], 5, {"api_key": "k"}])
def test_g18_nothing_worth_keeping_is_none(nothing: object) -> None:
    assert clean_model_override(nothing).kept is None


@pytest.mark.parametrize("url", URLS)
def test_g18a_no_secret_in_a_url_is_kept_and_the_drop_names_no_part_of_it(url: str) -> None:
    cleaned = clean_model_override({"model": "m", "base_url": url})
    assert SECRET not in repr(cleaned)
    assert (cleaned.kept or {})["model"] == "m"
    assert cleaned.dropped or url.strip() != url


PLAIN_URLS = st.from_regex(r"https?://[a-z@:/?#;&=.%-]{0,30}", fullmatch=True)


@given(st.dictionaries(st.sampled_from(["model", "provider", "base_url", "x"]), st.text() | st.integers() | PLAIN_URLS))
def test_g18_cleaning_twice_is_cleaning_once(override: dict[str, Any]) -> None:
    once = clean_model_override(override).kept
    assert clean_model_override(once) == (once, ())
    assert set(once or {}) <= {"model", "provider", "base_url"}
