"""`make torture` in small: every part runs and holds, what fails is said, and a run that was stopped goes on."""

from pathlib import Path

import msgspec
import pytest

from tests.torture import __main__ as torture
from tests.torture.page import render
from tests.torture.parts import PARTS, Part, Shard
from tests.torture.results import PartResult, load, save

TINY = 0.0005


@pytest.mark.parametrize(
    "name", [name for name in PARTS if name != "processes"]
)  # those take seconds to begin; see test_gateways.py
def test_a_tiny_run_of_a_part_holds(name: str) -> None:
    """The rest of its numbers is in the tests of its harness, and in `docs/reliability.md`."""
    result = PartResult(name, TINY, "here", {0: PARTS[name].run_shard(0, TINY)})
    assert result.broken == []
    assert any(result.counts.values())


def test_a_shard_runs_alone_in_a_process_and_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run does not repeat it."""
    for _ in range(2):
        assert torture.main(["flips-wal", "--scale", str(TINY), "--kept", str(tmp_path)]) == 0
    result = load(tmp_path / "flips-wal.json", "flips-wal", TINY)
    assert result.complete
    assert result.counts["flips"] == 5
    assert capsys.readouterr().out.count("1 of 1 shards") == 1
    assert load(tmp_path / "flips-wal.json", "flips-wal", 1.0).shards == {}, "another scale is another run"
    page = (tmp_path / "reliability.md").read_text()
    assert "| [flips-wal](#flipped-bits-in-the-wal) | 5 flips | 0 | 1 of 1 |" in page
    assert "simulation: not run" in page


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Part:
    """A part that only this process knows: its shards die in theirs."""
    made = Part("odd", "Odd", "It is odd.", "things", 4, 2, lambda number, units: Shard({"things": units}))
    monkeypatch.setitem(PARTS, "odd", made)
    return made


def test_what_fails_makes_the_run_fail_and_the_page_say_so(part: Part, tmp_path: Path) -> None:
    assert torture.main(["odd", "--kept", str(tmp_path)]) == 1
    page = (tmp_path / "reliability.md").read_text()
    assert "**Not everything held:**\n\n- odd: 2 findings" in page
    assert "FOUND, shard 0: it ended with status" in page


def test_what_a_shard_raises_is_a_finding() -> None:
    def fail(_number: int, _units: int) -> Shard:
        raise AssertionError("c17 was acknowledged and is lost")

    broken = Part("odd", "Odd", "It is odd.", "things", 4, 2, fail)
    assert broken.run_shard(0, 1.0).findings == ["AssertionError: c17 was acknowledged and is lost"]


def test_a_part_that_was_stopped_or_missed_a_bar_is_said_to_be(part: Part) -> None:
    result = PartResult("odd", 1.0, "here", {0: part.run_shard(0, 1.0)})
    assert result.broken == ["1 of 2 shards were run"]
    result.shards[1] = part.run_shard(1, 1.0)
    assert result.broken == []
    assert result.counts == {"things": 4}
    PARTS["odd"] = msgspec.structs.replace(part, bars={"five things": lambda counts: counts["things"] == 5})
    assert result.broken == ["five things"]
    assert "- five things: **no**" in render([result])


def test_results_are_kept_whole(part: Part, tmp_path: Path) -> None:
    result = PartResult("odd", 1.0, "here", {0: Shard({"things": 2, "slowest": 3}, ["ext4"], ["a finding"])})
    save(tmp_path / "kept/odd.json", result)
    assert load(tmp_path / "kept/odd.json", "odd", 1.0) == result
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["odd.json"]
