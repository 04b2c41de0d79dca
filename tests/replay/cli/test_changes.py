"""`diff`, `when`, `sql` and `at --step` from the shell (R3, R9, R10, R13, R15, R16)."""

import csv
import io
import json
from pathlib import Path

import pytest

from engine import EventLog
from replay import diff
from tests.replay.cli.support import ADA, BOB, run

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
LANES = "SELECT lane, session_id FROM audit_lanes ORDER BY lane"


@pytest.fixture(scope="module")
def reset_at(lived: Path) -> int:
    """The position at which Ada's lane was reset."""
    with EventLog(lived / "sessions.db", read_only=True) as log:
        return next(each.position for each in log.events(topics=["lane.reset"]))


def test_diff_tells_what_changed_as_items(lived: Path, reset_at: int) -> None:
    """R10: `{kind, id, change, field, before, after}`, every field in each, and times as everywhere else."""
    items = run("diff", f"@{reset_at - 1}", f"@{reset_at}", "-o", "json", store=lived).items
    assert {tuple(item) for item in items} == {("kind", "id", "change", "field", "before", "after")}
    with EventLog(lived / "sessions.db", read_only=True) as log:
        expected = [(each.kind, each.id, each.change, each.field) for each in diff(log, reset_at - 1, reset_at)]
    assert [(item["kind"], item["id"], item["change"], item["field"]) for item in items] == expected
    by_field = {item["field"]: item for item in items if item["id"] == ADA}
    assert by_field["was_auto_reset"]["before"] is False
    assert by_field["was_auto_reset"]["after"] is True
    assert by_field["updated_at"]["after"] == "2026-07-01T17:30:30+00:00"


def test_diff_tells_what_came_and_went_in_both_directions(lived: Path) -> None:
    """R10: added and gone, messages added and hidden, in words."""
    there = run("diff", "@0", "@6", store=lived)
    assert there.err.splitlines() == [
        "from @0 (2026-07-01 14:25:30 UTC)",
        "to @6 (2026-07-01 14:25:30 UTC)",
    ]
    assert f"+ lane {ADA}  session_id=" in there.out
    assert "@5  user: the order is late\n" in there.out
    back = run("diff", "@6", "@0", store=lived).out
    assert f"- lane {ADA}\n" in back
    assert "@5  user: the order is late\n" in back
    assert [line[0] for line in back.splitlines()] == ["-"] * len(there.out.splitlines())
    same = run("diff", "@6", "@6", store=lived)
    assert (same.code, same.out, same.err.splitlines()[-1]) == (0, "", "nothing changed")


@pytest.mark.parametrize(
    ("filters", "lanes", "others"),
    [
        (["--platform", "slack"], {BOB}, True),
        (["--user", "42", "--chat", "4711"], {ADA}, True),
        (["--lane", "telegram"], {ADA}, True),
        (["--platform", "slack", "--lane", "telegram"], set(), False),
        (["--thread", "none"], set(), False),
    ],
)
def test_diff_takes_filters(filters: list[str], lanes: set[str], others: bool, lived: Path) -> None:
    """R3, R10: lanes, their sessions and messages by place; all filters hold."""
    items = run("diff", "@0", "now", *filters, "-o", "json", store=lived).items
    assert {item["id"] for item in items if item["kind"] == "lane"} == lanes
    assert {item["after"]["lane"] for item in items if item["kind"] == "session"} == lanes
    assert any(item["kind"] == "message" for item in items) is others


def test_diff_of_a_session_has_the_lanes_that_lead_to_it(lived: Path, reset_at: int) -> None:
    """R10: by `--session`."""
    session = run("at", f"@{reset_at - 1}", "--lane", ADA, "-o", "json", store=lived).items[0]["session_id"]
    items = run("diff", f"@{reset_at - 1}", f"@{reset_at}", "--session", session, "-o", "json", store=lived).items
    assert {item["id"] for item in items} <= {ADA, session}
    assert ("session_id", session) in {(item["field"], item["before"]) for item in items if item["id"] == ADA}


