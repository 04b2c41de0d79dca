"""The event log, and the persistence module that `PERSISTENCE_MODULE=engine.log` names."""

from engine.log.application import LogApplication
from engine.log.eventlog import EventLog, Health
from engine.log.factory import Factory
from engine.log.mapper import EventMapper
from engine.log.transaction import InlineProjection, Transaction
from engine.log.verify import Verification

__all__ = [
    "EventLog",
    "EventMapper",
    "Factory",
    "Health",
    "InlineProjection",
    "LogApplication",
    "Transaction",
    "Verification",
]
