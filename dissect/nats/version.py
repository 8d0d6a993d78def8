"""The version of the installed package."""

from __future__ import annotations


def version() -> str:
    """The version of the installed package; `unknown` in a checkout that is not installed."""
    from importlib import metadata  # takes a tenth of the time that a command takes to start

    try:
        return metadata.version("natsync")
    except metadata.PackageNotFoundError:
        return "unknown"
