"""The tables beside the log: what is written is found again."""

from engine.log.library.tables import advance, keep_snapshots, snapshots_of, tracked_position


def test_a_projection_only_advances(log):
    advanced = [log.transact(lambda transaction, at=at: advance(transaction, "upstream", at)) for at in (5, 5, 4, 6)]
    assert advanced == [True, False, False, True]
    assert tracked_position(log.reader, "upstream") == 6
    assert tracked_position(log.reader, "another") is None


def test_snapshots_are_found_by_version_from_either_end(log):
    keep_snapshots(log, [("s", version, "t", b"{}") for version in (1, 4, 9)] + [("other", 2, "t", b"{}")])
    assert [row[1] for row in snapshots_of(log.reader, "s", 1, 9, 5, backwards=False)] == [4, 9]
    assert [row[1] for row in snapshots_of(log.reader, "s", 0, 9, 1, backwards=True)] == [9]
