"""The part of a model override that may be stored: names and an address, never a credential (G18, G18a)."""

import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

_FIELDS = ("model", "provider", "base_url")
_MAX_NAME = 200
_MAX_URL = 2000
_URL = re.compile(
    r"(?P<scheme>https?|wss?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.IGNORECASE,
)
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
# An "@" may begin a segment; after other text it ends user info that a stray "/" moved into the path.
_PATH = re.compile(r"(?:/@?[A-Za-z0-9._~:+-]*)*")
_VERSION = re.compile(r"\d{4}(?:-\d\d-\d\d)?(?:-preview)?|v\d{1,3}(?:\.\d{1,3}){0,2}|preview|latest", re.ASCII)


class CleanedOverride(NamedTuple):
    """The part of an override that is kept, None if nothing is, and the names of what was dropped."""

    kept: dict[str, str] | None
    dropped: tuple[str, ...] = ()


def clean_model_override(override: object) -> CleanedOverride:
    """Return the model, provider and base URL of an override, as text, and the names of the rest.

    Everything else may be a credential. A name that is none is dropped too, and so is a URL of any other
    shape than the plain one: where its parts are in doubt, so is the place of a secret in it.
    """
    if not isinstance(override, Mapping):
        return CleanedOverride(None, () if override is None else ("override",))
    kept: dict[str, str] = {}
    dropped = [str(name) for name in override if name not in _FIELDS]
    for field in _FIELDS:
        value = override.get(field)
        if value is None or value == "":
            continue
        text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        if field == "base_url":
            text, parts = _clean_url(text.strip())
            dropped.extend(parts)
        elif not _is_name(text):
            text = ""
            dropped.append(field)
        if text:
            kept[field] = text
    return CleanedOverride(kept or None, tuple(dropped))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME and text.isprintable() and text == text.strip()


def _clean_url(url: str) -> tuple[str, list[str]]:
    """Return scheme, host, port, path and API version of a URL, and the names of its other parts.

    The names are those of kinds: the name of a parameter may itself be the secret (`?sk-123`).
    """
    found = _URL.fullmatch(url) if len(url) <= _MAX_URL and url.isprintable() and " " not in url else None
    if found is None:
        return "", ["base_url"]
    user_info, at, host = found["authority"].rpartition("@")
    path = re.sub(r";[^/]*", "", found["path"])
    tail = (found["query"] or "") + (found["fragment"] or "")
    plain_host = _HOST_AND_PORT.fullmatch(host) and unicodedata.normalize("NFKC", host) == host
    if not plain_host or not _PATH.fullmatch(path) or "@" in tail or "\\" in user_info + tail:
        return "", ["base_url"]
    parameters = [part for part in re.split("[&;]", (found["query"] or "")[1:]) if part]
    versions = [part for part in parameters if _is_version(part)][:1]
    gone = {
        "user info": at,
        "path parameters": path != found["path"],
        "parameters": len(parameters) > len(versions),
        "fragment": found["fragment"],
    }
    cleaned = f"{found['scheme']}://{host}{path}{'?' + versions[0] if versions else ''}"
    return cleaned, [f"base_url {name}" for name, there in gone.items() if there]


def _is_version(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name == "api-version" and _VERSION.fullmatch(value) is not None
