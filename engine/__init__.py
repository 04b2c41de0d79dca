"""The session engine: an append-only event log and the sessions a gateway keeps on it.

These names are the public API; `import name as name` is how Python's type checkers know that.
"""

from typing import TYPE_CHECKING

from engine.acting import acting as acting
from engine.aio import AsyncSessionStore as AsyncSessionStore
from engine.aio_catalog import AsyncSessionCatalog as AsyncSessionCatalog
from engine.archiving import ArchiveReport as ArchiveReport, RestoreReport as RestoreReport
from engine.arrivals import AsyncFollower as AsyncFollower
from engine.catalog import SessionCatalog as SessionCatalog
from engine.chat_following import (
    AsyncChatFollower as AsyncChatFollower,
    ChatChange as ChatChange,
    ChatFollower as ChatFollower,
)
from engine.chat_session import ChatSession as ChatSession, ChatSummary as ChatSummary
from engine.commands.lanes import Notices as Notices
from engine.context import (
    clear_session_vars as clear_session_vars,
    get_session_env as get_session_env,
    reset_session_vars as reset_session_vars,
    set_session_vars as set_session_vars,
)
from engine.domain import events as events
from engine.domain.chat_rows import title_from as title_from
from engine.domain.config import (
    GatewayConfig as GatewayConfig,
    HomeChannel as HomeChannel,
    PlatformConfig as PlatformConfig,
    StoreSettings as StoreSettings,
)
from engine.domain.encoding import Archived as Archived, Erased as Erased, Unknown as Unknown, Unreadable as Unreadable
from engine.domain.entry import SessionEntry as SessionEntry
from engine.domain.errors import ArchivedError as ArchivedError, EngineError as EngineError
from engine.domain.events import AnyEvent as AnyEvent
from engine.domain.keys import is_shared_multi_user_session as is_shared_multi_user_session
from engine.domain.platforms import Platform as Platform
from engine.domain.policy import ResetRules as ResetRules, SessionResetPolicy as SessionResetPolicy
from engine.domain.session_sources import is_cron_session as is_cron_session, normalize_source as normalize_source
from engine.domain.sources import SessionSource as SessionSource
from engine.domain.whatsapp import normalize_whatsapp_identifier as normalize_whatsapp_identifier
from engine.environment import auto_continue_freshness_window as auto_continue_freshness_window
from engine.erasure.report import ErasureReport as ErasureReport, Left as Left
from engine.errors import (
    SessionConflictError as SessionConflictError,
    SessionError as SessionError,
    SessionStateError as SessionStateError,
    TurnInProgressError as TurnInProgressError,
    TurnLostError as TurnLostError,
    UnknownLaneError as UnknownLaneError,
    UnknownProjectError as UnknownProjectError,
    UnknownSessionError as UnknownSessionError,
)
from engine.following import Follower as Follower
from engine.heads import Heads as Heads
from engine.health import StoreHealth as StoreHealth
from engine.imports.report import ImportReport as ImportReport, Skipped as Skipped
from engine.log.envelope import NEXT_VERSION as NEXT_VERSION, Envelope as Envelope
from engine.log.errors import (
    ArchiveError as ArchiveError,
    ClosedLogError as ClosedLogError,
    ConflictError as ConflictError,
    CorruptLogError as CorruptLogError,
    CorruptStateError as CorruptStateError,
    DiskFullError as DiskFullError,
    ForeignFileError as ForeignFileError,
    ForkedLogError as ForkedLogError,
    InvalidEventError as InvalidEventError,
    LockedLogError as LockedLogError,
    LogError as LogError,
    NestedCommandError as NestedCommandError,
    NewerSchemaError as NewerSchemaError,
    NotALogError as NotALogError,
    OldSQLiteError as OldSQLiteError,
    PayloadTooLargeError as PayloadTooLargeError,
    ReadOnlyLogError as ReadOnlyLogError,
    RefusedError as RefusedError,
    ReplacedTablesError as ReplacedTablesError,
    StorageError as StorageError,
    TrackingConflictError as TrackingConflictError,
    UnsafeFileError as UnsafeFileError,
    UnsafeQueryError as UnsafeQueryError,
)
from engine.log.sqlite.eventlog import EventLog as EventLog
from engine.model_override import sanitize_model_override as sanitize_model_override
from engine.naming import build_session_key as build_session_key
from engine.prompt import (
    SessionContext as SessionContext,
    build_session_context as build_session_context,
    build_session_context_prompt as build_session_context_prompt,
)
from engine.reader import RecordedMessage as RecordedMessage, SessionInfo as SessionInfo, SessionReader as SessionReader
from engine.store import SessionStore as SessionStore
from engine.turns import AsyncTurn as AsyncTurn, Turn as Turn
from engine.untrusted import neutralize_untrusted_inline_text as neutralize_untrusted_inline_text
from engine.verification import StoreVerification as StoreVerification
from engine.version import package_version
from engine.whatsapp import canonical_whatsapp_identifier as canonical_whatsapp_identifier
from projections.views.bill import UsageRow as UsageRow
from projections.views.find import Hit as Hit, Hits as Hits
from projections.views.runner import ViewStatus as ViewStatus
from projections.views.verify import ViewDifference as ViewDifference, ViewVerification as ViewVerification

__version__: str
"""The version of the installed package, read when somebody asks for it."""

if not TYPE_CHECKING:  # with it a type checker would take any name for an attribute

    def __getattr__(name: str) -> str:
        if name == "__version__":
            return package_version()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
