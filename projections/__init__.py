"""Folds of the event log.

The store is made of them, and they are made of the engine's events and log. Importing the engine first, as
here, makes any module of either package importable first.
"""

import engine  # noqa: F401 - see above
