"""The one logger of natsync. It says nothing unless something is wrong, and never a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["logger"]


def logger() -> Logger:
    """Returns the logger `natsync`. Imports `logging` only now: it would be a tenth of `import natsync`."""
    import logging

    return logging.getLogger("natsync")
