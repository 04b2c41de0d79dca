"""G31 and G23a: the freshness window as the environment sets it."""

import pytest

from engine.environment import auto_continue_freshness_window


def test_g31_freshness_window_reads_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_AUTO_CONTINUE_FRESHNESS", raising=False)
    assert auto_continue_freshness_window() == 3600.0
    monkeypatch.setenv("HERMES_AUTO_CONTINUE_FRESHNESS", "7")
    assert auto_continue_freshness_window() == 7.0
    assert auto_continue_freshness_window({}) == 3600.0


def test_g23a_window_of_the_environment_may_be_endless() -> None:
    assert auto_continue_freshness_window({"HERMES_AUTO_CONTINUE_FRESHNESS": "inf"}) == float("inf")
