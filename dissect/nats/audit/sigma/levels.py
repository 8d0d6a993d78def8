"""The severity of a finding."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """The levels of Sigma, from the least to the most severe."""

    informational = 0
    low = 1
    medium = 2
    high = 3
    critical = 4
