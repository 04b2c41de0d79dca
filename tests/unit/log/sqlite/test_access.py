"""Access to the files of a log; files of other users are in tests/faults/test_other_users.py."""

import stat

from engine.log.sqlite.access import keep_private


def test_a_private_file_is_left_as_it_is(tmp_path, caplog):
    (tmp_path / "log.db").touch(mode=0o600)
    keep_private(str(tmp_path / "log.db"))
    assert stat.S_IMODE((tmp_path / "log.db").stat().st_mode) == 0o600
    assert caplog.records == []
