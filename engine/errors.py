"""What a command on sessions can refuse. Bad values are ValueErrors; what the log can say is in engine.log.errors."""

from typing import ClassVar

from engine.domain.errors import EngineError


class SessionError(EngineError):
    """Something about a session, a lane or a turn."""

    code: ClassVar[str] = "session"


class UnknownSessionError(SessionError, LookupError):
    """There is no session of this id."""

    code = "unknown_session"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"there is no session {session_id!r}; list_sessions() and get_or_create_session() give ids")


class UnknownLaneError(SessionError, LookupError):
    """The lane leads to no session."""

    code = "unknown_lane"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"lane {key!r} leads to no session; route a message with get_or_create_session() first")


class SessionStateError(SessionError, ValueError):
    """The session is not in a state that allows the command."""

    code = "session_state"


class TurnInProgressError(SessionError):
    """Another turn of the same conversation is running: two would interleave."""

    code = "turn_in_progress"

    def __init__(self, conversation_id: str, holder: str | None, seconds: float) -> None:
        self.conversation_id, self.holder, self.seconds = conversation_id, holder, seconds
        super().__init__(
            f"conversation {conversation_id!r} has had a turn of {holder or 'an unknown worker'} open for "
            f"{seconds:.1f} s; wait for its end_turn(), or recover_interrupted_turns() if its worker is gone"
        )
