"""The public way to clean a model override: what is dropped is logged, by name and never by value."""

import logging

from engine.domain.model_override import clean_model_override

logger = logging.getLogger("engine.store")


def sanitize_model_override(override: object) -> dict[str, str] | None:
    """Return the model, provider and base URL of an override, without credentials; None when nothing is left (G18a)."""
    kept, dropped = clean_model_override(override)
    if dropped:
        names = ", ".join(repr(name[:60]) for name in dropped)
        logger.warning("model override: dropped %s; credentials belong into the host's configuration", names)
    return kept
