"""Archiving: ended conversations move into a file and back, byte for byte, and nothing is lost on the way (V16)."""

import asyncio
import stat
from datetime import UTC, datetime, timedelta

import apsw
import pytest

from engine import (
    Archived,
    ArchivedError,
    ArchiveError,
    AsyncSessionStore,
    Erased,
    SessionReader,
    SessionStore,
    StorageError,
    archiving,
)
from engine.domain import events as e
from engine.log import archive as archive_file
from tests.gateway.effort import watched
from tests.gateway.support import say, source, tables, texts

DAY = timedelta(days=1)
COLUMNS = "position, stream, version, topic, time, actor, command, reason, event_id, metadata, state, hash"


def rows(store, upto=None):
    return store.log.query(
        f"SELECT {COLUMNS} FROM events WHERE position <= ? ORDER BY position", (upto or store.log.last_position,)
    )


def marked(store):
    return [each.position for each in store.log.events() if isinstance(each.event, Archived)]


@pytest.fixture
def lived(store, clock):
    """A conversation of two segments with a fork, undone, rewritten and copied; and one that goes on."""
    lane = store.get_or_create_session(source(user_id="u1"))
    old = lane.session_id
    said = [{"role": "user", "content": f"old words {n} " * 9, "message_id": f"tg-{n}"} for n in range(8)]
    store.append_messages(old, said)
    store.rewind_session(old, 2)
    store.restore_rewound(old)
    store.rewrite_transcript(old, store.load_transcript(old)[1:])
    store.set_session_title(old, "Trip to Delft")
    child = store.compress_session(old, None, [{"role": "system", "content": "in short"}], covers=4)
    fork = store.fork_session(child)
    say(store, fork, "words of the fork", "odd \ud800 words")
    store.end_session(fork, "done")
    new = store.reset_session(lane.session_key).session_id
    say(store, new, "new words")
    clock.advance(days=2)
    return old, child, fork, new


# There and back


def test_what_was_archived_comes_back_byte_for_byte(store, lived, tmp_path):
    """V16: the rows of the log, and what every reader makes of them."""
    before, known, state = rows(store), [texts(store, each) for each in lived], tables(store)
    head = store.log.head()
    report = store.archive(DAY, tmp_path / "old.archive")
    assert (report.sessions, report.messages) == (2, len(marked(store)))
    assert store.verify(published=head).ok
    assert store.verify().archived == report.messages
    assert {name: found for name, found in tables(store).items() if name != "projections"} == {
        name: found for name, found in state.items() if name != "projections"
    }, "titles, counts, ids and copies stay"
    restored = store.restore(tmp_path / "old.archive")
    assert (restored.messages, restored.already_there, restored.erased) == (report.messages, 0, 0)
    assert rows(store, len(before)) == before
    assert [texts(store, each) for each in lived] == known
    assert store.verify(published=head).ok
    assert store.restore(tmp_path / "old.archive").already_there == report.messages


def test_reading_an_archived_session_says_where_it_is(store, lived, tmp_path):
    """V16: in the store, in a reader, for a task, and for a command that reads; the others are read as ever."""
    old, child, fork, new = lived
    path = tmp_path / "old.archive"
    texts(store, old)  # it is in the cache
    store.archive(DAY, path)
    for ask in (store.load_transcript, store.recorded_messages):
        for each in (old, child, fork):
            with pytest.raises(ArchivedError, match="restore") as error:
                ask(each)
            assert error.value.archive == str(path)
    for command in (
        lambda: store.rewind_session(old),
        lambda: store.rewrite_transcript(old, [{"role": "user", "content": "x"}]),
        lambda: asyncio.run(AsyncSessionStore(store).rewind_session(old)),
        lambda: asyncio.run(AsyncSessionStore(store).load_transcript(old)),
    ):
        with pytest.raises(ArchivedError) as error:
            command()
        assert error.value.archive == str(path)
    with SessionReader.open(store.sessions_dir) as reader, pytest.raises(ArchivedError):
        reader.load_transcript(old)
    assert texts(store, new) == ["new words"]
    info = store.get_session(old)
    assert (info.title, info.end_reason) == ("Trip to Delft", "compression")
    assert info.message_count == 7
    assert store.has_platform_message_id(old, "tg-3"), "a late delivery is still known"


