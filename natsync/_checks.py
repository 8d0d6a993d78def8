"""Argument checks: an argument of the wrong type raises a TypeError that names it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from .errors import OptionError

__all__ = [
    "INT32",
    "INT64",
    "UINT64",
    "check_call",
    "check_core",
    "check_count",
    "check_data",
    "check_duration",
    "check_kind",
    "check_options",
    "check_range",
    "check_seconds",
    "check_text",
    "check_unsigned",
    "check_word",
    "is_kill",
    "is_restricted",
    "plain",
]

INT32, INT64, UINT64 = 2**31 - 1, 2**63 - 1, 2**64 - 1
"""The largest numbers of those types, in which servers keep the fields of configurations."""

_SHOWN = 64  # characters of a wrong word
_COROUTINE = 0x80 | 0x200  # inspect.CO_COROUTINE, CO_ASYNC_GENERATOR
_GENERATOR = 0x20  # inspect.CO_GENERATOR


def check_data(data: object) -> None:
    """Checks payloads."""
    if isinstance(data, str):
        raise TypeError("data must be bytes, not str: encode it, e.g. data.encode()")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, bytearray or memoryview, not {_kind(data)}")


def check_text(**arguments: object) -> None:
    """Checks subjects and names."""
    for what, value in arguments.items():
        if not isinstance(value, str):
            raise TypeError(f"{what} must be str, not {_kind(value)}")


_RESTRICTED = re.compile(r"[A-Za-z0-9_-]+")


def is_restricted(name: str) -> bool:
    """Returns whether a bucket, object store, service or endpoint can have this name (ADR-6)."""
    return _RESTRICTED.fullmatch(name) is not None


def plain(text: str) -> str:
    """Returns `text` without its subclass. An f-string shows a member of `class Name(str, Enum)` as `Name.X`
    (since Python 3.11), which would be another subject."""
    return text if text.__class__ is str else str.__str__(text)


def check_seconds(**arguments: object) -> None:
    """Checks times. A negative time is valid and acts like 0: the deadline has already passed."""
    for what, value in arguments.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError(f"{what} must be a number of seconds, not {_kind(value)}")
        if value != value:
            raise OptionError(what, "must be a number of seconds, not NaN")


def check_duration(**arguments: object) -> None:
    """Checks times that a server keeps as an int64 of nanoseconds."""
    check_seconds(**arguments)
    for what, value in arguments.items():
        assert isinstance(value, (int, float))
        if abs(value) >= 1 << 33:
            raise OptionError(what, "must be less than 272 years")


def check_count(**arguments: object) -> None:
    """Checks whole numbers."""
    for what, value in arguments.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{what} must be int, not {_kind(value)}")


def check_unsigned(least: int = 0, /, **arguments: object) -> None:
    """Checks sequences and revisions, which a server keeps as an uint64."""
    check_count(**arguments)
    for what, value in arguments.items():
        assert isinstance(value, int)
        if not least <= value < 1 << 64:
            raise OptionError(what, f"must be from {least} to 2**64 - 1")


def check_range(least: int, most: int, what: str, value: object) -> None:
    """Checks a number in a configuration."""
    assert isinstance(value, (int, float))
    if value < least:
        raise OptionError(what, f"must be at least {_power(least)}, not {value}")
    if value > most:
        raise OptionError(what, f"must be at most {_power(most)}, not {value}")


def check_word(words: tuple[str, ...], what: str, value: object) -> None:
    """Checks a word in a configuration."""
    if value not in words:
        allowed = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
        raise OptionError(what, f"must be {allowed}, not {str(value)[:_SHOWN]!r}")


def check_kind(kind: type, **arguments: object) -> None:
    """Checks configurations."""
    for what, value in arguments.items():
        if not isinstance(value, kind):
            raise TypeError(f"{what} must be {kind.__name__}, not {_kind(value)}")


def check_call(**arguments: object) -> None:
    """Checks functions; None is valid, too. Refuses async functions and generators: calling one runs none of
    its code, and natsync neither awaits nor iterates over the result."""
    for what, value in arguments.items():
        if value is None:
            continue
        if not callable(value):
            raise TypeError(f"{what} must be callable, not {_kind(value)}")
        flags = _flags(value)
        if flags & _COROUTINE:
            raise TypeError(
                f"{what} must be a plain function, not an async one: natsync calls it on a thread, "
                "where no event loop awaits it"
            )
        if flags & _GENERATOR:
            raise TypeError(
                f"{what} must be a plain function, not one with yield: a call would not run it"
            )


def check_core(nc: object) -> None:
    """Checks connections: a `Client`, or what passes its calls on."""
    if not hasattr(nc, "subscribe"):
        raise TypeError(f"nc must be a Client, not {_kind(nc)}")


def check_options(call: str, options: Iterable[str], allowed: Container[str]) -> None:
    """Checks the names of keyword arguments that `call` passes on. Raises the same TypeError as Python."""
    for name in options:
        if name not in allowed:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")


def _flags(function: object) -> int:
    """Returns the code flags of `function`, which reveal async functions and generators. `inspect` reads the
    same flags, but takes ten milliseconds to import."""
    while hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
        function = function.func
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = getattr(type(function), "__call__", function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code.co_flags if code is not None else 0


def _power(number: int) -> str:
    """2147483647 -> 2**31 - 1"""
    if number in (INT32, INT64, UINT64):
        return f"2**{number.bit_length()} - 1"
    return f"-2**{number.bit_length() - 1}" if number < -1 else str(number)


def _kind(value: object) -> str:
    return type(value).__name__


def is_kill(error: BaseException) -> bool:
    """Returns whether `error` shall end the thread that it comes from: gevent's `kill` raises it.

    Where natsync's own threads call code of the program, they catch every other exception, also SystemExit,
    asyncio.CancelledError and gevent.Timeout, which are no Exception: the thread would end, and silently.
    """
    return type(error).__name__ == "GreenletExit"
