"""Frames of one connection, both directions -> what the session was: who, what, how much, how it ended."""

from .delta import SessionDelta
from .quota import EntryQuota
from .session import Session

__all__ = ["EntryQuota", "Session", "SessionDelta"]
