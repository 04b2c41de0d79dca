"""The page of the command: every verb with its arguments, options and examples, from the verbs themselves."""

import re
from collections.abc import Iterator
from inspect import cleandoc

import click

from devtools.reference.markdown import code, table
from replay.cli.command import HELP, sessions
from replay.cli.failures import CONFLICT, FAILURE, INTEGRITY, INTERRUPTED, NOT_FOUND, OK, USAGE
from replay.cli.options import SHARED, WHEN
from replay.cli.verbs import GROUPS

HEAD = """# The command `sessions`

<!-- made by `make docs` from the verbs, their docstrings and options -->
"""
CODES = {
    OK: "done",
    FAILURE: "failed; what is wrong is on stderr",
    USAGE: "the command line cannot be understood, or a name is ambiguous",
    NOT_FOUND: "no store, or nothing of this name",
    INTEGRITY: "something is damaged, or does not agree",
    CONFLICT: "another process is in the way, or what is imported is there already",
    INTERRUPTED: "interrupted with Ctrl-C",
}


def page() -> str:
    """Return the page."""
    parts = [HEAD, HELP, "", "## Options of every verb", "", _options(SHARED), f"A WHEN is {WHEN}.\n"]
    parts += ["## Exit codes", "", table(["code", "meaning"], [[str(number), said] for number, said in CODES.items()])]
    for title, verbs in GROUPS.items():
        parts += [f"## {title}", ""]
        for name in verbs:
            command = sessions.get_command(click.Context(sessions), name)
            if command is not None:
                parts += _verb(command, f"sessions {name}")
    return "\n".join(parts).rstrip() + "\n"


def _verb(command: click.Command, path: str) -> Iterator[str]:
    told, _, shown = cleandoc(command.help or "").partition("\n\n\b\nExamples:\n")
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    yield f"### {path}\n\n`{usage}`\n"
    yield "\n\n".join(" ".join(part.split()) for part in told.split("\n\n")) + "\n"
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _verb(each, f"{path} {name}")
        return
    shared = {param.name for param in SHARED}
    yield _options([param for param in command.params if isinstance(param, click.Option) and param.name not in shared])
    examples = re.findall(r"\$ (.*)", shown)
    yield f"For example {' or '.join(map(code, examples))}.\n"


def _options(options: list[click.Option]) -> str:
    rows = []
    for option in options:
        name = ", ".join([*option.opts, *option.secondary_opts])
        kind = "" if option.is_flag else option.make_metavar(click.Context(sessions))
        default = "" if option.is_flag or option.default is None else str(option.default)
        rows.append([code(name), code(kind), code(default) if option.show_default else "", option.help or ""])
    return table(["option", "value", "default", "meaning"], rows)
