"""Every module of the domain and of the log has its test module, in the same place under tests/unit."""

from pathlib import Path

import pytest

UNIT = Path(__file__).parent
ENGINE = UNIT.parents[1] / "engine"


@pytest.mark.parametrize("room", ["domain", "log"])
def test_every_module_has_its_test_module_and_every_test_module_its_module(room: str) -> None:
    modules = {path.relative_to(ENGINE) for path in (ENGINE / room).rglob("*.py") if path.name != "__init__.py"}
    tests = {path.relative_to(UNIT) for path in (UNIT / room).rglob("test_*.py")}
    expected = {module.with_name(f"test_{module.name}") for module in modules}
    assert expected - tests == set(), "modules without a test module"
    assert tests - expected == set(), "test modules without a module"
    for path in tests:
        assert "def test_" in (UNIT / path).read_text()
