"""Frames of both directions -> facts about the session: its peers, subscriptions, requests, counts, and
its end."""

from .delta import SessionDelta, is_plain
from .quota import EntryQuota
from .session import Session

__all__ = ["EntryQuota", "Session", "SessionDelta", "is_plain"]
