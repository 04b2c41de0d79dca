"""The version of the installed package."""

from functools import cache


@cache
def package_version() -> str:
    """Return the version that was installed; "0+unknown" for a source tree that was not.

    It is read once: that takes longer than anything else when a store is opened. What reads it is imported here, for
    programs that only look need neither.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("session-engine")
    except PackageNotFoundError:
        return "0+unknown"
