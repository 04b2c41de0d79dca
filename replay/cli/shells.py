"""`completion`: what a shell needs to complete verbs, options and ids."""

import click

from replay.cli.completion import SHELLS, script


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete verbs, options and ids.

    Ids and names come from the live store: SESSION_STORE, the current folder, or --store in the line being typed.

    \b
    Examples:
      $ sessions completion bash >> ~/.bashrc
      $ sessions completion fish > ~/.config/fish/completions/sessions.fish
    """
    click.echo(script(shell), nl=False)
