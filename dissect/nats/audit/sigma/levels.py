"""The severity of a finding, and its harm, which puts findings of one level in order."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """The levels of Sigma, from the least to the most severe."""

    informational = 0
    low = 1
    medium = 2
    high = 3
    critical = 4


class Harm(IntEnum):
    """What a finding means, from the least to the worst: within a level, what broke comes before what only
    could. A rule that names none is of the least."""

    practice = 0  # works, and should be done in another way
    exposure = 1  # secrets, messages or rights are open to others
    delay = 2  # works, slowly
    symptom = 3  # something failed, and another rule may name the cause
    attack = 4  # somebody does what nobody may have planned
    outage = 5  # something does not work
    loss = 6  # messages or data are lost, or their work is done twice
