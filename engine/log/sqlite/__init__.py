"""The log in one SQLite file. Everything that knows apsw is in this package."""
