"""Run the steps of a page as its reader would; a child process of its own, because pages fork, kill and open logs.

`python -m tests.docs.run_page PAGE.json RESULTS.json`, in the folder the page works in.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
KILLED = -9
EXPORT = "export "
MAKE = "make "


def main(page: Path, results: Path) -> None:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path.insert(0, "")
    done: list[dict[str, str]] = []
    for step in json.loads(page.read_text()):
        printed, error = _run(step, module)
        done.append({"printed": printed, "error": error})
        results.write_text(json.dumps(done))
        if error:
            return


def _run(step: dict[str, Any], module: ModuleType) -> tuple[str, str]:
    if step["kind"] == "file":
        path = Path(step["title"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step["text"])
        return "", ""
    if step["kind"] == "command":
        return _command(step["text"])
    return _python(step, module)


def _python(step: dict[str, Any], module: ModuleType) -> tuple[str, str]:
    """Execute a block; catch what a terminal would show, warnings and the words of child processes included."""
    code = compile("\n" * (step["line"] - 1) + step["text"], step["page"], "exec")
    error = ""
    with tempfile.TemporaryFile("w+") as caught:
        before = [(number, os.dup(number)) for number in (1, 2)]
        for number, _ in before:
            os.dup2(caught.fileno(), number)
        try:
            exec(code, module.__dict__)  # noqa: S102 - the documentation's own code
        except BaseException:  # noqa: BLE001 - reported with the page's line
            error = traceback.format_exc()
        finally:
            for number, kept in before:
                os.dup2(kept, number)
                os.close(kept)
        caught.seek(0)
        return caught.read(), error


def _command(text: str) -> tuple[str, str]:
    """Run a command as an interactive shell shows it: with its errors, and with the word for a killed one."""
    if text.startswith(EXPORT):  # holds for the commands after it, as in a shell
        name, _, value = text.removeprefix(EXPORT).strip().partition("=")
        os.environ[name] = value
        return "", ""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    folder = None
    if text.startswith(MAKE):
        text = f"make --no-print-directory -o {sys.prefix}/.ready VENV={sys.prefix} {text.removeprefix(MAKE)}"
        folder = ROOT
    done = subprocess.run(
        ["bash", "-c", text],  # noqa: S607
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    printed = done.stdout.replace(sys.prefix, ".venv")
    if done.returncode == KILLED:
        return f"{printed}Killed\n", ""
    return printed, f"the command ended with status {done.returncode}" if done.returncode else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
