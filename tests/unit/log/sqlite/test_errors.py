"""Each error of apsw becomes one of the log, which says what to do."""

import apsw
import pytest

from engine.log import errors
from engine.log.sqlite.errors import translate


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.FullError, errors.DiskFullError),
        (apsw.BusyError, errors.LockedLogError),
        (apsw.LockedError, errors.LockedLogError),
        (apsw.NotADBError, errors.NotALogError),
        (apsw.CorruptError, errors.CorruptLogError),
        (apsw.ReadOnlyError, errors.ReadOnlyLogError),
        (apsw.ConstraintError, errors.RefusedError),
        (apsw.CantOpenError, errors.StorageError),
        (apsw.IOError, errors.StorageError),
        (apsw.SQLError, errors.LogError),
    ],
)
def test_an_error_names_the_file_and_what_sqlite_said(error, kind):
    translated = translate(error("said by SQLite"), "/logs/a.db", "writing")
    assert type(translated) is kind
    for part in ("/logs/a.db", "said by SQLite"):
        assert part in str(translated)
