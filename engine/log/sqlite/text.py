"""Full text in SQLite: an FTS5 index without a copy of the text, and queries in its language."""

from collections.abc import Sequence

from engine.log.protocol import Term

_TOKENS = "unicode61 remove_diacritics 2 categories 'L* N* M* Co So'"


class FTS5Index:
    """Named functions for what SQLite and PostgreSQL do differently with full text."""

    def ddl(self, table: str) -> str:
        """Return what makes an index: its rows are found by number, and deleted without the text."""
        return (
            f"CREATE VIRTUAL TABLE {table} USING fts5(words, content='', contentless_delete=1, tokenize=\"{_TOKENS}\")"
        )

    def settings(self, table: str) -> Sequence[str]:
        """Return what is run once after the index was made: what is deleted leaves no byte behind."""
        return (f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)",)

    def insert(self, table: str) -> str:
        """Return the statement that indexes words under a number: (number, words)."""
        return f"INSERT INTO {table} (rowid, words) VALUES (?,?)"

    def delete(self, table: str) -> str:
        """Return the statement that takes a number out of the index."""
        return f"DELETE FROM {table} WHERE rowid = ?"

    def matching(self, table: str) -> str:
        """Return a query for (number, rank) of what matches a question; the best rank is the smallest."""
        return f"SELECT rowid AS id, rank FROM {table} WHERE {table} MATCH ?"

    def question(self, terms: Sequence[Term]) -> str:
        """Return the terms in the index's language."""
        return " ".join(_spelled(term) for term in terms)


def _spelled(term: Term) -> str:
    if term.kind == "words":
        words = '"' + " ".join(term.words).replace('"', '""') + '"'
        return f"{words}*" if term.prefix else words
    return {"and": "AND", "or": "OR", "not": "NOT", "open": "(", "close": ")"}[term.kind]


def vocabulary(index: str) -> Sequence[str]:
    """Return what makes the words of an index readable on one connection, as `vocabulary`."""
    words = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_of_{index} USING fts5vocab(main, {index}, instance)"
    named = f'SELECT doc AS id, term AS word, "offset" AS place FROM words_of_{index}'
    return words, f"CREATE TEMP VIEW IF NOT EXISTS vocabulary AS {named}"
