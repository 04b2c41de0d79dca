"""The past and the decisions, from the shell (R9, R10, R11)."""

from pathlib import Path

import pytest

from engine import EventLog
from tests.replay.cli.support import ADA, BOB, run


@pytest.fixture(scope="module")
def reset_at(lived: Path) -> int:
    """The position at which Ada's lane was reset."""
    with EventLog(lived / "sessions.db", read_only=True) as log:
        return next(each.position for each in log.events(topics=["lane.reset"]))


@pytest.fixture(scope="module")
def before(lived: Path, reset_at: int) -> str:
    """The last position before the command that reset it."""
    with EventLog(lived / "sessions.db", read_only=True) as log:
        (reset,) = log.events(reset_at - 1, reset_at)
        return f"@{log.position_at(reset.time - 1)}"


def test_lanes_are_listed_as_they_were(lived: Path, before: str) -> None:
    """R9: `at WHEN`, and `list --at`, take the same."""
    lanes = run("at", before, "-o", "json", store=lived).items
    assert lanes == run("list", "--at", before, "-o", "json", store=lived).items
    now = {item["lane"]: item["session_id"] for item in run("list", "-o", "json", store=lived).items}
    then = {item["lane"]: item["session_id"] for item in lanes}
    assert then.keys() == now.keys()
    assert all(then[key] != now[key] for key in now)
    assert run("at", "@0", "-o", "json", store=lived).items == []
    assert [item["lane"] for item in run("at", "2026-07-01 14:26Z", "-o", "json", store=lived).items] == [ADA]


def test_one_lane_session_or_transcript_is_shown_as_it_was(lived: Path, before: str) -> None:
    """R9: names are those of that moment, and what was erased since is erased there too."""
    (lane,) = run("at", before, "--lane", "telegram", "-o", "json", store=lived).items
    session = lane["session_id"]
    (one,) = run("at", before, "--session", session, "-o", "json", store=lived).items
    assert (one["ended_at"], one["title"], one["message_count"]) == (None, "Late order", 2)
    said = run("at", "@5", "--transcript", session, "-o", "json", store=lived).items
    assert [item["text"] for item in said] == ["the order is late"]
    later = run("list", "-o", "json", store=lived).items
    second = next(item["session_id"] for item in later if item["lane"] == ADA)
    assert run("at", before, "--session", second, store=lived).code == 3
    assert "555" not in run("at", "now", "--transcript", second, "-o", "json", store=lived).out
    assert run("at", before, "--lane", "x", "--session", "y", store=lived).code == 2


def test_the_moment_is_said_with_its_zone(lived: Path) -> None:
    """R3, R9."""
    assert run("at", "@6", store=lived).err == "as of @6 (2026-07-01 14:25:30 UTC)\n"
    assert run("at", store=lived).code == 2
    assert run("at", "soon", store=lived).code == 2


def test_a_session_is_shown_as_it_was(lived: Path, before: str) -> None:
    """R9: `show --at`."""
    then = run("show", ADA, "--at", before, "-o", "json", store=lived).items
    now = run("show", ADA, "-o", "json", store=lived).items
    assert ([item["kind"] for item in then], len(now)) == (["lane", "session"], 3)


def test_why_a_lane_is_where_it_is(lived: Path, reset_at: int, before: str) -> None:
    """R11: the decisions with what they saw, newest first, by any part of the name."""
    answer, reset, *decisions = run("why", "telegram", "-o", "json", store=lived).items
    assert (answer["kind"], answer["subject"], reset["kind"]) == ("answer", ADA, "reset")
    found = next(each for each in decisions if each["position"] == reset_at)
    assert (found["event"], found["actor"]) == ("lane.reset", "gateway")
    assert "idle 3 h 5 min, limit 1 h" in found["sentence"]
    assert [each["position"] for each in decisions] == sorted((each["position"] for each in decisions), reverse=True)
    assert f"@{reset_at}" in run("why", f"@{reset_at}", store=lived).out
    early = run("why", BOB, "--at", before, "-o", "json", store=lived).items
    assert all(each["position"] < reset_at for each in early)
    assert run("why", "@9999", store=lived).code == 3
    assert run("why", store=lived).code == 2


def test_tables_of_another_build_do_not_keep_the_log_from_being_asked(own: Path) -> None:
    """R16: then it is folded in memory."""
    before = run("list", "-o", "json", store=own).items
    with EventLog(own / "sessions.db", synchronous="OFF") as log:
        log.transact(lambda made: made.execute("UPDATE projections SET fingerprint = 'another' WHERE name = 'inline'"))
    assert run("list", "-o", "json", store=own).items == before
    assert run("why", "telegram", store=own).code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.json", '{"default_reset_policy": {"mode": "none"}}'), ("p.toml", "[default_reset_policy]\nmode = 'none'\n")],
)
def test_another_policy_is_tried_on_what_was_recorded(name: str, text: str, lived: Path, tmp_path: Path) -> None:
    """R12: by options or from a file; with the recorded policy nothing changes."""
    (tmp_path / name).write_text(text)
    total, *others = run("what-if", "--policy", tmp_path / name, "-o", "json", store=lived).items
    assert (total["kind"], total["recorded"], total["would_be"], total["gone"]) == ("total", 1, 0, 1)
    assert {each["kind"] for each in others} == {"unknown", "lane", "reset"}
    assert run("what-if", "--mode", "none", "--platform", "slack", "-o", "json", store=lived).items[0]["gone"] == 0
    assert "nothing changes" in run("what-if", store=lived).out
    assert "would not have happened" in run("what-if", "--idle-minutes", 1000, store=lived).out


@pytest.mark.parametrize("text", ["[", '["a"]', '{"tokens": 1}', '{"reset_by_platform": {"My Own": {}}}'])
def test_a_file_that_has_no_policy_is_refused(text: str, lived: Path, tmp_path: Path) -> None:
    """R5, R12."""
    (tmp_path / "policy.json").write_text(text)
    done = run("what-if", "--policy", tmp_path / "policy.json", store=lived)
    assert (done.code, done.out) == (2, "")
    assert run("what-if", "--idle-minutes", "-1", store=lived).code == 2
