"""G18a: what is dropped of a model override is logged, by name and never by value."""

import logging

import pytest

from engine.model_override import sanitize_model_override
from tests.unit.secret_urls import SECRET, URLS


@pytest.mark.parametrize("url", URLS)
def test_g18a_no_secret_in_a_url_survives(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        kept = sanitize_model_override({"model": "m", "base_url": url})
    assert SECRET not in repr(kept)
    assert SECRET not in caplog.text
    assert kept is not None
    assert kept["model"] == "m"


def test_g18a_drop_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    sanitize_model_override({"model": " bad", "api_key": SECRET, "base_url": f"https://u:{SECRET}@h/v1?a=b#c"})
    [record] = caplog.records
    assert record.name == "engine.store"
    for name in ("'model'", "'api_key'", "'base_url user info'", "'base_url parameters'", "'base_url fragment'"):
        assert name in record.getMessage()
    assert SECRET not in caplog.text


def test_g18a_nothing_is_logged_when_nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    sanitize_model_override({"model": "m", "provider": None, "base_url": "https://h/v1?api-version=2024-02-01"})
    assert not caplog.records
