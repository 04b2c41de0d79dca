"""Run every block of the documentation and compare what it prints with what the page shows."""

from pathlib import Path

import pytest

from tests.docs.pages import Page, PageError, matches, page_names, parse, read_page, write_code
from tests.docs.running import results_of

NOT_RUN = {"README.md": 1, "docs/how-to/command.md": 1, "docs/tutorial.md": 1}
"""The number of blocks of a page that are not run. Each says why in the page, above itself."""


def run(page: Page, folder: Path) -> str:
    """Run a page in a folder; return what differs from what it shows, or nothing."""
    done, ended = results_of(page, folder)
    for step, result in zip(page.steps, done, strict=False):
        printed = result["printed"]
        if result["error"]:
            return f"{page.name}:{step.line} failed\n{printed}{result['error']}"
        if not matches(step.shown, printed):
            return f"{page.name}:{step.line} prints\n{printed}\nbut the page shows\n{step.shown}"
    return ended


@pytest.mark.parametrize("name", [name for name in page_names() if read_page(name).steps])
def test_every_block_of_a_page_runs_and_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    if difference := run(read_page(name), tmp_path):
        pytest.fail(difference, pytrace=False)


def test_blocks_that_are_not_run_are_counted() -> None:
    assert {name: len(read_page(name).not_run) for name in page_names() if read_page(name).not_run} == NOT_RUN


STORY = """
```python title="greet.py"
print("hello")
```
```console
$ python greet.py
hello
$ kill -KILL $$
Killed
```
```python
from pathlib import Path
number = 7
```
```python
print("token", number, Path("greet.py").exists())
print("rows")
```
```text
token … True
…
```
"""


def test_a_page_runs_in_one_folder_and_one_namespace(tmp_path: Path) -> None:
    assert run(parse("story.md", STORY), tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("token … True", "token … False", "story.md:16 prints\ntoken 7 True"),
        ("hello\n$", "goodbye\n$", "story.md:6 prints\nhello"),
        ("number = 7", "number = 7 / 0", "story.md:12 failed"),
        ("number = 7", "import sys; sys.exit()", "story.md:12 failed"),
        ("$ python greet.py", "$ python greet.py; exit 3", "status 3"),
        ("```text\ntoken … True\n…\n```", "", "rows\n\nbut the page shows\n"),
    ],
)
def test_a_page_that_shows_something_else_is_found(right: str, wrong: str, said: str, tmp_path: Path) -> None:
    assert right in STORY
    assert said in run(parse("story.md", STORY.replace(right, wrong)), tmp_path)


@pytest.mark.parametrize(
    "block",
    ["```toml\na = 1\n```", "```text\nnobody prints this\n```", "```console\nmake\n```", "```\nwhat is this\n```"],
)
def test_a_block_that_nothing_runs_needs_a_reason(block: str) -> None:
    with pytest.raises(PageError, match=r"page\.md:1"):
        parse("page.md", block)
    assert parse("page.md", f"<!-- not run: it is a drawing -->\n{block}").not_run == ("it is a drawing",)


@pytest.mark.parametrize("text", ["```python\nprint(1)\n", "~~~python\nprint(1)\n~~~", "```python\n1\n  ```"])
def test_a_block_that_is_not_closed_as_it_began_is_found(text: str) -> None:
    with pytest.raises(PageError, match="not closed"):
        parse("page.md", text)


def test_output_further_down_does_not_belong_to_the_python_above_it() -> None:
    with pytest.raises(PageError, match="follow the python block"):
        parse("page.md", "```python\nprint(1)\n```\nIt prints:\n```text\n1\n```")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n…\nz", "a\nz", True),
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a … z", "a b\nc z", False),
        ("head 3:…", "head 3:bd085d", True),
        ("head 3:…", "head 4:bd085d", False),
        ("1+1", "1111", False),
        ("", "something", False),
    ],
)
def test_dots_stand_for_any_text_in_a_line_or_any_lines(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


def test_the_code_of_a_page_is_written_line_by_line_for_a_type_checker(tmp_path: Path) -> None:
    saved, code = write_code(parse("docs/story.md", STORY), tmp_path)
    assert (saved.name, code.name) == ("docs_story__greet.py", "docs_story.py")
    assert code.read_text().splitlines()[12] == STORY.splitlines()[12] == "number = 7"
