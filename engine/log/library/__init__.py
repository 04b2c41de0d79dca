"""The eventsourcing library's contracts over a log: `PERSISTENCE_MODULE=engine.log.library`."""

from engine.log.library.application import LogApplication
from engine.log.library.factory import Factory
from engine.log.library.mapper import EventMapper

__all__ = ["EventMapper", "Factory", "LogApplication"]
