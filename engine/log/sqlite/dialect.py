"""The few expressions that SQLite spells in its own way, by name."""


class SQLiteDialect:
    """Expressions for views that people read with any client."""

    def json(self, column: str) -> str:
        """Return a column as JSON; NULL if it is none."""
        return f"CASE WHEN json_valid({column}) THEN {column} END"

    def iso_time(self, column: str) -> str:
        """Return UTC microseconds as ISO 8601 text; NULL for a year that text has no place for."""
        part = f"(({column} % 1000000 + 1000000) % 1000000)"
        seconds = f"strftime('%Y-%m-%dT%H:%M:%S', ({column} - {part}) / 1000000, 'unixepoch')"
        return f"({seconds} || printf('.%06dZ', {part}))"
