"""The past, what changed, and stores made of a part of a log, over random histories of all commands (R9, R10, R20)."""

import msgspec
from hypothesis import HealthCheck, given, settings, strategies as st

from engine import ArchivedError, EventLog
from engine.domain import events as e
from engine.domain.encoding import archived_digest, decode, encode, tombstone_digest
from engine.domain.streams import LOG
from engine.log.chain import digest
from engine.log.envelope import NEXT_VERSION
from engine.log.rows import STORED, Row
from projections.inline.past import quarantined_at, tables_at
from projections.inline.projection import InlineTables, catch_up
from projections.inline.streams_at import fold_streams
from replay import as_of, diff, restore, verify, what_if
from replay.differences import lanes_of, projects_of, sessions_of
from replay.exporting import REFERRING, moved
from tests.chance import SOAK
from tests.replay.decisions import told
from tests.replay.everything import ToldEverything, histories
from tests.replay.tables import contents, folded
from tests.replay.test_differences import applied, state_at

FEW = settings(max_examples=15 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@FEW
@given(history=histories)
def test_every_moment_is_the_state_that_the_store_had_then(history):
    """R9: `as_of(n)` is the state when position n was written, for every n; what was erased since is erased there."""
    then = {}

    def look(story):
        then[story.store.log.last_position] = contents(story.store.log.reader)

    with told(history, ToldEverything, look) as story:
        log = story.store.log
        erased = [each.position for each in log.events(topics=[e.ContentErased.TOPIC])]
        for position in range(log.last_position + 1):
            past = tables_at(log, position, from_start=False)
            found = contents(past)
            past.close()
            assert found == folded(log, position), position
            if position in then and not any(each > position for each in erased):
                assert found == then[position], position


@FEW
@given(history=histories, parts=st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_diff_applied_to_one_moment_gives_the_other(history, parts):
    """R10: any two moments, in both directions."""
    with told(history, ToldEverything) as story:
        log = story.store.log
        positions = {round(part * log.last_position) for part in parts}
        states = {position: state_at(story.store, position) for position in positions}
        for a, before in states.items():
            for b, after in states.items():
                assert applied(before, diff(log, a, b)) == after, (a, b)


@FEW
@given(history=histories)
def test_with_the_recorded_policy_nothing_changes(history):
    """R12: whatever else than a gateway's commands is in the log."""
    with told(history, ToldEverything) as story:
        found = what_if(story.store.log)
        assert (found.gone, found.added, found.otherwise, found.lanes) == ((), (), (), ())


@FEW
@given(history=histories, part=st.floats(0, 1))
def test_a_part_of_the_log_and_the_rest_of_its_events_are_the_log(history, part):
    """R20: row by row, hash by hash, and every row of the tables."""
    with told(history, ToldEverything) as story:
        log = story.store.log
        position = round(part * log.last_position)
        log.copy_until(to := story.folder / "part.db", position)
        with EventLog(to, synchronous="OFF", inline=[InlineTables()]) as copy:
            catch_up(copy)
            append(copy, rows_behind(log, position))
            assert copy.head() == log.head()
            assert contents(copy.reader) == contents(log.reader)


@FEW
@given(history=histories, part=st.floats(0, 1))
def test_what_was_restored_and_the_rest_of_the_events_give_the_present(history, part):
    """R20: the state of the moment, and after the rest what the store has now."""
    with told(history, ToldEverything) as story:
        log = story.store.log
        position = round(part * log.last_position)
        restore(log, to := story.folder / "restored", position)
        with EventLog(to / "sessions.db", synchronous="OFF", inline=[InlineTables()]) as restored:
            there, expected = contents(restored.reader), folded(log, position)
            for each in (there, expected):
                each.pop("projections")
            assert there == expected
            moved_by = restored.last_position - position
            append(restored, rows_behind(log, position, moved_by))
            assert verify(restored).ok
            assert present(restored, lambda at: at - moved_by if at > position else at) == present(log)


def append(log, rows):
    """Append rows as they were recorded elsewhere, and bring the tables up to them."""
    rows = list(rows)
    log.transact(lambda transaction: transaction.append_rows(rows, inline=False))
    catch_up(log)


def rows_behind(log, position, moved_by=0):
    """Yield the rows behind a position as another log appends them, in which they stand so much later."""
    last = log.last_position
    now = {each: each + (moved_by if each > position else 0) for each in range(1, last + 1)}
    own_ids = dict(log.query("SELECT position, event_id FROM events"))
    for row in log.reader.stored_at(range(position + 1, last + 1)):
        given = dict(zip(STORED, row, strict=True))
        event = decode(given["topic"], given["state"])
        if moved_by and isinstance(event, REFERRING):
            given["state"] = encode(moved(event, now)).decode()
        elif moved_by and isinstance(event, e.PAYLOADS_CHANGED):
            positions = [now[each] for each in event.positions]
            given["state"] = encode(msgspec.structs.replace(event, positions=positions)).decode()
        if moved_by and given["stream"] == LOG:
            given["version"] = NEXT_VERSION
        given["event_id"] = own_ids[given.pop("position")]
        state = given["state"].encode()
        kept = tombstone_digest(state) or archived_digest(state) or digest(state)
        yield Row(**given, digest=kept, event=None)


def present(log, stood=int):
    """Return all that a diff speaks of, and what is said; `stood` tells where an event stands in the other log."""
    last = log.last_position
    versions = {each: log.reader.version_at(each, last) for each in log.reader.streams_since(0, last)}
    fold = fold_streams(log.reader, versions, last, quarantined_at(log, last))
    with as_of(log, last) as reader:
        said = {session_id: messages_of(reader, session_id) for session_id in sessions_of(fold)}
    sessions = {key: {**each, "forked_at": stood(each["forked_at"] or 0)} for key, each in sessions_of(fold).items()}
    return lanes_of(fold), sessions, projects_of(fold), said


def messages_of(reader, session_id):
    try:
        return reader.load_transcript(session_id)
    except ArchivedError:
        return "archived"
