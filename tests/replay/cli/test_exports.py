"""`export`, and `import` of what it wrote (R6, R17)."""

import errno
import json
import os
from pathlib import Path

import pytest

from replay import open_log
from replay.cli import files
from tests.replay.cli.support import ADA, HOSTILE, run


@pytest.fixture
def exported(lived: Path, tmp_path: Path) -> Path:
    """Ada's lane, exported to a file."""
    to = tmp_path / "ada.jsonl"
    done = run("export", "telegram", "--to", to, store=lived)
    assert (done.code, done.out, done.err) == (0, f"wrote {to}, {to.stat().st_size:,} bytes\n", "")
    return to


def test_an_export_goes_to_stdout_or_a_file_and_imports_back_exactly(
    lived: Path, exported: Path, tmp_path: Path
) -> None:
    """R17: by the verbs alone."""
    assert run("export", ADA, store=lived).out == exported.read_text()
    new = tmp_path / "new"
    done = run("import", exported, "--reason", "moved house", "--yes", "-o", "json", store=new)
    (report,) = done.items
    assert (report["subject"], report["lanes"], report["sessions"], report["erased"]) == (ADA, 1, 2, 1)
    assert run("export", ADA, store=new).out == exported.read_text()
    assert run("list", "-o", "json", store=new).items == run("list", "--lane", ADA, "-o", "json", store=lived).items
    assert run("verify", store=new).code == 0
    with open_log(new) as log:
        *_, imported = log.events(topics=["log.imported"])
        assert (imported.actor, imported.reason) == ("sessions", "moved house")


def test_an_export_is_as_of_a_moment_or_of_a_session(lived: Path) -> None:
    """R9, R17."""
    then = [json.loads(line) for line in run("export", ADA, "--at", "@4", store=lived).out.splitlines()]
    assert (
        then[0]["events"] == len(then) - 1 < json.loads(run("export", ADA, store=lived).out.splitlines()[0])["events"]
    )
    session = run("list", "--lane", ADA, "-o", "json", store=lived).items[0]["session_id"]
    assert json.loads(run("export", session, store=lived).out.splitlines()[0])["kind"] == "session"


def test_what_is_to_be_read_hides_people_when_asked_to(lived: Path, exported: Path) -> None:
    """R17: and hashes of two exports have nothing in common."""
    for form in ("jsonl", "markdown", "html"):
        plain = run("export", ADA, "--format", form, store=lived).out
        hidden = run("export", ADA, "--format", form, "--redact", store=lived).out
        assert "4711" in plain
        assert "4711" not in hidden
        assert hidden != run("export", ADA, "--format", form, "--redact", store=lived).out
    redacted = exported.with_name("redacted.jsonl")
    redacted.write_text(run("export", ADA, "--redact", store=lived).out)
    done = run("import", redacted, "--yes", store=exported.with_name("other"))
    assert (done.code, "export without redaction" in done.err) == (1, True)


def test_an_import_of_an_export_is_tried_dry_and_asked_for(exported: Path, tmp_path: Path) -> None:
    """R6: a dry run leaves nothing, not even a store where none was."""
    new = tmp_path / "new"
    dry = run("import", exported, "--dry-run", store=new)
    assert (dry.code, "dry run: nothing was written" in dry.out) == (0, True)
    assert not new.exists()
    unasked = run("import", exported, store=new)
    assert (unasked.code, "say --yes" in unasked.err) == (2, True)
    assert not new.exists()


def test_an_export_that_is_there_already_is_a_conflict(exported: Path, own: Path) -> None:
    """R5, R17: nothing is changed."""
    before = [item["position"] for item in run("events", "--all", "-o", "json", store=own).items]
    done = run("import", exported, "--yes", store=own)
    assert (done.code, "import into another one" in done.err) == (5, True)
    after = [item["position"] for item in run("events", "--all", "-o", "json", store=own).items]
    assert after == before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-30], "line 10 is no event"),
        (lambda data: b"".join(data.splitlines(keepends=True)[:-1]), "it was cut off"),
        (lambda data: b"hello\n", "the first line is no head"),
        (lambda data: b"", "the first line is no head"),
        (lambda data: data.replace(b"late", b"\xff\xfe"), "is no event"),
    ],
)
def test_a_file_that_is_no_whole_export_is_refused(spoil, said: str, exported: Path, own: Path) -> None:
    """R5, R17: a cut file, and one of something else."""
    exported.write_bytes(spoil(exported.read_bytes()))
    done = run("import", exported, "--yes", store=own)
    assert (done.code, done.out) == (1, "")
    assert said in done.err, done.err


@pytest.mark.parametrize("source", ["cut.jsonl", "nothing"])
def test_an_import_that_fails_leaves_no_store_where_none_was(source: str, exported: Path, tmp_path: Path) -> None:
    """R5, R7: what is not a whole export, and what is not there."""
    (tmp_path / "cut.jsonl").write_bytes(exported.read_bytes()[:-30])
    done = run("import", tmp_path / source, "--yes", store=tmp_path / "new")
    assert (done.code, done.out) == (1, "")
    assert not (tmp_path / "new").exists()


def test_a_file_is_replaced_only_by_force_and_written_whole_or_not(
    lived: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5, R7, R17: a full disk while exporting leaves what was there."""
    before = exported.read_bytes()
    again = run("export", ADA, "--to", exported, store=lived)
    assert (again.code, "--force to replace it" in again.err) == (1, True)
    missing = run("export", ADA, "--to", exported.parent / "no" / "x", store=lived)
    assert (missing.code, "does not exist; make it" in missing.err) == (1, True)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        done = run("export", ADA, "--format", "html", "--to", exported, "--force", store=lived)
    assert (done.code, "no space left" in done.err) == (1, True)
    assert exported.read_bytes() == before
    assert [each.name for each in exported.parent.iterdir()] == [exported.name]
    assert run("export", ADA, "--format", "html", "--to", exported, "--force", store=lived).code == 0
    assert exported.read_text().startswith("<!doctype html>")


def test_the_form_of_an_answer_is_not_that_of_an_export(lived: Path, tmp_path: Path) -> None:
    """R2, R5."""
    done = run("export", ADA, "-o", "json", store=lived)
    assert (done.code, done.out) == (2, "")
    (item,) = run("export", ADA, "--to", tmp_path / "x", "--format", "markdown", "-o", "json", store=lived).items
    assert (item["format"], item["bytes"]) == ("markdown", (tmp_path / "x").stat().st_size)


def test_unknown_and_ambiguous_names_are_told(lived: Path) -> None:
    """R4, R5."""
    assert run("export", "agent", store=lived).code == 2
    assert run("export", "4712", store=lived).code == 3


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html"])
def test_nothing_that_a_terminal_acts_upon_is_sent_to_one(
    form: str, lived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: to a file it goes exactly as it is."""
    monkeypatch.setattr("replay.cli.exports.is_terminal", lambda: True)
    seen = run("export", ADA, "--format", form, store=lived).out
    assert [each for each in "\x1b\x07\x9b\u202e" if each in seen] == []
    if form == "jsonl":
        said = [json.loads(line).get("payload", {}).get("message", {}) for line in seen.splitlines()]
        assert HOSTILE in [each.get("content") for each in said]
