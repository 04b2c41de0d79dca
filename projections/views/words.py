"""Words: what of a message is searched, how a question is read, and how a hit is shown (V8, V9)."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.domain.messages import text_of
from engine.log.protocol import Term

_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f"
)
_NO_SPACES = re.compile(f"([{_CJK}])")
"""Scripts that write words without spaces between them: each character is a word of the index."""
_PARTS = re.compile(r'"([^"]*)"(\*)?|([()])|([^\s()"]+)')
_JOINS = {"AND": "and", "OR": "or", "NOT": "not"}
_LONGEST_TEXT = 1_000_000
_BEFORE, _AFTER = 40, 80


def words_of(message: Mapping[str, Any]) -> str:
    """Return the words of a message as they are indexed: its text, or its text parts."""
    return spaced(text_of(message.get("content"))[:_LONGEST_TEXT])


def spaced(text: str) -> str:
    """Return a text with spaces around each character of a script that has none between its words."""
    if text.isascii():
        return text.replace("\0", " ")
    plain = text.encode("utf-8", "replace").decode().replace("\0", " ")
    return _NO_SPACES.sub(r" \1 ", unicodedata.normalize("NFC", plain))


def terms_of(question: str) -> list[Term]:
    """Return what a question asks for: words, "phrases", prefix*, AND, OR, NOT and parentheses.

    What is not valid is searched as plain words, never an error.
    """
    terms = list(_parsed(question))
    return terms if _is_valid(terms) else list(_plain(question))


def _parsed(question: str) -> Iterator[Term]:
    for phrase, star, bracket, word in _PARTS.findall(question):
        if bracket:
            yield Term("open" if bracket == "(" else "close")
        elif word in _JOINS:
            yield Term(_JOINS[word])  # type: ignore[arg-type]
        else:
            found = _words(word or phrase)
            if found:
                yield Term("words", found, bool(star) or word.endswith("*"))


def _plain(question: str) -> Iterator[Term]:
    for word in question.split():
        found = _words(word)
        if found:
            yield Term("words", found)


def _words(text: str) -> tuple[str, ...]:
    """Return the words of the index in a text: what is no letter, number, mark or symbol stands between two."""
    return tuple("".join(character if _counts(character) else " " for character in spaced(text)).split())


def _counts(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LNM" or category in ("So", "Co")


def _is_valid(terms: Sequence[Term]) -> bool:
    """Return True if operators stand between operands and parentheses are closed."""
    depth, wants_operand = 0, True
    for term in terms:
        match term.kind:
            case "words" | "open":
                wants_operand = term.kind == "open"
                depth += term.kind == "open"
            case _ if wants_operand:
                return False
            case "close":
                depth -= 1
                if depth < 0:
                    return False
            case _:
                wants_operand = True
    return depth == 0 and not wants_operand


def snippet_of(text: str, terms: Sequence[Term], mark: str = "**") -> str:
    """Return the part of a text around its first match, with the matches marked."""
    spans = list(_matches(text, terms))
    first = spans[0][0] if spans else 0
    start, end = max(first - _BEFORE, 0), min(first + _AFTER, len(text))
    shown, at = "…" if start else "", start
    for begin, stop in spans:
        if begin >= at and stop <= end:
            shown += f"{text[at:begin]}{mark}{text[begin:stop]}{mark}"
            at = stop
    shown += text[at:end] + ("…" if end < len(text) else "")
    return " ".join(shown.split())


def _matches(text: str, terms: Sequence[Term]) -> Iterator[tuple[int, int]]:
    """Yield where the words asked for stand in a text, in order."""
    wanted = {folded(word): term.prefix and word == term.words[-1] for term in terms for word in term.words}
    tokens = ((found.start(), found.end()) for found in re.finditer(f"[{_CJK}]|[^\\W_{_CJK}]+|[^\\w\\s]", text))
    for start, end in tokens:
        token = folded(text[start:end])
        if token in wanted or any(prefix and token.startswith(word) for word, prefix in wanted.items()):
            yield start, end


def folded(word: str) -> str:
    """Return a word without accents and case, as the index compares it."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in plain if not unicodedata.combining(character))
