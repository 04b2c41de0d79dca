"""The version is written down once, in pyproject.toml."""

import tomllib
from pathlib import Path

import engine
from engine.version import package_version

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


def test_the_package_tells_the_version_it_was_installed_with():
    assert engine.__version__ == package_version() == tomllib.loads(PROJECT.read_text())["project"]["version"]
