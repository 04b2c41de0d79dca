"""The command itself: its verbs, which are imported when they are used, its help and its version."""

from importlib import import_module
from typing import Any

import click

from replay.cli.verbs import GROUPS, VERBS

HELP = """Ask a session store what happened, when and why; keep it right.

The store is a folder with sessions.db, that file, or a copy of it. Without --store it is SESSION_STORE, else the
current folder. Nothing is written unless the verb says so, whoever else writes the store meanwhile."""


class Command(click.Group):
    """A group that imports a verb when it is used, and lists them by what they are for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, importing it; None if there is none of this name."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        module = import_module(f"replay.cli.{verb.module}")
        return next(each for each in vars(module).values() if isinstance(each, click.Command) and each.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that was asked for; suggest one if it is none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, 3, 0.5)
            meant = f"; did you mean {' or '.join(near)}?" if near else "; `sessions --help` lists them"
            raise click.UsageError(f"there is no verb {args[0]!r}{meant}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; Ctrl-C is told as one also while the verb is being imported."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            from replay.cli.failures import failure_of

            raise failure_of(error) or error from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by what they are for."""
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.summary) for name, verb in verbs.items()])


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version  # it costs a tenth of the help

        try:
            click.echo(f"sessions {version('session-engine')}")
        except PackageNotFoundError:
            click.echo("sessions, not installed")
        ctx.exit()


@click.command(cls=Command, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", metavar="PATH", help="The store, for every verb; a verb takes it too.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and exit."
)
@click.pass_context
def sessions(ctx: click.Context, store: str | None) -> None:
    """Take the store for the verb."""
    ctx.obj = store
