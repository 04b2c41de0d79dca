"""G57: task-local session variables."""

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.context import clear_session_vars, get_session_env, reset_session_vars, set_session_vars
from engine.domain.platforms import Platform

NAMES = {
    "platform": "HERMES_SESSION_PLATFORM",
    "source": "HERMES_SESSION_SOURCE",
    "chat_id": "HERMES_SESSION_CHAT_ID",
    "chat_name": "HERMES_SESSION_CHAT_NAME",
    "thread_id": "HERMES_SESSION_THREAD_ID",
    "user_id": "HERMES_SESSION_USER_ID",
    "user_name": "HERMES_SESSION_USER_NAME",
    "session_key": "HERMES_SESSION_KEY",
    "session_id": "HERMES_SESSION_ID",
    "message_id": "HERMES_SESSION_MESSAGE_ID",
    "profile": "HERMES_SESSION_PROFILE",
}
CHAT = "HERMES_SESSION_CHAT_ID"
USER = "HERMES_SESSION_USER_ID"


@pytest.fixture(autouse=True)
def never_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in NAMES.values():
        monkeypatch.delenv(name, raising=False)
    reset_session_vars()
    yield
    reset_session_vars()


def test_g57_never_set_falls_back_to_the_environment_and_then_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in NAMES.values():
        assert get_session_env(name) == ""
        assert get_session_env(name, "none") == "none"
        monkeypatch.setenv(name, "from the environment")
        assert get_session_env(name, "none") == "from the environment"


@pytest.mark.parametrize(("field", "name"), NAMES.items())
def test_g57_each_variable_has_its_own_name(field: str, name: str) -> None:
    set_session_vars(**{field: "here"})
    assert {other for other in NAMES.values() if get_session_env(other)} == {name}
    assert get_session_env(name) == "here"


def test_g57a_positional_order() -> None:
    fields = ["platform", "chat_id", "chat_name", "thread_id", "user_id", "user_name", "session_key"]
    set_session_vars(*fields)
    for field in fields:
        assert get_session_env(NAMES[field]) == field
    assert {get_session_env(name) for field, name in NAMES.items() if field not in fields} == {""}
    rest = ["source", "session_id", "message_id", "profile"]
    set_session_vars(*fields, *rest)
    for field in rest:
        assert get_session_env(NAMES[field]) == field


def test_g57_set_value_hides_the_environment_even_when_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHAT, "stale")
    set_session_vars(chat_id="")
    assert get_session_env(CHAT, "default") == ""
    set_session_vars(chat_id="c")
    assert get_session_env(CHAT) == "c"


def test_g57_nothing_of_the_turn_before_or_of_the_environment_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER, "from the environment")
    set_session_vars(chat_id="c", thread_id="of the turn before")
    set_session_vars("slack", "d")
    assert get_session_env("HERMES_SESSION_PLATFORM") == "slack"
    assert get_session_env(CHAT) == "d"
    assert get_session_env("HERMES_SESSION_THREAD_ID", "default") == ""
    assert get_session_env(USER, "default") == ""


def test_g57_none_means_there_is_none_and_hides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SESSION_THREAD_ID", "stale")
    set_session_vars(thread_id=None)
    assert get_session_env("HERMES_SESSION_THREAD_ID", "default") == ""


def test_g57_platform_is_its_value() -> None:
    set_session_vars(platform=Platform.SLACK)
    assert get_session_env("HERMES_SESSION_PLATFORM") == "slack"


def test_g57_unknown_variable_is_refused_and_nothing_is_set() -> None:
    with pytest.raises(TypeError, match="chatid"):
        set_session_vars(user_id="u", chatid="c")  # type: ignore[call-arg]
    assert get_session_env(USER) == ""


def test_g57_other_names_are_looked_up_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_OTHER", "x")
    assert get_session_env("HERMES_OTHER") == "x"
    assert get_session_env("HERMES_NOT_THERE", "default") == "default"


def test_g57_clear_leaves_no_value_and_no_way_back_to_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = set_session_vars(chat_id="c")
    for name in NAMES.values():
        monkeypatch.setenv(name, "stale")
    clear_session_vars(tokens)
    assert [get_session_env(name, "default") for name in NAMES.values()] == [""] * len(NAMES)


def test_g57_reset_returns_to_never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    set_session_vars(chat_id="c")
    clear_session_vars()
    reset_session_vars()
    monkeypatch.setenv(CHAT, "from the environment")
    assert get_session_env(CHAT) == "from the environment"
    assert get_session_env(USER, "default") == "default"


def test_g57_reset_with_tokens_restores_what_was_there_before() -> None:
    set_session_vars(chat_id="outer")
    inner = set_session_vars(chat_id="inner", user_id="u")
    reset_session_vars(inner)
    assert get_session_env(CHAT) == "outer"
    assert get_session_env(USER, "default") == ""
    reset_session_vars(inner)
    assert get_session_env(CHAT) == "outer"


def test_g57_tokens_work_in_another_thread_than_their_own() -> None:
    set_session_vars(chat_id="outer")
    inner = set_session_vars(chat_id="inner")

    def end_turn() -> str:
        reset_session_vars(inner)
        return get_session_env(CHAT)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(contextvars.copy_context().run, end_turn).result() == "outer"
    assert get_session_env(CHAT) == "inner"


def test_g57_concurrent_tasks_do_not_see_each_others_values() -> None:
    async def turn(number: int, all_set: asyncio.Barrier) -> tuple[str, str, str]:
        before = get_session_env(CHAT, "unset")
        set_session_vars(chat_id=f"chat{number}")
        await all_set.wait()
        during = get_session_env(CHAT)
        in_thread = await asyncio.to_thread(get_session_env, CHAT)
        if number % 2:
            clear_session_vars()
        else:
            reset_session_vars()
        await all_set.wait()
        return before, during, in_thread

    async def main() -> list[tuple[str, str, str]]:
        barrier = asyncio.Barrier(20)
        results = await asyncio.gather(*(turn(number, barrier) for number in range(20)))
        assert get_session_env(CHAT, "unset") == "unset"
        return results

    for number, seen in enumerate(asyncio.run(main())):
        assert seen == ("unset", f"chat{number}", f"chat{number}")


def test_g57_child_task_inherits_and_its_changes_stay_its_own() -> None:
    async def child() -> str:
        inherited = get_session_env(CHAT)
        set_session_vars(chat_id="child")
        return inherited

    async def main() -> tuple[str, str]:
        set_session_vars(chat_id="parent")
        return await asyncio.create_task(child()), get_session_env(CHAT)

    assert asyncio.run(main()) == ("parent", "parent")


def test_g57_plain_executor_thread_starts_from_never_set() -> None:
    async def main() -> str:
        set_session_vars(chat_id="task")
        with ThreadPoolExecutor(1) as pool:
            return await asyncio.get_running_loop().run_in_executor(pool, get_session_env, CHAT, "unset")

    assert asyncio.run(main()) == "unset"


def test_g57_concurrent_executor_threads_do_not_see_each_others_values() -> None:
    meet = threading.Barrier(4)

    def turn(number: int) -> tuple[str, str]:
        before = get_session_env(CHAT, "unset")
        set_session_vars(chat_id=f"chat{number}")
        meet.wait(timeout=300)
        return before, get_session_env(CHAT)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            runs = [pool.submit(contextvars.copy_context().run, turn, number) for number in range(4)]
            for number, run in enumerate(runs):
                assert run.result() == ("unset", f"chat{number}")
    assert get_session_env(CHAT, "unset") == "unset"
