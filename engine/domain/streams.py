"""Names of streams. They stay in the log for good, so they carry no person: a lane's is an opaque id."""

LANE = "lane:"
SESSION = "session:"
PROJECT = "project:"
LOG = "log"
"""The stream of what happens to the log and its stores: erasure, quarantine, opening, closing."""


def lane_stream(lane_id: str) -> str:
    """Return the stream of a lane."""
    return LANE + lane_id


def session_stream(session_id: str) -> str:
    """Return the stream of a session."""
    return SESSION + session_id


def project_stream(project_id: str) -> str:
    """Return the stream of a project."""
    return PROJECT + project_id
