"""The page of settings: the configuration, the options of a store and of a log, and environment variables."""

import inspect
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from devtools.reference.markdown import code, paragraphs, table
from devtools.reference.signatures import fields, parameters
from engine import AsyncSessionStore, EventLog, GatewayConfig, HomeChannel, PlatformConfig, SessionReader, SessionStore
from engine.context import _NAMES as NAMES_OF_A_TURN, get_session_env, set_session_vars
from engine.domain.policy import DEFAULT_FRESHNESS_SECONDS, FRESHNESS_VARIABLE, SessionResetPolicy

HEAD = """# Settings

<!-- made by `make docs` from the classes, docstrings and constants that are named below -->

What decides how a store works is in its configuration, in the options it is opened with and in a few environment
variables. There is no settings file of its own. The first command of a store records the settings that decide in the
log, as [store.opened](events.md#storeopened).
"""

OF_A_STORE = """## Options of a store

`SessionStore(sessions_dir, …)`; the last columns say which of them the other ways to open one take.
"""

OF_A_LOG = """## Options of a log

`EventLog(path, …)`. A store opens its log itself, as `store.log`.
"""

OF_A_TURN = """Context variables of a turn fall back to the environment while nothing has set them. `get_session_env`
takes these names:
"""

ENVIRONMENT = {
    FRESHNESS_VARIABLE: (
        "Seconds after which an interrupted turn is too old to be resumed; `inf` for never, 0 or less for no limit. "
        f"{DEFAULT_FRESHNESS_SECONDS:.0f} without it or if it is malformed. Read at each decision."
    ),
    "HERMES_HOME": "The host's folder, `~/.hermes` without it: WhatsApp's alias files are looked for below it.",
    "TZ": "The time zone of a store that is given no clock, as for every program.",
    "SQLITE_DBNAME": "`engine.log.library` only: the path of the log.",
    "SQLITE_LOCK_TIMEOUT": "`engine.log.library` only: seconds to wait for another process; 5 without it.",
    "ORIGINATOR_ID_TYPE": "`engine.log.library` only: `uuid`, the default, or `text`.",
    "LOG_SYNCHRONOUS": "`engine.log.library` only: SQLite's setting; FULL without it.",
}
"""Environment variables that are read, but for those of a turn."""


def page() -> str:
    """Return the page."""
    others: dict[str, Callable[..., Any]] = {
        "AsyncSessionStore.open": AsyncSessionStore.open,
        "SessionReader.open": SessionReader.open,
    }
    of_a_turn = [[code(name), code(copy_context().run(_argument_of, name))] for name in NAMES_OF_A_TURN]
    return "\n".join(
        [
            HEAD,
            *(_struct(cls) for cls in (GatewayConfig, SessionResetPolicy, PlatformConfig, HomeChannel)),
            OF_A_STORE,
            _options(vars(SessionStore)["__init__"], others),
            OF_A_LOG,
            _options(vars(EventLog)["__init__"], {}),
            "## Environment variables\n",
            table(["variable", "what it does"], [[code(name), text] for name, text in ENVIRONMENT.items()]),
            OF_A_TURN,
            table(["variable", "set by `set_session_vars` as"], of_a_turn),
        ]
    )


def _struct(cls: type) -> str:
    rows = [[code(each.name), code(each.kind), code(each.default), each.meaning] for each in fields(cls)]
    said = "\n\n".join(paragraphs(cls))
    return f"## {cls.__name__}\n\n{said}\n\n{table(['field', 'type', 'default', 'meaning'], rows)}"


def _options(opens: Callable[..., Any], others: dict[str, Callable[..., Any]]) -> str:
    taken = [inspect.signature(other).parameters for other in others.values()]
    rows = [
        [code(each.name), code(each.default), each.meaning, *("yes" if each.name in names else "no" for names in taken)]
        for each in parameters(opens)
    ]
    return table(["option", "default", "meaning", *map(code, others)], rows)


def _argument_of(variable: str) -> str:
    """Return the argument of `set_session_vars` that sets a variable: the one whose value is read back."""
    arguments = list(inspect.signature(set_session_vars).parameters)
    set_session_vars(**{name: name for name in arguments})
    return get_session_env(variable)
