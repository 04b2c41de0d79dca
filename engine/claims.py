"""Claims to turns: the token is chosen before the turn begins, so that a caller who is interrupted can give it up."""

import secrets

GIVEN_UP = "its caller was interrupted before it had the turn"

_TOKEN_BYTES = 16


class TurnClaim:
    """A turn that is about to be begun. Once it is given up, it begins no more, and ends if it has begun."""

    __slots__ = ("given_up", "token")

    def __init__(self) -> None:
        self.token = secrets.token_hex(_TOKEN_BYTES)
        self.given_up = False
