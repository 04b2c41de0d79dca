"""Lanes and sessions by what people type of their names: all of it, its beginning or a part (R4)."""

from difflib import SequenceMatcher
from typing import Literal

import msgspec

from engine.reader import SessionReader
from replay.errors import AmbiguousSubjectError, UnknownSubjectError

_LISTED = 10
_LOOKED_AT = 2000
_NEAR = 0.6


class Subject(msgspec.Struct, frozen=True):
    """A lane or a session, by its whole name."""

    kind: Literal["lane", "session"]
    name: str


def subject_of(reader: SessionReader, text: str, kinds: tuple[str, ...] = ("lane", "session")) -> Subject:
    """Return the lane or the session that a text names: it is the whole name, or the only one it begins or is part of.

    Raise AmbiguousSubjectError with the candidates if there are several, UnknownSubjectError with the names that are
    near if there is none.
    """
    if not text.isprintable() and any("\ud800" <= each <= "\udfff" for each in text):  # bytes that are no UTF-8
        raise UnknownSubjectError(f"there is no {' and no '.join(kinds)} {text!r}; `sessions list` gives names")
    if not text:
        raise UnknownSubjectError("an empty text names nothing; `sessions list` gives names")
    found = _like(reader, text, kinds)
    for sure in (
        [each for each in found if each.name == text],
        [each for each in found if each.name.lower().startswith(text.lower())],
        found,
    ):
        if len(sure) == 1:
            return sure[0]
        if sure:
            names = tuple(each.name for each in sure[:_LISTED])
            more = "" if len(sure) <= _LISTED else ", the first are"
            raise AmbiguousSubjectError(f"{text!r} may be {_counted(len(sure))}{more}:", names)
    near = _near(reader, text, kinds)
    said = "did you mean:" if near else "`sessions list` gives names"
    raise UnknownSubjectError(f"there is no {' and no '.join(kinds)} {text!r}; {said}", near)


def _counted(count: int) -> str:
    return f"one of {count}" if count <= _LOOKED_AT else f"one of more than {_LOOKED_AT}"


def _like(reader: SessionReader, text: str, kinds: tuple[str, ...]) -> list[Subject]:
    keys, ids = reader.names_like(text, _LOOKED_AT)
    lanes = [Subject("lane", key) for key in keys] if "lane" in kinds else []
    return lanes + ([Subject("session", each) for each in ids] if "session" in kinds else [])


def _near(reader: SessionReader, text: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that look like a text that is part of none: a typing mistake."""
    matcher = SequenceMatcher(b=text.lower(), autojunk=False)
    rated = []
    for each in _like(reader, "", kinds):
        ratio = max(_ratio(matcher, part) for part in {each.name, *each.name.split(":")})
        if ratio > _NEAR:
            rated.append((ratio, each.name))
    return tuple(name for _, name in sorted(rated, reverse=True)[:3])


def _ratio(matcher: SequenceMatcher[str], part: str) -> float:
    matcher.set_seq1(part.lower())
    return matcher.ratio() if matcher.real_quick_ratio() > _NEAR and matcher.quick_ratio() > _NEAR else 0.0
