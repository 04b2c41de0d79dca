"""Erasing what belongs to a session, a lane or a person: found in the log, erased with its copies, and reported."""
