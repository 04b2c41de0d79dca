"""Events and readings that the tests of the log share."""

from engine.domain.events import MessageAppended
from engine.log import NEXT_VERSION, Envelope


def said(text="hello", stream="s", version=NEXT_VERSION, **columns):
    return Envelope(stream, version, MessageAppended(message={"content": text}), **columns)


def texts(events):
    return [envelope.event.message["content"] for envelope in events]
