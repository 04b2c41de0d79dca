"""The life of a lane or a conversation: as a value, for a terminal, and as a page (R14)."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from datetime import UTC, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from engine import SessionStore
from engine.log.sqlite.eventlog import EventLog
from replay import Moment, UnknownSubjectError, timeline, timeline_html, timeline_lines
from replay.past import transcript_at
from replay.pictures import SIGNS, STORE, columns
from replay.said import Said, said_in
from tests.chance import SOAK
from tests.gateway.support import FakeClock, policy, say, source
from tests.replay.decisions import histories, told
from tests.replay.incident import ADA, GRACE, LINUS, MARGARET, TEAM, ZONE, at

KEY = "agent:main:telegram:dm:4711"
HOSTILE = (
    "</script><script>alert(1)</script><!-- \"q\" 'q' &amp; \u2028\u2029 \x00\x1b[31m\u202e \ud800 @@DATA@@ <img src=x>"
)
FEW = settings(max_examples=15 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def text_of(lines: list[tuple[tuple[str, str], ...]]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


# As a value


def test_a_lanes_life_is_its_sessions_turns_and_what_happened_to_it(incident: EventLog) -> None:
    """R14: created, resets, crashes, restarts and policy changes."""
    life = timeline(incident, TEAM, zone=ZONE)
    assert (life.kind, life.subject, life.name, life.left_out) == ("lane", TEAM, "team 120", 0)
    assert [each.session_id for each in life.legs] == [
        "20260701_172120_12006038",
        "20260702_144143_290b9e31",
        "20260703_095500_41d2f90e",
        "20260703_100000_38219c39",
        "20260703_095500_41d2f90e",
    ]
    assert [(each.began, each.ended) for each in life.legs[2:4]] == [
        (at(3, "09:55"), at(3, "10:00").replace(microsecond=500000)),
        (at(3, "10:00").replace(microsecond=500000), at(3, "11:35")),
    ]
    assert life.legs[-1].ended is None
    assert [each.kind for each in life.marks] == [
        *("created", "policy", "reset", "crash", "reset", "upgraded", "by hand", "upgraded", "reopened", "switched"),
    ]
    assert [each.outcome for each in life.turns] == ["finished"] * 6
    assert (len(life.messages), life.began.date().day, life.ended) == (12, 1, at(3, "18:00"))


def test_a_turn_that_a_crash_cut_off_ends_when_that_was_seen(incident: EventLog) -> None:
    """R14."""
    [cut] = [each for each in timeline(incident, ADA, zone=ZONE).turns if each.outcome == "interrupted"]
    assert (cut.began, cut.ended) == (at(2, "15:05"), at(2, "15:09"))


def test_silences_are_the_times_between_what_was_said(incident: EventLog) -> None:
    """R14: to scale, the longest first."""
    silences = timeline(incident, GRACE, zone=ZONE).silences
    assert [each.seconds for each in silences] == sorted((each.seconds for each in silences), reverse=True)
    assert (silences[0].ended - silences[0].began).total_seconds() > 28 * 3600


def test_a_sessions_life_is_that_of_its_conversation(incident: EventLog) -> None:
    """R14: the segments of a compression are one life."""
    life = timeline(incident, "20260702_221011_4a3a5a50", zone=ZONE)
    assert life.kind == "session"
    assert [each.session_id for each in life.legs] == ["20260702_113910_684dd1d2", "20260702_221011_4a3a5a50"]
    assert "compressed" in [each.kind for each in life.marks]


def test_a_life_up_to_a_moment_knows_nothing_of_what_came_later(incident: EventLog) -> None:
    """R14, R9."""
    thursday = Moment(2700, at(2, "15:20"))
    life = timeline(incident, ADA, thursday, zone=ZONE)
    assert (life.position, life.ended) == (2700, at(2, "15:31"))
    assert max(each.position for each in life.events) <= 2700


def test_of_a_long_life_the_latest_is_shown_and_how_much_is_left_out(incident: EventLog) -> None:
    whole, short = timeline(incident, MARGARET), timeline(incident, MARGARET, most=10)
    assert short.left_out > 0
    assert short.events[-1] == whole.events[-1]
    assert any("left out" in each for each in text_of(timeline_lines(short, 80)))
    assert f"{short.left_out} older events left out" in timeline_html(incident, MARGARET, most=10)


@pytest.mark.parametrize("subject", ["nobody", "@1", "@99999999"])
def test_what_has_no_life_is_refused(incident: EventLog, subject: str) -> None:
    """R14: an event of the log itself is no lane's and no session's."""
    for ask in (timeline, timeline_html):
        with pytest.raises(UnknownSubjectError):
            ask(incident, subject)


# In a terminal


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(incident: EventLog, width: int) -> None:
    """R14: 40 columns are the least."""
    for subject in (ADA, TEAM, LINUS, MARGARET, "20260702_113910_684dd1d2"):
        lines = text_of(timeline_lines(timeline(incident, subject, zone=ZONE), width))
        assert max(map(columns, lines)) <= max(width, 40)


def test_the_picture_is_to_scale_and_its_signs_are_explained(incident: EventLog) -> None:
    """R14."""
    lines = text_of(timeline_lines(timeline(incident, TEAM, zone=ZONE), 100))
    assert lines[:2] == [
        "agent:main:slack:group:C120:U1200  team 120",
        "Wed 1 Jul 17:21 to Fri 3 Jul 18:00 (2 d) · 5 sessions · 12 messages · 6 turns · up to @5558",
    ]
    rows = {line[:10].strip(): line[10:] for line in lines[3:10]}
    assert re.fullmatch("█{39}▒{36}█{3}▒{12}", rows["sessions"])
    assert rows["events"].index("◆") == rows["store"].index("△")
    assert rows["store"].index("▲") < rows["store"].index("X") < rows["store"].index("△")
    legend = " ".join(lines[11:14])
    assert all(f"{sign} " in legend for sign in "○●◆⇄□X▲△")
    assert any(re.fullmatch(r"Wed 1 Jul 17:21:\d\d  ┆ 21 h 20 min of silence", each) for each in lines)
    assert any("(by release-0.1.1: startup migration:" in each for each in lines)


def test_the_page_of_a_lane_shows_what_is_not_in_an_archive(
    store: SessionStore, clock: FakeClock, tmp_path: Path
) -> None:
    """R14, V16: of the rest it says where it is."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "long ago")
    store.reset_session(entry.session_key)
    clock.advance(days=1)
    assert store.archive(timedelta(hours=1), tmp_path / "old.archive").messages == 1
    say(store, store.get_or_create_session(source()).session_id, "just now")
    page = timeline_html(store.log, entry.session_key)
    assert "just now" in page
    assert "long ago" not in page
    assert page.count("What was said here is in an archive.") == 1


