"""Errors of commands on sessions: each docstring says what happened, then what to do.

Bad values are ValueErrors; the errors of the log are in engine.log.errors.
"""

from typing import ClassVar

from engine.domain.errors import EngineError
from engine.log.errors import ConflictError


class SessionError(EngineError):
    """A refusal of a command on a session, a lane or a turn: nothing of it has happened.

    Read the message.
    """

    code: ClassVar[str] = "session"


class UnknownSessionError(SessionError, KeyError):
    """There is no session of this id.

    Take ids from entries.
    """

    code = "unknown_session"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"there is no session {session_id!r}; list_sessions() and get_or_create_session() give ids")

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class UnknownProjectError(SessionError, KeyError):
    """There is no project of this id.

    Take ids from `list_projects`.
    """

    code = "unknown_project"

    def __init__(self, project_id: object) -> None:
        self.project_id = project_id
        super().__init__(f"there is no project {project_id!r:.100}; list_projects() gives ids")

    __str__ = Exception.__str__


class UnknownLaneError(SessionError, LookupError):
    """The lane leads to no session.

    Route a message of the lane first.
    """

    code = "unknown_lane"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"lane {key!r} leads to no session; route a message with get_or_create_session() first")


class SessionStateError(SessionError, ValueError):
    """The session is not in a state that allows the command: it ended on purpose, the child's id is taken, …

    Use the live session, or what else the message names.
    """

    code = "session_state"


class SessionConflictError(SessionError, ConflictError):
    """The session has changed since the version that the command expected, or another stream works on it.

    Read the session again and decide anew.
    """

    code = "session_conflict"

    def __init__(self, session_id: str, problem: str) -> None:
        self.session_id = session_id
        Exception.__init__(self, f"session {session_id!r} {problem}")


class TurnInProgressError(SessionError):
    """Another turn of the same conversation is running: two would interleave.

    Try again after its end, wait for it with `turn(…, wait=…)`, or recover interrupted turns after a crash.
    """

    code = "turn_in_progress"

    def __init__(self, conversation_id: str, holder: str | None, seconds: float) -> None:
        self.conversation_id, self.holder, self.seconds = conversation_id, holder, seconds
        super().__init__(
            f"conversation {conversation_id!r} has had a turn of {holder or 'an unknown worker'} open for "
            f"{seconds:.1f} s; wait for its end_turn(), or recover_interrupted_turns() if its worker is gone"
        )


class TurnLostError(SessionError):
    """The write named a turn that is over: its worker lost the lease, and another may have taken over.

    Stop the work on this message; what the turn wrote before stays.
    """

    code = "turn_lost"

    def __init__(self, token: str, conversation_id: str) -> None:
        self.token, self.conversation_id = token, conversation_id
        super().__init__(
            f"turn {token!r} does not hold conversation {conversation_id!r} any more, and nothing was written; "
            "stop this work: begin a new turn to go on"
        )