def test_when_finds_the_first_moment_and_the_event(lived: Path, reset_at: int) -> None:
    """R13: by a query on a state table or an audit view of states."""
    for query in (
        "SELECT lane FROM audit_lanes WHERE platform LIKE 't%' AND session_id > (SELECT min(session_id) FROM sessions)",
        "SELECT key AS lane FROM lanes WHERE state ->> '$.was_auto_reset' = 1",
    ):
        (item,) = run("when", query, "-o", "json", store=lived).items
        assert (item["position"], item["type"], item["row"]) == (reset_at, "lane.reset", {"lane": ADA}), query
    text = run("when", "SELECT session_id, messages FROM audit_sessions WHERE messages >= 2", store=lived)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("@6  2026-07-01 14:25:30  message.appended  by gateway in append_to_transcript")
    never = run("when", "SELECT 1 FROM audit_lanes WHERE platform = 'irc'", "-o", "json", store=lived)
    assert (never.code, never.items, never.err) == (0, [], "it never gave a row\n")


def test_sql_gives_tables_as_they_are_and_as_they_were(lived: Path, reset_at: int) -> None:
    """R9, R16: `sql` and `sql --at`, on the audit views, the state tables and the log."""
    now = {item["lane"]: item["session_id"] for item in run("sql", LANES, "-o", "json", store=lived).items}
    listed = run("list", "-o", "json", store=lived).items
    assert now == {item["lane"]: item["session_id"] for item in listed}
    past = run("sql", LANES, "--at", f"@{reset_at - 1}", "-o", "json", store=lived).items
    assert [item["lane"] for item in past] == [BOB, ADA]
    assert past[1]["session_id"] != now[ADA]
    assert run("sql", "SELECT count(*) AS n FROM log", "--at", "@4", "-o", "json", store=lived).items == [{"n": 4}]
    assert run("sql", "SELECT 1 AS a", "--at", "@4", store=lived).err == "as of @4 (2026-07-01 14:25:30 UTC)\n"


def test_sql_prints_every_kind_of_value(lived: Path) -> None:
    """R2, R16: numbers, text, nothing and bytes; columns of one name are told apart."""
    query = "SELECT 1 AS a, 2.5 AS a, NULL AS b, x'00ff' AS c, 'x' || char(27) || '[2J' AS d"
    (item,) = run("sql", query, "-o", "json", store=lived).items
    assert item == {"a": 1, "a_2": 2.5, "b": None, "c": "00ff", "d": "x\x1b[2J"}
    for form in ("text", "json", "jsonl", "csv"):
        assert "\x1b" not in run("sql", query, "-o", form, store=lived).out
    rows = list(csv.reader(io.StringIO(run("sql", query, "-o", "csv", store=lived).out)))
    assert rows == [["a", "a_2", "b", "c", "d"], ["1", "2.5", "", "00ff", "x\\x1b[2J"]]


def test_numbers_that_json_does_not_have_are_text(lived: Path) -> None:
    """R2: what is printed as JSON can be read as JSON by any program."""
    (item,) = json.loads(run("sql", "SELECT 1e999 AS a, -1e999 AS b, 0.5 AS c", "-o", "json", store=lived).out)["items"]
    assert item == {"a": "inf", "b": "-inf", "c": 0.5}


