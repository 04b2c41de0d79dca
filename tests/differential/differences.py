"""The differences of hermes-agent 0.19.0, by the rule that decides it.

docs/how-to/coming-from-hermes-agent.md tells of each, by the same words; tests/differential/test_page.py holds that.
"""

DIFFERENCES = {
    "a compression's route only touches": (
        "G20, G22 to G24: hermes-agent moves a lane to the live tip and stops there; the route that follows a "
        "compression resets no suspended or expired lane (regression 4)"
    ),
    "a start drops lanes on ended sessions": (
        "G21: hermes-agent drops or repoints such lanes when it starts, with their flags, before any rule is applied"
    ),
    "undone messages count for recovery": (
        "G27: hermes-agent recovers a session whose messages were all undone, as one that has messages"
    ),
    "usage claims a session": (
        "G34: hermes-agent's update_session also writes the lane onto its session, for recovery to find; ours counts"
    ),
    "compression moves one lane": (
        "G42: hermes-agent moves the lane that asks; others on the same session follow at their next message"
    ),
    "compression claims the child for the lane that asks": (
        "G42: hermes-agent writes the lane that asks onto the child; ours stays with the lane that had the parent"
    ),
    "a late message stays with the compressed session": (
        "G42: hermes-agent appends to the session it is told, also when the conversation goes on in another"
    ),
    "the first end always stands": (
        "G44: hermes-agent's end_session never lets a deliberate reason replace an accidental one"
    ),
}
"""Each is a departure that tests/properties/model.py can make: with all of them the model does what hermes-agent does,
with none of them what the engine does. Random scripts reach these and no others."""

BESIDES = {
    "times have a zone": "G15: hermes-agent's datetimes are naive and local",
    "entries are snapshots": "G19: hermes-agent hands out the entry it works with, and changing that changes the lane",
    "keys may hold any chat's id": "G17a: hermes-agent loses stored lanes whose chat id has .. in it",
    "strangers never share a lane": "G17b: hermes-agent gives two chats whose keys are the same text one session",
    "a switch needs a session that exists": "G38: hermes-agent points the lane at any id",
    "a model needs a lane that leads somewhere": "G39: hermes-agent says nothing and keeps nothing",
    "a base URL is cleaned": "G18a: hermes-agent stores user info and parameters of base_url, keys among them",
    "writing to an unknown session raises": "G49a: hermes-agent logs that the write failed, and goes on",
    "a platform's id is stored once": "G47: hermes-agent stores a message again whose id it knows",
    "rewriting keeps the old history": "G50: hermes-agent deletes the messages that a rewrite replaces",
    "neighbours of one role stay two messages": "G49: hermes-agent merges them when it loads a transcript",
    "a finished expiry keeps its reason": "G40a: hermes-agent ends it as session_reset, whatever it expired for",
    "an undo returns the whole message": "G51a: hermes-agent returns its text alone",
    "a redacted prompt hides numbers in names": (
        "G56a: hermes-agent shows a name that is the number it hides, and its hashes have no key"
    ),
    "bad values raise": "G2: hermes-agent takes a policy with any hour and any number of minutes",
    "a source cannot be changed": "G4: hermes-agent's sources and entries are plain dataclasses",
    "arguments of the task's variables": (
        "G57a: set_session_vars has no cwd, async_delivery and ui_session_id, and source comes after session_key"
    ),
    "names of settings": (
        "G3: PlatformConfig has no tokens and is on by default, and GatewayConfig has only the rules of sessions"
    ),
}
"""Differences that scripts do not reach; each has a check of its name in tests/differential/test_besides.py."""