def test_only_conversations_that_are_over_as_a_whole_go(store, clock, tmp_path):
    """V16: not one that is younger, goes on in a fork, may be recovered, or has a turn."""
    lanes = [store.get_or_create_session(source(str(n))) for n in range(6)]
    for lane in lanes:
        say(store, lane.session_id, "words")
    over, young, forked, recoverable, going_on, in_turn = (lane.session_id for lane in lanes)
    for each in (over, forked):
        store.end_session(each, "done")
    store.fork_session(forked)
    store.end_session(recoverable, "agent_close")
    store.begin_turn(lanes[5].session_key)
    store.end_session(in_turn, "done")
    clock.advance(days=2)
    store.end_session(young, "done")
    report = store.archive(clock() - DAY, tmp_path / "a")
    assert report.sessions == 1
    assert [each for each in (over, young, forked, recoverable, going_on, in_turn) if not _reads(store, each)] == [over]


def _reads(store, session_id):
    try:
        return store.load_transcript(session_id)
    except ArchivedError:
        return None


def test_nothing_to_move_makes_no_file(store, lived, tmp_path):
    """V16."""
    report = store.archive(datetime(2020, 1, 1, tzinfo=UTC), tmp_path / "none")
    assert (report.archive, report.messages) == (None, 0)
    assert list(tmp_path.glob("*none*")) == []


def test_it_is_recorded_who_archived_and_restored_and_why(store, lived, tmp_path):
    """V16."""
    report = store.archive(DAY, tmp_path / "a", reason="yearly")
    store.restore(tmp_path / "a")
    found = [each for each in store.log.events() if isinstance(each.event, e.ContentArchived | e.ContentRestored)]
    assert [(each.event.TOPIC, each.command, each.reason, len(each.event.positions)) for each in found] == [
        ("log.archived", "archive", "yearly", report.messages),
        ("log.restored", "restore", "restored", report.messages),
    ]


def test_it_holds_the_write_lock_for_a_block_at_a_time(store, clock, tmp_path, monkeypatch):
    """V16: bounded transactions, and others come in between."""
    session_id = store.get_or_create_session(source()).session_id
    store.append_messages(session_id, [{"role": "user", "content": f"m{n}"} for n in range(1700)])
    store.end_session(session_id, "done")
    clock.advance(days=2)
    with watched(store) as effort:
        store.archive(DAY, tmp_path / "a")
    assert len(effort.sections) == 4
    assert effort.rows <= archive_file.BLOCK_EVENTS + 5
    with watched(store) as effort:
        store.restore(tmp_path / "a")
    assert len(effort.sections) == 4
    assert effort.rows <= archive_file.BLOCK_EVENTS + 5


