"""Frames of both directions -> facts about the session: its peers, subscriptions, requests, counts, and
its end."""

from .delta import SessionDelta, is_plain
from .quota import EntryQuota
from .requests import Moment, RequestEvent
from .session import Session

__all__ = ["EntryQuota", "Moment", "RequestEvent", "Session", "SessionDelta", "is_plain"]
