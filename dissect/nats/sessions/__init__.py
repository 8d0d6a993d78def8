"""Frames of one connection, both directions -> what the session was: who, what, how much, how it ended."""

from .budget import Budget
from .session import Session
from .sums import Sum

__all__ = ["Budget", "Session", "Sum"]