def test_purging_makes_the_file_smaller_and_leaves_no_byte_of_it(store, clock, tmp_path):
    """V16: the documented step."""
    session_id = store.get_or_create_session(source()).session_id
    store.append_messages(session_id, [{"role": "user", "content": f"secret words {n} " * 40} for n in range(500)])
    store.end_session(session_id, "done")
    clock.advance(days=2)
    assert store.purge()
    large = (store.sessions_dir / "sessions.db").stat().st_size
    report = store.archive(DAY, tmp_path / "a")
    assert store.purge()
    assert (store.sessions_dir / "sessions.db").stat().st_size < large / 2
    assert b"secret words" not in (store.sessions_dir / "sessions.db").read_bytes()
    assert report.archive_bytes < report.payload_bytes / 5
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_what_is_used_or_erased_while_it_is_archived_stays_out(store, lived, tmp_path, monkeypatch):
    """V16: it is looked at again under the write lock, and the file has only what was moved."""
    told = store.recorded_messages(lived[2])
    (first,) = (each.position for each in told if each.message["content"] == "words of the fork")
    plain, done = archiving.Archiver._compare, []

    def meanwhile(archiver, block, path):
        plain(archiver, block, path)
        if not done:
            done.append(store.erase(positions=[first], reason="asked to"))

    monkeypatch.setattr(archiving.Archiver, "_compare", meanwhile)
    report = store.archive(DAY, tmp_path / "a")
    log_id = store.log.reader.log_id()
    there = [position for block in archive_file.read_archive(tmp_path / "a", log_id) for position, _ in block]
    assert sorted(there) == marked(store)
    assert first not in there
    assert len(there) == report.messages
    assert store.restore(tmp_path / "a").erased == 0
    assert store.verify().ok


def test_a_session_that_is_reopened_while_it_is_archived_stays(store, lived, tmp_path, monkeypatch):
    """V16: with its whole conversation."""
    plain = archiving.Archiver._compare

    def meanwhile(archiver, block, path):
        plain(archiver, block, path)
        store.reopen_session(lived[2])

    monkeypatch.setattr(archiving.Archiver, "_compare", meanwhile)
    assert store.archive(DAY, tmp_path / "a").messages == 0
    assert marked(store) == []


def test_an_archived_message_that_is_erased_does_not_come_back(store, lived, tmp_path):
    """V15, V16."""
    store.archive(DAY, tmp_path / "a")
    gone = marked(store)[:3]
    store.log.erase(gone, actor="ada", reason="asked to")
    assert store.verify().ok
    report = store.restore(tmp_path / "a")
    assert report.erased == 3
    assert [each.position for each in store.log.events() if isinstance(each.event, Erased)] == gone
    assert marked(store) == []
    assert store.verify().ok


# Search, usage and following


def test_archived_messages_are_not_searched_and_counted_as_before(open_store, clock, tmp_path):
    """V16, V7: the views equal a fresh fold before, with and after the archive; summaries still find it."""
    store = open_store(views=True)
    session_id = store.get_or_create_session(source(user_id="ada")).session_id
    say(store, session_id, "Delft in spring", "and the canal")
    child = store.compress_session(session_id, None, [{"role": "system", "content": "about Delft"}])
    say(store, child, "Delft again")
    store.end_session(child, "done")
    clock.advance(days=2)
    assert store.wait_for_views()
    usage, found = store.usage(["user"]), len(store.search("Delft").items)
    store.archive(DAY, tmp_path / "a")
    assert store.wait_for_views()
    assert [hit.role for hit in store.search("Delft OR canal").items] == ["system"]
    assert store.usage(["user"]) == usage
    assert store.verify_views().ok
    store.restore(tmp_path / "a")
    assert store.wait_for_views()
    assert len(store.search("Delft").items) == found
    assert store.usage(["user"]) == usage
    assert store.verify_views().ok


def test_a_follower_is_told_what_was_moved(store, lived, tmp_path):
    """V14, V16."""
    follower = store.follow(store.log.last_position, sessions=[lived[0]], timeout=0)
    store.archive(DAY, tmp_path / "a")
    store.restore(tmp_path / "a")
    assert [each.event.topic for each in follower] == ["log.archived", "log.restored"]


def test_the_tables_that_are_made_again_from_archived_events_are_the_same(store, lived, tmp_path):
    """V16: a fresh fold has the heads, the ids and the copies too."""
    store.archive(DAY, tmp_path / "a")
    before = tables(store)
    store.rebuild()
    after = tables(store)
    assert after == before
    copies = "SELECT * FROM copies ORDER BY position"
    found = store.log.query(copies)
    assert found
    store.restore(tmp_path / "a")
    store.rebuild()
    assert store.log.query(copies) == found


