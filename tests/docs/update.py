"""Write into pages what their blocks print now: `python -m tests.docs.update [PAGE…]`, by default all of them.

A block that shows only a part of its output, by `…`, is left alone where that part is still right, and named where it
is not: which part to show is for a person to say.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ANY, ROOT, matches, page_names, read_page
from tests.docs.running import results_of


def update(name: str) -> list[str]:
    """Write a page anew with what it prints; return what is left to do by hand."""
    page, left = read_page(name), []
    with tempfile.TemporaryDirectory() as folder:
        done, ended = results_of(page, Path(folder))
    lines = (ROOT / name).read_text().splitlines(keepends=True)
    for step, result in reversed(list(zip(page.steps, done, strict=False))):
        if result["error"]:
            left.append(f"{name}:{step.line} failed\n{result['error']}")
        elif matches(step.shown, result["printed"]):
            continue
        elif ANY in step.shown or not step.shown:
            left.append(f"{name}:{step.line} prints\n{result['printed']}")
        else:
            before, behind = "".join(lines[: step.line - 1]), "".join(lines[step.line - 1 :])
            printed = "".join(f"{line.rstrip()}\n" for line in result["printed"].strip().splitlines())
            lines = (before + behind.replace(step.shown, printed, 1)).splitlines(keepends=True)
    (ROOT / name).write_text("".join(lines))
    return [*reversed(left), *([ended] if ended and not left else [])]


if __name__ == "__main__":
    by_hand = [each for page in sys.argv[1:] or page_names() for each in update(page)]
    sys.exit("\n".join(by_hand) or None)
