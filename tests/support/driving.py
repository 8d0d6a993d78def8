"""Stand-ins for what moves a connection's bytes."""

from __future__ import annotations

from collections.abc import Callable


def idle(done: Callable[[], object], until: float) -> None:
    """Moves nothing: somebody else does."""
