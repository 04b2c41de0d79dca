"""Names are stored once: a row holds the ids of its stream, actor and command. Both ways are kept in memory.

A name never changes and is never deleted, so what is in memory stays true, whichever process added it. The
exception is a name added by a transaction that is then rolled back: the writer forgets it.
"""

from collections.abc import Callable, Iterable, Sequence
from json import dumps
from typing import Any

from engine.log.errors import CorruptLogError, RefusedError
from engine.log.rows import check_text

Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Add = Callable[[str], int]
"""Stores a new name and returns its id."""

ID = "(SELECT id FROM names WHERE name = ?)"
"""The id of a name in an SQL expression; NULL, which equals nothing, if no event has it."""
IDS = "(SELECT id FROM names WHERE name IN (SELECT value FROM json_each(?)))"

_LIMIT = 50_000
_LONGEST = 200
"""Longer names are looked up each time: the bound is then one of bytes too."""


class Names:
    """Names by id, as they are read; safe to use from many threads."""

    def __init__(self) -> None:
        self.by_id: dict[int, str] = {}

    def named(self, ids: Sequence[int], query: Query) -> list[str]:
        """Return the name of each id. Raise CorruptLogError if there is none."""
        try:
            return list(map(self.by_id.__getitem__, ids))
        except KeyError:
            found = self.find(ids, query)
        try:
            return [found[each] for each in ids]
        except KeyError as error:
            raise CorruptLogError(f"the name with id {error} is missing from the log; verify() it") from error

    def find(self, ids: Iterable[int], query: Query) -> dict[int, str]:
        """Return the names of these ids, from memory and else from the file; those that are missing are left out."""
        wanted = set(ids)
        found = {each: name for each in wanted if (name := self.by_id.get(each)) is not None}
        missing = [each for each in wanted if each not in found]
        if missing:
            rows = query("SELECT id, name FROM names WHERE id IN (SELECT value FROM json_each(?))", (dumps(missing),))
            rows = [(each, name) for each, name in rows if type(name) is str]
            found.update(rows)
            if len(self.by_id) + len(rows) > _LIMIT:
                self.by_id = {}
            self.by_id.update((each, name) for each, name in rows if len(name) <= _LONGEST)
        return found


class WriterNames(Names):
    """Names of the write transaction, also by name; what is undone is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, int] = {}
        self.added: list[tuple[str, int]] = []
        """The names this transaction has added; their number is what to give to `forget` after a rollback."""

    def known(self, name: str, query: Query) -> int | None:
        """Return the id of a name, or None if no event has it."""
        found = self.ids.get(name)
        if found is None:
            rows = query("SELECT id FROM names WHERE name = ?", (name,))
            if not rows:
                return None
            found = rows[0][0]
            self._keep(name, found)
        return found

    def ensure(self, name: str, column: str, query: Query, add: Add, *, likely_new: bool = False) -> int:
        """Return the id of a name, adding it if it is new. Raise if it cannot stand in a text column.

        One that is likely new is added without looking for it first.
        """
        found = self.ids.get(name)
        if found is None:
            check_text(column, name)
            found = (None if likely_new else self.known(name, query)) or self._added(name, query, add)
        return found

    def _added(self, name: str, query: Query, add: Add) -> int:
        try:
            added = add(name)
        except RefusedError:
            found = self.known(name, query)
            if found is None:
                raise
            return found
        self.added.append((name, added))
        self._keep(name, added)
        return added

    def _keep(self, name: str, found: int) -> None:
        if len(name) <= _LONGEST:
            if len(self.ids) >= _LIMIT:
                self.ids.clear()
            self.ids[name] = found

    def forget(self, since: int = 0) -> None:
        """Forget the names that were added since then: they were rolled back."""
        for name, each in self.added[since:]:
            self.ids.pop(name, None)
            self.by_id.pop(each, None)
        del self.added[since:]

    def settle(self) -> None:
        """Keep what was added: it is committed."""
        self.added.clear()