def test_sql_is_bounded_and_goes_on(lived: Path) -> None:
    """R2, R16: `--limit`, `--cursor`, `--all`."""
    query = "SELECT position FROM log ORDER BY position"
    first = run("sql", query, "--limit", 4, "-o", "json", store=lived).json()
    assert ([item["position"] for item in first["items"]], first["truncated"]) == ([1, 2, 3, 4], True)
    then = run("sql", query, "--limit", 3, "--cursor", first["next_cursor"], "-o", "json", store=lived).items
    assert [item["position"] for item in then] == [5, 6, 7]
    whole = run("sql", query, "--all", "-o", "json", store=lived).json()
    assert (len(whole["items"]) > 7, whole["truncated"]) == (True, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sql", "DELETE FROM lanes"], "only queries that read"),
        (["sql", "DELETE FROM lanes", "--at", "@3"], "only queries that read"),
        (["sql", "SELECT 1; SELECT 2"], "only one query"),
        (["sql", " ;\n"], "asks nothing"),
        (["sql", "PRAGMA journal_mode = DELETE"], "only queries that read"),
        (["sql", "ATTACH 'x' AS y"], "only queries that read"),
        (["sql", "SELECT a FROM nowhere"], "no such table: nowhere"),
        (["sql", ENDLESS, "--seconds", "0.05"], "did not end within 0.05 s"),
        (["sql", ENDLESS, "--seconds", "0.05", "--at", "@3"], "did not end within 0.05 s"),
        (["when", "UPDATE lanes SET key = 'x'"], "only queries that read"),
        (["when", "SELECT 1 FROM log"], "no such table: log"),
        (["when", f"SELECT 1 FROM lanes WHERE ({ENDLESS}) = 1", "--seconds", "0.05"], "within 0.05 s"),
        (["sql", "SELECT 1", "--seconds", "0"], "Invalid value"),
        (["sql", "SELECT 1", "--seconds", "nan"], "nan is no number of seconds"),
    ],
)
def test_a_query_that_writes_or_runs_for_ever_is_refused(words: list[str], said: str, own: Path) -> None:
    """R5, R13, R16: a clear error, and nothing changed."""
    before = (own / "sessions.db").read_bytes()
    done = run(*words, store=own)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert (own / "sessions.db").read_bytes() == before


def test_a_step_has_the_event_of_a_moment_and_the_next_one(lived: Path, reset_at: int) -> None:
    """R15: `at @n --step`, in plain output elsewhere than on a terminal."""
    before, after = run("at", f"@{reset_at - 1}", "--step", "-o", "json", store=lived).items
    assert [(each["kind"], each["position"]) for each in (before, after)] == [
        ("previous", reset_at - 1),
        ("next", reset_at),
    ]
    assert after["changes"] == run("diff", f"@{reset_at - 1}", f"@{reset_at}", "-o", "json", store=lived).items
    text = run("at", f"@{reset_at - 1}", "--step", store=lived).out
    assert f"→ @{reset_at}  2026-07-01 17:30:30  lane.reset  by gateway" in text
    assert f"    ~ lane {ADA}  auto_reset_reason: none → idle\n" in text
    assert [each["kind"] for each in run("at", "@0", "--step", "-o", "json", store=lived).items] == ["next"]
    assert [each["kind"] for each in run("at", "now", "--step", "-o", "json", store=lived).items] == ["previous"]


@pytest.mark.parametrize("words", [["--step", "--lane", ADA], ["--lane", ADA, "--platform", "slack"]])
def test_what_does_not_go_together_is_refused(words: list[str], lived: Path) -> None:
    """R5, R9: nothing that was asked for is passed over."""
    done = run("at", "@4", *words, store=lived)
    assert (done.code, done.out) == (2, "")


def test_a_moment_is_told_with_its_zone_wherever_one_is_named(lived: Path) -> None:
    """R3: without a zone it is local and the zone is printed; a program that reads JSON does not need it."""
    words = ["--since", "2026-07-01 16:00", "--until", "@20"]
    assert run("events", *words, store=lived).err.splitlines() == [
        "since @12 (2026-07-01 16:00:00 UTC)",
        "until @20 (2026-07-01 17:30:30 UTC)",
    ]
    assert run("list", "--at", "2026-07-01 16:00", store=lived).err == "as of @12 (2026-07-01 16:00:00 UTC)\n"
    assert run("why", ADA, "--at", "@9", store=lived).err.startswith("as of @9 (2026-07-01 ")
    assert run("events", *words, "-o", "json", store=lived).err == ""
    assert run("events", "--since", "", store=lived).code == 2
