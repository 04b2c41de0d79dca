"""Offline work on a log: as-of, diff, why, what-if, timeline, restore, salvage. Nothing but `heal` writes to it.

What is exported is imported when it is first used: the command's help needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.asking import First as First, sql as sql, when as when
    from replay.differences import Change as Change, diff as diff
    from replay.errors import (
        AmbiguousSubjectError as AmbiguousSubjectError,
        BadExportError as BadExportError,
        BadMomentError as BadMomentError,
        ExportConflictError as ExportConflictError,
        NoStoreError as NoStoreError,
        ReplayError as ReplayError,
        UnknownSubjectError as UnknownSubjectError,
        UnsupportedStoreError as UnsupportedStoreError,
    )
    from replay.exporting import export as export
    from replay.healing import Disagreement as Disagreement, Healing as Healing, heal as heal
    from replay.importing import (
        ImportedExport as ImportedExport,
        import_export as import_export,
        is_export as is_export,
    )
    from replay.lives import (
        Leg as Leg,
        LifeEvent as LifeEvent,
        Silence as Silence,
        Timeline as Timeline,
        TurnSpan as TurnSpan,
        timeline as timeline,
    )
    from replay.moments import Moment as Moment, moment_of as moment_of
    from replay.opening import open_log as open_log, open_reader as open_reader
    from replay.pages import timeline_html as timeline_html
    from replay.past import (
        PastReader as PastReader,
        as_of as as_of,
        lane_at as lane_at,
        session_at as session_at,
        transcript_at as transcript_at,
    )
    from replay.pictures import Segment as Segment, timeline_lines as timeline_lines
    from replay.policies import (
        LaneOutcome as LaneOutcome,
        OtherReset as OtherReset,
        PolicyChange as PolicyChange,
        WhatIf as WhatIf,
        policy_change as policy_change,
        what_if as what_if,
    )
    from replay.reasons import Decision as Decision, Why as Why, why as why
    from replay.restoring import RestoredStore as RestoredStore, restore as restore
    from replay.salvaging import Damage as Damage, Salvage as Salvage, salvage as salvage
    from replay.selecting import EventRecord as EventRecord, Selection as Selection, select_events as select_events
    from replay.statistics import Statistics as Statistics, statistics as statistics
    from replay.steps import Step as Step, step as step
    from replay.subjects import Subject as Subject, subject_of as subject_of
    from replay.verifying import FullVerification as FullVerification, verify as verify

_PLACES = {
    "asking": ("First", "sql", "when"),
    "differences": ("Change", "diff"),
    "steps": ("Step", "step"),
    "errors": (
        "AmbiguousSubjectError",
        "BadExportError",
        "BadMomentError",
        "ExportConflictError",
        "NoStoreError",
        "ReplayError",
        "UnknownSubjectError",
        "UnsupportedStoreError",
    ),
    "exporting": ("export",),
    "healing": ("Disagreement", "Healing", "heal"),
    "importing": ("ImportedExport", "import_export", "is_export"),
    "lives": ("Leg", "LifeEvent", "Silence", "Timeline", "TurnSpan", "timeline"),
    "moments": ("Moment", "moment_of"),
    "opening": ("open_log", "open_reader"),
    "pages": ("timeline_html",),
    "past": ("PastReader", "as_of", "lane_at", "session_at", "transcript_at"),
    "pictures": ("Segment", "timeline_lines"),
    "policies": ("LaneOutcome", "OtherReset", "PolicyChange", "WhatIf", "policy_change", "what_if"),
    "reasons": ("Decision", "Why", "why"),
    "restoring": ("RestoredStore", "restore"),
    "salvaging": ("Damage", "Salvage", "salvage"),
    "selecting": ("EventRecord", "Selection", "select_events"),
    "statistics": ("Statistics", "statistics"),
    "subjects": ("Subject", "subject_of"),
    "verifying": ("FullVerification", "verify"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
