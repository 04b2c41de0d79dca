"""Where hermes-agent 0.19.0 does something else, by the rule that decides it.

Each is a departure that tests/properties/model.py can make: with all of them the model does what
hermes-agent does, with none of them what the engine does. Random scripts reach these and no others.
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
