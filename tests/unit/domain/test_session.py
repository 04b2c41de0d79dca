"""A session's fold, and the rules of ending, claiming and following a compression (G20, G27, G42 to G44)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from engine.domain import events as e
from engine.domain.chat import KINDS
from engine.domain.chat_events import MessageExtended
from engine.domain.encoding import Content, Erased, Unknown
from engine.domain.registry import EVENTS
from engine.domain.session import (
    ACCIDENTAL,
    COMPRESSION,
    Session,
    claiming,
    ending,
    evolve,
    live_tip,
    peer_of,
    profile_of,
)

LANE = "agent:main:telegram:dm:4711"
SOURCE = {"platform": "telegram", "chat_id": "4711", "chat_type": "dm", "user_id": "7"}
CREATED = e.SessionCreated(conversation_id="c1", lane=LANE, source=SOURCE)
SAID = e.MessageAppended(message={"role": "user", "content": "x"})
DELIBERATE = ["session_reset", "session_switch", "idle", "daily", "suspended", "user_exit", COMPRESSION]


def folded(*events: Content, head: Session | None = None) -> Session:
    """Return a head after events, each one microsecond after the one before."""
    head = Session("s1") if head is None else head
    for event in events:
        version = head.version + 1
        head = evolve(head, event, 1000 + version, version)
    return head


def test_created_session_is_live_empty_and_its_lanes() -> None:
    head = folded(CREATED)
    assert (head.conversation_id, head.family_id, head.lane, head.source) == ("c1", "c1", LANE, SOURCE)
    assert (head.created_at, head.version, head.live, head.end_reason) == (1001, 1, 0, None)
    assert (head.parent_session_id, head.relation, head.compressed_into) == (None, "root", None)


def test_g43_fork_knows_its_family_and_what_it_has_in_common() -> None:
    created = e.SessionCreated(conversation_id="f", parent_session_id="s1", relation="fork", family_id="c1")
    inherited = e.Inherited("s1", 0, 12, 1, 4)
    head = folded(created, e.SessionForked(inherited=inherited, conversation_id="c1", position=57))
    assert (head.conversation_id, head.family_id, head.relation) == ("f", "c1", "fork")
    assert (head.live, head.forked_from, head.forked_at, head.history_from) == (3, "c1", 57, 2)


def test_g42_compressed_session_is_closed_into_its_child() -> None:
    head = folded(CREATED, e.SessionCompressed(child_session_id="s2"))
    assert (head.end_reason, head.ended_at, head.compressed_into) == (COMPRESSION, 1002, "s2")
    assert folded(e.SessionReopened(), head=head).compressed_into is None


def test_g44_end_and_reopening() -> None:
    head = folded(CREATED, e.SessionEnded(end_reason="idle"))
    assert (head.end_reason, head.ended_at) == ("idle", 1002)
    head = folded(e.SessionReopened(previous_end_reason="idle"), head=head)
    assert (head.end_reason, head.ended_at) == (None, None)


def test_g50_g51_counts_follow_what_is_live() -> None:
    head = folded(CREATED, SAID, SAID, SAID)
    head = folded(e.TranscriptRewound(keep=1, rewound_count=2, turns_undone=1), head=head)
    assert (head.live, head.undone_at) == (1, 5)
    head = folded(e.TranscriptRewound(keep=0, rewound_count=1, turns_undone=1, before=5), head=head)
    assert (head.live, head.undone_at) == (0, 6)
    head = folded(e.TranscriptRestored(restored_count=1, before=5), head=head)
    assert (head.live, head.undone_at, head.history_from) == (1, 5, 0)
    head = folded(e.TranscriptRewritten(messages=[{}, {}], inherited=e.Inherited("s0", 0, 9, 2, 5)), head=head)
    assert (head.live, head.undone_at, head.history_from, head.version) == (5, 0, 8, 8)


def test_g27_claimed_session_is_the_other_lanes() -> None:
    claimed = folded(CREATED, e.SessionClaimed(lane="agent:main:sms:dm:1", source={"platform": "sms"}))
    assert (claimed.lane, claimed.source) == ("agent:main:sms:dm:1", {"platform": "sms"})
    assert folded(CREATED, e.SessionClaimed(lane="other")).source == SOURCE


def test_g44_title_is_set_and_taken_away() -> None:
    head = folded(CREATED, e.SessionTitled(title="Trip", auto=True))
    assert (head.title, head.title_is_auto) == ("Trip", True)
    assert folded(e.SessionTitled(title=None), head=head).title is None


@pytest.mark.parametrize(
    ("topic", "live", "history_from"),
    [("message.appended", 2, 0), ("transcript.rewritten", 0, 3), ("session.forked", 0, 3), ("session.titled", 1, 0)],
)
def test_erased_event_keeps_its_place(topic: str, live: int, history_from: int) -> None:
    head = folded(CREATED, SAID, Erased(topic, "0" * 64, 5))
    assert (head.live, head.history_from, head.version) == (live, history_from, 3)


def test_session_whose_creation_was_erased_is_its_own_conversation() -> None:
    head = folded(Erased("session.created", "0" * 64, 5), SAID)
    assert (head.conversation_id, head.family_id, head.lane, head.source) == ("s1", "s1", None, None)
    assert (head.created_at, head.live) == (1001, 1)


def test_end_whose_reason_was_erased_is_an_end_that_nothing_recovers() -> None:
    over = folded(CREATED, SAID, Erased("session.ended", "0" * 64, 5))
    assert (over.end_reason, over.ended_at, over.recoverable) == ("erased", 1003, False)
    again = folded(Erased("session.reopened", "0" * 64, 5), head=over)
    assert (again.end_reason, again.ended_at) == (None, None)


def test_event_that_says_nothing_moves_only_the_version() -> None:
    head = folded(CREATED)
    for content in (Unknown("session.later", {}), e.TurnEnded(token="t")):
        assert folded(content, head=head) == msgspec.structs.replace(head, version=2)


def test_every_event_of_a_session_changes_it() -> None:
    """An event that nothing folds does not exist; what is said of a chat or one message is folded there."""
    head = folded(CREATED, SAID, SAID, SAID, SAID, e.SessionEnded(end_reason="idle"))
    for tag, cls in EVENTS.items():
        if tag.startswith(("session.", "message.", "transcript.")) and cls not in {*KINDS, MessageExtended}:
            assert folded(cls.EXAMPLE, head=head) != msgspec.structs.replace(head, version=7), tag


@pytest.mark.parametrize("reason", [None, *sorted(ACCIDENTAL)])
def test_g27_live_or_accidentally_ended_session_with_messages_may_be_recovered(reason: str | None) -> None:
    ends = [] if reason is None else [e.SessionEnded(end_reason=reason)]
    assert folded(CREATED, SAID, *ends).recoverable
    assert not folded(CREATED, *ends).recoverable
    undone = e.TranscriptRewound(keep=0, rewound_count=1, turns_undone=1)
    assert not folded(CREATED, SAID, undone, *ends).recoverable


@pytest.mark.parametrize("reason", DELIBERATE)
def test_g27_session_that_ended_on_purpose_is_never_recovered(reason: str) -> None:
    assert not folded(CREATED, SAID, e.SessionEnded(end_reason=reason)).recoverable


@pytest.mark.parametrize("first", [None, *sorted(ACCIDENTAL), "idle"])
@pytest.mark.parametrize("second", ["agent_close", "session_reset"])
def test_g44_first_reason_wins_unless_a_deliberate_one_replaces_an_accident(first: str | None, second: str) -> None:
    head = folded(CREATED) if first is None else folded(CREATED, e.SessionEnded(end_reason=first))
    event = ending(head, second)
    allowed = first is None or (first in ACCIDENTAL and second not in ACCIDENTAL)
    assert event == (e.SessionEnded(end_reason=second) if allowed else None)


def test_g27_claiming_reopens_an_ended_session_and_moves_one_that_is_anothers() -> None:
    head = folded(CREATED)
    assert claiming(head, LANE, SOURCE) == []
    assert claiming(head, LANE, {**SOURCE, "message_id": "9", "user_name": "Ada"}) == [], "the same person and place"
    ended = folded(e.SessionEnded(end_reason="agent_close"), head=head)
    assert claiming(ended, LANE, None) == [e.SessionReopened(previous_end_reason="agent_close")]
    assert claiming(head, "other", None) == [e.SessionClaimed(lane="other")]
    moved = {**SOURCE, "chat_id": "5"}
    assert claiming(head, LANE, moved) == [e.SessionClaimed(lane=LANE, source=moved)]
    assert len(claiming(ended, "other", SOURCE)) == 2


def test_claimed_session_needs_no_second_claim() -> None:
    head = folded(CREATED, e.SessionEnded(end_reason="agent_close"))
    wanted = {**SOURCE, "chat_id": "5"}
    assert claiming(folded(*claiming(head, "agent:main:telegram:dm:5", wanted), head=head), head.lane or "", None) != []
    assert claiming(folded(*claiming(head, "other:main:x", wanted), head=head), "other:main:x", wanted) == []


def chain(*links: tuple[str, str]) -> dict[str, Session]:
    return {one: Session(one, end_reason=COMPRESSION, child_session_id=other) for one, other in links}


def test_g20_live_tip_is_at_the_end_of_the_chain() -> None:
    sessions: dict[str, Session] = chain(("a", "b"), ("b", "c"))
    sessions["c"] = Session("c")
    assert {live_tip(sessions[each], sessions.get).session_id for each in "abc"} == {"c"}


def test_g20_chain_that_leads_back_or_into_nothing_ends() -> None:
    circle = chain(("a", "b"), ("b", "a"))
    assert live_tip(circle["a"], circle.get).session_id == "b"
    torn = chain(("a", "gone"))
    assert live_tip(torn["a"], torn.get).session_id == "a"


def test_g20_only_compression_is_followed() -> None:
    reopened = Session("a", child_session_id="b")
    switched = Session("a", end_reason="session_switch", child_session_id="b")
    for session in (reopened, switched):
        assert live_tip(session, {"b": Session("b")}.get) is session


@pytest.mark.parametrize(
    ("lane", "profile"), [(LANE, "main"), ("agent:work:sms:dm:1", "work"), ("odd", ""), ("a:b", "")]
)
def test_g27_profile_is_the_second_part_of_a_lanes_key(lane: str, profile: str) -> None:
    assert profile_of(lane) == profile


TEXT = st.none() | st.sampled_from(["", "a", "b", 'a","b', "a\ud800", "ü"])
PLACES = st.fixed_dictionaries(dict.fromkeys(["platform", "user_id", "chat_id", "chat_type", "thread_id"], TEXT))


@given(PLACES, PLACES, st.sampled_from(["main", "work"]), st.sampled_from(["main", "work"]))
def test_g27_peers_are_equal_only_for_the_same_person_and_place_in_one_profile(
    one: dict[str, Any], other: dict[str, Any], here: str, there: str
) -> None:
    same = here == there and all((one[name] or None) == (other[name] or None) for name in one)
    assert (peer_of(one, here) == peer_of(other, there)) == same


def test_g10_g27_people_whom_only_the_other_id_tells_apart_are_not_the_same() -> None:
    people = [{"platform": "sms", "user_id": "u", "user_id_alt": alt} for alt in ("ann", "bob")]
    assert peer_of(people[0], "main") != peer_of(people[1], "main")
    assert peer_of({"platform": "sms", "user_id_alt": "u"}, "main") == peer_of(
        {"platform": "sms", "user_id": "u"}, "main"
    )


def test_session_of_no_lane_or_of_no_source_is_nobodys_peer() -> None:
    assert Session("s", lane=LANE).peer is None
    assert Session("s", source=SOURCE).peer is None
    assert Session("s", lane=LANE, source=SOURCE).peer == peer_of(SOURCE, "main")
