"""Tries the built packages: `python -I check.py DIST` in an environment that has the wheel and not the source tree.

No pytest here: the environment has nothing but the wheel and what it asked for.
"""

import importlib.metadata
import importlib.resources
import pkgutil
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("engine", "projections", "replay")
DATA = {"replay": ("page.html", "page.js")}
MADE = {"__pycache__", ".tmp", ".hypothesis", "build", "dist"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def expect(condition: object, problem: str) -> None:
    if not condition:
        sys.exit(f"wheel-test: {problem}")


def check_sdist(sdist: Path) -> None:
    """Everything that a clone has to build, test and document itself is in the sdist."""
    with tarfile.open(sdist) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml", ".ci/run"}
    for folder in (path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")):
        files = [path.relative_to(ROOT) for path in folder.rglob("*") if path.is_file()]
        wanted |= {path.as_posix() for path in files if not _made(path)}
    expect(wanted <= there, f"the sdist lacks {sorted(wanted - there)[:5]}")
    made = [name for name in there if _made(Path(name)) and ".egg-info" not in name]
    expect(not made, f"the sdist has {made[:5]}, which is made, not written")


def _made(path: Path) -> bool:
    return path.suffix == ".pyc" or any(part in MADE or part.endswith(".egg-info") for part in path.parts)


def check_wheel(wheel: Path) -> None:
    """The packages are in the wheel, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    others = [name for name in tops - set(PACKAGES) if not name.endswith(".dist-info")]
    expect(not others, f"the wheel also installs {others}")


def check_metadata(version: str) -> None:
    """Check what the index shows of the package."""
    found = importlib.metadata.metadata("session-engine")
    expect(found["Version"] == version, f"the metadata are of version {found['Version']}, not {version}")
    classifiers = found.get_all("Classifier") or []
    missing = [each for each in PYTHONS if f"Programming Language :: Python :: {each}" not in classifiers]
    expect(not missing, f"no classifier for Python {missing}")
    expect(found.get_all("Provides-Extra") == ["dev"], f"extras are {found.get_all('Provides-Extra')}, not dev alone")
    expect(found["License-Expression"] == "MIT", "no license expression")


def check_installed() -> None:
    """Every module can be imported from where it was installed, and brings its types."""
    for name in PACKAGES:
        package = import_module(name)
        expect(Path(package.__file__ or "").is_relative_to(sys.prefix), f"{name} is imported from {package.__file__}")
        expect(importlib.resources.files(name).joinpath("py.typed").is_file(), f"{name} has no py.typed")
        for data in DATA.get(name, ()):
            expect(importlib.resources.files(name).joinpath(data).is_file(), f"{name} has no {data}")
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            import_module(module.name)


def check_running(example: str) -> None:
    """A program of the documentation runs on the wheel alone."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", "-W", "error", "-c", example]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    expect(done.returncode == 0 and done.stdout, f"the README's first example failed: {done.stdout}{done.stderr}")


def main(dist: Path) -> None:
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_sdist(sdist)
    check_wheel(wheel)
    check_installed()
    version = import_module("engine").__version__
    check_metadata(version)
    [first, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    check_running(first)
    print(f"session-engine {version} on Python {sys.version.split()[0]}: sdist complete, wheel imported, README runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
