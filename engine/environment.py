"""Settings that come from the process environment."""

import os
from collections.abc import Mapping

from engine.domain.policy import FRESHNESS_VARIABLE, parse_freshness


def auto_continue_freshness_window(environ: Mapping[str, str] | None = None) -> float:
    """Return for how many seconds an interrupted turn may be resumed: `inf` for ever, 0 or less no limit applies.

    Read from `HERMES_AUTO_CONTINUE_FRESHNESS` of `environ`, else of the process (G31, G23a).
    """
    return parse_freshness((os.environ if environ is None else environ).get(FRESHNESS_VARIABLE, ""))
