"""The command `sessions`: parses, calls what `replay` and `engine` offer, and prints; nothing else is decided here.

Nothing of it is imported by the packages that a gateway embeds, and a verb is imported when it is used.
"""

from replay.cli.command import main

__all__ = ["main"]
