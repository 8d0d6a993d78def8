"""Unique ids as NATS clients use them: 22 characters of the base62 alphabet.

Every character is random (130 bits in all), whereas nats.go appends a counter to a random prefix. Here only
connections and inboxes need an id, so that a counter would gain nothing, and nobody can guess the next id.
"""

from __future__ import annotations

import os

__all__ = ["nuid"]

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 22


def nuid() -> str:
    """Returns a new id. Any thread may call this."""
    # 45 bits more than 62 ** 22 has, so that the remainder is as good as uniform
    number = int.from_bytes(os.urandom(22), "big")
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(digits)
