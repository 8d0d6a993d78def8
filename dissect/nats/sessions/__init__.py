"""Frames of both directions -> facts about the session: peers, subscriptions, requests, counts, how it
ended."""

from .delta import SessionDelta
from .quota import EntryQuota
from .session import Session

__all__ = ["EntryQuota", "Session", "SessionDelta"]
