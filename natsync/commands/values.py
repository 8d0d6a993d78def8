"""The values of options and arguments: each function reads a text, or refuses it with the reason."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from click import BadParameter

from ..options import MAX_WAIT

__all__ = [
    "age",
    "checked",
    "chunk_size",
    "count",
    "duration",
    "durations",
    "header",
    "payload_size",
    "pair",
    "pairs",
    "seconds",
    "sequence",
    "texts",
    "time",
    "whole",
]

_N = TypeVar("_N", int, float)
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CENTURIES = 2**63 / 1e9  # a server counts at most 292 years of nanoseconds


def checked(check: Callable[[str], str]) -> Callable[[str], str]:
    """Makes a reader from a check of the library, which raises ValueError."""

    def read(text: str) -> str:
        try:
            return check(text)
        except ValueError as error:
            raise BadParameter(str(error)) from None

    return read


def header(text: str) -> tuple[str, str]:
    """The name and the value of a header."""
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise BadParameter("a header has the form NAME:VALUE")
    return name, value.strip()


def seconds(text: str) -> float:
    """Seconds, above 0."""
    number = _number(float, text)
    if not 0 < number < MAX_WAIT:
        raise BadParameter(f"must be above 0 and below {MAX_WAIT:.0f}")
    return number


def age(text: str) -> float:
    """Seconds before now, above 0."""
    number = _number(float, text)
    if not 0 < number < _CENTURIES:
        raise BadParameter("must be above 0 and below 292 years")
    return number


def _whole(least: int, end: int, meaning: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = _number(int, text)
        if number < least:
            raise BadParameter(f"must be at least {least}")
        if number >= end:
            raise BadParameter(f"must be below {end}")
        return number

    read.__doc__ = meaning
    return read


count = _whole(1, 1 << 63, "A whole number, above 0.")
whole = _whole(0, 1 << 63, "A whole number, 0 or above.")
payload_size = _whole(0, 1 << 31, "The bytes of a payload; the protocol has no longer ones.")
chunk_size = _whole(1, 1 << 31, "The bytes of a payload, above 0.")
sequence = _whole(1, 1 << 64, "The sequence of a stored message.")


def _number(kind: Callable[[str], _N], text: str) -> _N:
    try:
        return kind(text)
    except ValueError:
        raise BadParameter(f"not a number: {text}") from None


def duration(text: str) -> float:
    """Seconds, or numbers with units as in Go: 1h30m."""
    number = _seconds(text)
    if not number < _CENTURIES:
        raise BadParameter(f"longer than 292 years: {text}")
    return number


def _seconds(text: str) -> float:
    try:
        return float(int(text))
    except ValueError:
        pass
    except OverflowError:
        return math.inf
    parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadParameter(f"not a duration, as in 90s, 5m or 1h30m: {text}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def time(text: str) -> datetime:
    """A time as in ISO 8601 or RFC 3339; local time if it has no zone."""
    whole = re.sub(r"\.(\d{1,9})", lambda found: f".{found[1]:0<6.6}", text.upper())
    try:
        return datetime.fromisoformat(whole.replace("Z", "+00:00")).astimezone()
    except (ValueError, OverflowError, OSError):
        raise BadParameter(f"not a time, as in 2024-05-01T12:00: {text}") from None


def texts(text: str) -> list[str]:
    """Texts with commas between them."""
    return [part for part in text.split(",") if part]


def durations(text: str) -> tuple[float, ...]:
    """Durations with commas between them."""
    return tuple(map(duration, text.split(",")))


def pair(text: str) -> tuple[str, str]:
    """A name and its value."""
    name, mark, value = text.partition("=")
    if not name or not mark:
        raise BadParameter(f"must be NAME=VALUE: {text}")
    return name, value


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Names and their values, with commas between the pairs."""
    return tuple(map(pair, text.split(",")))
