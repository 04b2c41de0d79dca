"""`search` and `usage`: they say how much of the log their answer knows (R16, R21)."""

from pathlib import Path

import pytest

from engine import EventLog, SessionStore
from tests.gateway.support import FakeClock, say
from tests.replay.cli.support import ADA, BEGAN, run

ASKED = [["search", "order"], ["usage"]]


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_an_answer_without_the_newest_messages_says_so(words: list[str], own: Path) -> None:
    """R16: a gateway that runs without views leaves them behind, and no answer pretends to know more than they do."""
    assert run(*words, store=own).err == ""
    with SessionStore(own, clock=FakeClock(BEGAN), synchronous="OFF", views=False) as store:
        session = store.peek_session_id(ADA)
        assert session is not None
        say(store, session, "another order")
    done = run(*words, store=own)
    assert (done.code, "knows nothing of what came later" in done.err) == (0, True)
    assert run("views", "rebuild", "--yes", store=own).code == 0
    assert run(*words, store=own).err == ""


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_without_views_it_says_what_makes_them(words: list[str], own: Path) -> None:
    """R5, R16."""
    for file in own.glob("views.db*"):
        file.unlink()
    done = run(*words, store=own)
    assert (done.code, "views rebuild" in done.err) == (3, True)


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_beside_tables_of_another_build_it_says_what_makes_them_again(words: list[str], own: Path) -> None:
    """R5, R16: nobody asked for the past."""
    with EventLog(own / "sessions.db", synchronous="OFF") as log:
        log.transact(lambda made: made.execute("UPDATE projections SET fingerprint = 'another' WHERE name = 'inline'"))
    done = run(*words, store=own)
    assert (done.code, "another build" in done.err, "past" in done.err) == (1, True, False)
    assert run("views", "rebuild", "--yes", store=own).code == 0
    assert run(*words, store=own).code == 0
