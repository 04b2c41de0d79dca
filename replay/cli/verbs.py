"""The verbs of the command: the module of each, and what it does in one line; the help needs nothing else."""

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb: the module that has it, and its line in the help."""

    module: str
    summary: str


GROUPS: dict[str, dict[str, Verb]] = {
    "Look": {
        "list": Verb("looking", "List the lanes, newest first."),
        "show": Verb("looking", "Show a lane, a session with its messages, or an event."),
        "events": Verb("events", "List what the log recorded, or follow it."),
        "search": Verb("asking", "Find messages by their words."),
        "usage": Verb("asking", "Add up messages, turns, tokens and cost."),
        "stats": Verb("state", "Count events, sessions and bytes, and how they grow."),
        "health": Verb("state", "Tell how the store is, and what needs care."),
        "export": Verb("exports", "Export a lane with its sessions, or a session with its conversation."),
        "sql": Verb("queries", "Ask the log, its state tables and the audit views by SQL."),
        "path": Verb("state", "Print where the store is."),
    },
    "Ask why and when": {
        "why": Verb("deciding", "Tell which decisions led something to where it is."),
        "what-if": Verb("policy", "Tell what another reset policy would have done."),
        "timeline": Verb("lives", "Draw the life of a lane or a conversation."),
        "at": Verb("past", "Show lanes, a session or a transcript as they were at a moment."),
        "diff": Verb("changes", "Tell what changed between two moments."),
        "when": Verb("queries", "Find the first moment at which a query gave a row."),
    },
    "Keep it right": {
        "verify": Verb("keeping", "Check the log, the tables and the views against each other."),
        "heal": Verb("keeping", "Make tables and views again where they differ from the log."),
        "salvage": Verb("copying", "Bring what can be read of a damaged store into a new one."),
        "backup": Verb("copying", "Copy the store to a new file while it is written."),
        "copy": Verb("copying", "Copy the store into a new folder, ready to be opened."),
        "restore": Verb("copying", "Make a store in a new folder as another one is, or was at a moment."),
        "import": Verb("writing", "Import the sessions of another program, or an export."),
        "archive": Verb("archives", "Move the messages of old conversations into a file, or back."),
        "erase": Verb("writing", "Erase a session, a lane or a person, and report what stays."),
        "views": Verb("views", "Look at the views, rebuild or verify them."),
    },
    "This command": {
        "completion": Verb("shells", "Print what makes a shell complete verbs, options and ids."),
    },
}
"""The verbs in the order of the help."""

VERBS = {name: verb for group in GROUPS.values() for name, verb in group.items()}
