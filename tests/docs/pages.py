"""Pages of the documentation and the blocks in them: what is executed, in which order, and what it prints.

A page is a story: its blocks run one after the other in one folder, its Python in one namespace.

- A `python` block is executed; the `text` block right below it is what it prints.
- A `python title="name.py"` block is saved under that name instead, for the commands below it.
- A `console` block has commands behind `$ `, each followed by what it prints. `make` commands run in the clone;
  `export NAME=VALUE` holds for the commands after it. In the folder there is a copy of `docs/incident`.
- `…` stands for any text within a line, and alone on a line for any lines.
- A block that cannot run says why in a comment right above it: `<!-- not run: reason -->`.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ANY = "…"

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>\S[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^ *(?:```|~~~)", re.MULTILINE)
_TITLE = re.compile(r'^python title="([\w./-]+)"$')


@dataclass(frozen=True)
class Step:
    """One thing a reader does: Python to execute, a file to save, or a command; and what it shows."""

    line: int
    kind: str
    text: str
    shown: str = ""
    title: str = ""


@dataclass(frozen=True)
class Page:
    """The steps of a page, and the reasons of the blocks that are not run."""

    name: str
    steps: tuple[Step, ...]
    not_run: tuple[str, ...]


class PageError(Exception):
    """A block cannot be taken: neither run, nor marked as not to be run."""


def page_names() -> list[str]:
    """Return the pages of the project."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def read_page(name: str) -> Page:
    """Return the steps of a page of the project."""
    return parse(name, (ROOT / name).read_text())


def parse(name: str, text: str) -> Page:
    """Return the steps of a page; raise PageError for a block that nothing would check."""
    steps: list[Step] = []
    not_run = []
    end_of_python = None
    fences = list(_FENCE.finditer(text))
    if len(_MARK.findall(text)) != 2 * len(fences):
        raise PageError(f"{name}: a block is not closed, or not by the marks it began with")
    for fence in fences:
        line = text.count("\n", 0, fence.start("info")) + 1
        info = fence["info"].strip()
        body = "".join(each.removeprefix(fence["indent"]) for each in fence["body"].splitlines(keepends=True))
        output = end_of_python is not None and not text[end_of_python : fence.start()].strip()
        end_of_python = None
        if fence["reason"]:
            not_run.append(fence["reason"])
        elif info == "text" and output:
            steps[-1] = replace(steps[-1], shown=body)
        elif info == "python":
            steps.append(Step(line + 1, "python", body))
            end_of_python = fence.end()
        elif title := _TITLE.match(info):
            steps.append(Step(line + 1, "file", body, title=title[1]))
        elif info == "console":
            steps += _commands(f"{name}:{line}", line + 1, body)
        else:
            raise PageError(
                f"{name}:{line}: nothing runs a block of {info!r} here; "
                "let it follow the python block that prints it, or say above it <!-- not run: reason -->"
            )
    return Page(name, tuple(steps), tuple(not_run))


def _commands(place: str, line: int, body: str) -> Iterator[Step]:
    """Split a console block at its prompts; a command goes on in the next line behind a backslash."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    if parts[0].strip() or len(parts) == 1:
        raise PageError(f"{place}: a console block begins with a command behind '$ '")
    for part in parts[1:]:
        command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
        if command is None:
            raise PageError(f"{place}: a command stands alone in its line")
        yield Step(line, "command", command[0], part[command.end() :])
        line += part.count("\n")


def matches(shown: str, printed: str) -> bool:
    """Return True if a page shows what was printed."""
    pattern = "".join(_line_pattern(line) for line in shown.strip().splitlines())
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())) is not None


def _line_pattern(line: str) -> str:
    if line.strip() == ANY:
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in line.rstrip().split(ANY)) + r"\n"


def write_code(page: Page, folder: Path) -> list[Path]:
    """Write the Python of a page for a type checker, line by line where the page has it; return the files."""
    written: list[Path] = []
    lines: list[str] = []
    for step in page.steps:
        if step.kind == "python":
            lines += [""] * (step.line - 1 - len(lines))
            lines += step.text.splitlines()
        elif step.kind == "file" and step.title.endswith(".py"):
            written.append(folder / f"{_module(page.name)}__{_module(step.title)}.py")
            written[-1].write_text("\n" * (step.line - 1) + step.text)
    if lines:
        written.append(folder / f"{_module(page.name)}.py")
        written[-1].write_text("\n".join(lines) + "\n")
    return written


def _module(name: str) -> str:
    return re.sub(r"\W", "_", name.removesuffix(".md").removesuffix(".py"))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.py"):
        old.unlink()
    for each in page_names():
        write_code(read_page(each), target)
