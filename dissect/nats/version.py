"""The version of the installed package."""

from __future__ import annotations


def version() -> str:
    """The version of the installed package; `unknown` in a checkout that is not installed."""
    from importlib import metadata  # imported here: it takes a tenth of a command's start-up time

    try:
        return metadata.version("natsync")
    except metadata.PackageNotFoundError:
        return "unknown"