# Bad archives


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_an_archive_that_was_cut_or_changed_anywhere_is_refused_and_nothing_is_taken(store, lived, tmp_path):
    """V16."""
    path = tmp_path / "a"
    store.archive(DAY, path)
    whole, end = path.read_bytes(), store.log.last_position
    bad = [whole[:cut] for cut in range(0, len(whole), 37)] + [flip(whole, at) for at in range(0, len(whole), 29)]
    for content in [*bad, whole + b"x", b"", b"\0" * 100, whole[:-1]]:
        path.write_bytes(content)
        with pytest.raises(ArchiveError):
            store.restore(path)
    assert store.log.last_position == end
    path.write_bytes(whole)
    assert store.restore(path).messages


def test_an_archive_with_other_words_and_right_sums_is_refused(store, lived, tmp_path):
    """V16: the digests of the log itself say what stood there."""
    path, log_id = tmp_path / "a", store.log.reader.log_id()
    store.archive(DAY, path)
    records = [record for block in archive_file.read_archive(path, log_id) for record in block]
    records[-1] = (records[-1][0], '{"message":{"role":"user","content":"forged"}}')
    archive_file.write_archive(path, log_id, datetime.now(UTC), records)
    with pytest.raises(ArchiveError, match="not the one that the log's digest names"):
        store.restore(path)
    assert len(marked(store)) == len(records), "nothing was put back"


def test_an_archive_of_another_log_of_the_future_or_none_is_refused(open_store, store, lived, tmp_path, clock):
    """V16: with words that say which it is."""
    path = tmp_path / "a"
    store.archive(DAY, path)
    other = SessionStore(tmp_path / "other", clock=clock, views=False)
    with other, pytest.raises(ArchiveError, match="of another log"):
        other.restore(path)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":9', 1))
    with pytest.raises(ArchiveError, match="upgrade session-engine"):
        store.restore(path)
    with pytest.raises(ArchiveError, match="cannot read"):
        store.restore(tmp_path / "nowhere")
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(ArchiveError, match="is no archive"):
        store.restore(tmp_path / "text")


def test_an_archive_is_never_written_over_a_file(store, lived, tmp_path):
    """V16: nor where there is no folder."""
    (tmp_path / "a").write_text("mine")
    with pytest.raises(StorageError, match="never replaces"):
        store.archive(DAY, tmp_path / "a")
    with pytest.raises(StorageError, match="does not exist"):
        store.archive(DAY, tmp_path / "no" / "folder")
    assert (tmp_path / "a").read_text() == "mine"
    assert marked(store) == []


@pytest.mark.parametrize("older_than", [5, None, timedelta(-1), datetime(2026, 1, 1)])
def test_a_time_that_is_none_is_refused(store, older_than, tmp_path):
    """V16."""
    with pytest.raises(ValueError, match="older_than must be"):
        store.archive(older_than, tmp_path / "a")


def test_the_database_lets_back_only_the_bytes_that_the_digest_names(store, lived, tmp_path):
    """V16: whoever writes, by whatever connection."""
    store.archive(DAY, tmp_path / "a")
    position = marked(store)[0]
    for forged in ('{"message":{}}', '{"$archived":"' + "0" * 64 + '","at":1}', "{}"):
        with pytest.raises(Exception, match="immutable"):
            store.log.transact(lambda transaction, forged=forged: transaction.replace_payload(position, forged))
    connection = apsw.Connection(store.log.path)
    with pytest.raises(apsw.Error):
        connection.execute("UPDATE events SET state = '{}' WHERE position = ?", (position,))
    connection.close()
    assert store.verify().ok


def test_from_a_task(store, lived, tmp_path):
    """V16."""

    async def run():
        tasks = AsyncSessionStore(store)
        report = await tasks.archive(DAY, tmp_path / "a")
        assert (await tasks.restore(tmp_path / "a")).messages == report.messages > 0

    asyncio.run(run())
