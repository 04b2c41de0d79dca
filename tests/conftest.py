"""Settings of the whole suite: a slow machine fails no test of a property, and the plain suite rolls no dice."""

import pytest
from hypothesis import settings

from tests.chance import SEED, SOAK

settings.register_profile("suite", deadline=None, derandomize=SOAK == 1, print_blob=True)
settings.load_profile("suite")


def pytest_report_header() -> str:
    return f"SOAK={SOAK} FAULT_SEED={SEED}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say with each failure how it is repeated."""
    if report.failed:
        report.sections.append(("Repeat with", f"SOAK={SOAK} FAULT_SEED={SEED}"))