def test_a_hostile_title_does_not_reach_the_terminal_raw(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R14: control characters, turned text and line breaks are shown, not acted upon; wide ones are counted."""
    store = open_store(policy("none"))
    session = store.get_or_create_session(source(chat_name="\x1b[31m名前\n\u202e")).session_id
    store.set_session_title(session, "\x1b]0;owned\x07 " + "名" * 60)
    store.end_session(session, "\x1b[2J\u202e gone")
    for width in (40, 80):
        lines = text_of(timeline_lines(timeline(store.log, KEY), width))
        assert all(each.isprintable() for each in lines)
        assert max(map(columns, lines)) <= width


# As a page


class Page(HTMLParser):
    """A page as a browser sees it: elements, attributes and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.policy = ""
        self._inside = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._inside = tag == "script"
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")


@pytest.fixture
def hostile(open_store: Callable[..., SessionStore], clock: FakeClock) -> SessionStore:
    """A lane whose names, titles, reasons and messages all try to get out of where they stand."""
    store = open_store(actor="actor <b>")
    session = store.get_or_create_session(source(chat_name=HOSTILE)).session_id
    say(store, session, HOSTILE, HOSTILE)
    store.append_to_transcript(session, {"role": HOSTILE, "content": HOSTILE, "tool_calls": [HOSTILE], HOSTILE: 1})
    store.set_session_title(session, "<title> </script>")
    store.set_model_override(KEY, {"model": "<m>"})
    store.mark_resume_pending(KEY, "</li><!-- reason")
    store.end_session(session, "</ol></script>")
    return store


def test_hostile_content_stays_content(hostile: SessionStore) -> None:
    """R14: script ends, comments, quotes, line separators, half characters and the page's own markers."""
    page = timeline_html(hostile.log, KEY, zone=UTC)
    seen = Page(page.encode().decode())  # it can be written
    assert seen.tags.count("script") == 2
    assert not {"img", "iframe", "object", "link", "b>"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href", "action")]
    data = json.loads(seen.scripts[0])
    assert "<" not in seen.scripts[0]
    assert not {"\u2028", "\u2029"} & set(seen.scripts[0])
    assert data["steps"][-1]["s"]["ended"] == "</ol></script>"
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_only_the_pages_own_script_may_run_and_nothing_is_fetched(incident: EventLog) -> None:
    """R14: no network access."""
    page = timeline_html(incident, TEAM, zone=ZONE)
    seen = Page(page)
    digest = base64.b64encode(hashlib.sha256(seen.scripts[1].encode()).digest()).decode()
    assert seen.policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttp|WebSocket", page)


def test_the_page_is_a_plain_list_without_its_script(incident: EventLog) -> None:
    """R14: every message and every decision is in the page itself, and nothing is hidden before the script runs."""
    page = timeline_html(incident, TEAM, zone=ZONE)
    body = page[page.index("<main>") : page.index("</main>")]
    life = timeline(incident, TEAM, zone=ZONE)
    assert body.count('<li class="user') + body.count('<li class="was"') + body.count('<li class=""') == 12
    assert all(f"<span>@{each.position}</span>" in body for each in life.marks)
    assert "21 h 20 min of silence from Wed 1 Jul 17:21" in body
    assert re.findall("<[^>]* hidden>", body) == ['<p class="empty js-only" id="none" hidden>']


def test_signs_of_the_page_do_not_cover_each_other(incident: EventLog) -> None:
    """R14: those that would stand in rows below one another, more of them on a phone."""
    page = timeline_html(incident, TEAM, zone=ZONE)
    for track in re.findall('<div class="track signs"[^>]*>.*?</div>', page):
        for size, close in (("w", 3.2), ("n", 8.0)):
            places = re.findall(rf'style="left:([\d.]+)%;[^"]*--{size}:(\d+)', track)
            rows: dict[str, list[float]] = {}
            for x, row in places:
                rows.setdefault(row, []).append(float(x))
            assert [int(row) for row in sorted(rows)] == list(range(len(rows)))
            assert f"--{size}:{len(rows)}" in track.partition(">")[0]
            if len(rows) < 4:
                assert min((b - a for row in rows.values() for a, b in pairwise(row)), default=100) >= close


def test_only_what_was_undone_or_rewritten_is_struck_through(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R14: a message of a former session was not taken back."""
    store = open_store(policy("none"))
    session = store.get_or_create_session(source()).session_id
    say(store, session, "kept", "undone")
    store.rewind_session(session)
    store.reset_session(KEY)
    page = timeline_html(store.log, KEY)
    assert re.findall(r'<li class="([^"]*)"[^>]*>(?:(?!</li>).)*<p dir="auto">(\w+)', page) == [
        ("user", "kept"),
        ("user was", "undone"),
    ]


def test_the_page_looks_right_in_light_and_dark_on_phone_and_desktop() -> None:
    """R14: what a picture cannot show is that both are asked for."""
    template = (Path(__file__).parent.parent.parent / "replay" / "page.html").read_text()
    assert "prefers-color-scheme:dark" in template
    assert "max-width:820px" in template
    assert 'name="viewport"' in template


def test_the_sliders_state_is_that_of_the_lane_at_each_event(incident: EventLog) -> None:
    """R14: the card shows session, flags and policy as they were."""
    page = Page(timeline_html(incident, GRACE, zone=ZONE))
    state: dict[str, object] = {}
    seen = []
    for step in json.loads(page.scripts[0])["steps"]:
        state |= step["s"]
        seen.append((step["p"], *(state.get(name) for name in ("session", "turn", "pending", "policy"))))
    assert seen[1][1:] == ("20260701_103254_b56981f0", 0, 0, "idle 24 h"), seen[:3]
    by_position = {position: rest for position, *rest in seen}
    marked = next(each for each in timeline(incident, GRACE).marks if each.event == "lane.resume_marked")
    assert by_position[marked.position][2] == 1
    assert seen[-1][1] == "20260703_102717_a565aed5"
    assert seen[-1][4] == "both: idle 24 h, daily at 04:00"


def test_every_kind_of_mark_has_a_sign() -> None:
    kinds = {"by hand", "held", "recovered", "imported", "crash", "policy", "upgraded", "failed"}
    assert kinds | STORE <= set(SIGNS)


# Any history


@FEW
@given(history=histories)
def test_every_life_of_any_history_can_be_shown(history) -> None:
    """R14: as a value, in a terminal, and as a page, at any position."""
    with told(history) as story:
        log = story.store.log
        subjects = [*(entry.session_key for entry in story.store.list_sessions()), *story.sessions()[:4]]
        for subject in subjects:
            life = timeline(log, subject)
            assert [each.position for each in life.events] == sorted(each.position for each in life.events)
            assert max(columns(each) for each in text_of(timeline_lines(life, 60))) <= 60
            Page(timeline_html(log, subject))
        for position in range(2, log.last_position + 1, 5):
            if not log.reader.recorded_at([position])[0].stream.startswith("log"):
                timeline_lines(timeline(log, f"@{position}"), 40)


def is_live(message: Said, position: int) -> bool:
    return any(first <= position and (end is None or position < end) for first, end in message.live)


@FEW
@given(history=histories)
def test_a_message_is_in_the_page_exactly_while_it_was_live(history) -> None:
    """R14, R9: the transcript that the slider shows is the one that was there."""
    with told(history) as story:
        log: EventLog = story.store.log
        for session_id in story.sessions()[:3]:
            found = said_in(log.reader, session_id, log.last_position)
            positions = [each.position for each in log.stream(f"session:{session_id}")]
            for position in positions:
                live = [
                    each for each in found if any(a <= position and (b is None or position < b) for a, b in each.live)
                ]
                there = [message.get("content") for message in transcript_at(log, session_id, position)]
                assert [each.text for each in live if not each.erased] == there
