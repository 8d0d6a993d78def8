"""Arguments of the wrong kind: a TypeError that names the argument, at the call that was given it."""

from __future__ import annotations

__all__ = ["check_call", "check_count", "check_data", "check_seconds", "check_text"]


def check_data(data: object) -> None:
    """For payloads."""
    if isinstance(data, str):
        raise TypeError("data must be bytes, not str: encode it, e.g. data.encode()")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, bytearray or memoryview, not {_kind(data)}")


def check_text(**given: object) -> None:
    """For subjects and names."""
    for what, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{what} must be str, not {_kind(value)}")


def check_seconds(**given: object) -> None:
    """For times. What is below 0 is as good as 0: a deadline has just passed."""
    for what, value in given.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError(f"{what} must be a number of seconds, not {_kind(value)}")
        if value != value:
            raise ValueError(f"{what} must be a number of seconds, not NaN")


def check_count(**given: object) -> None:
    """For whole numbers."""
    for what, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{what} must be int, not {_kind(value)}")


def check_call(**given: object) -> None:
    """For functions, which may be left out."""
    for what, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"{what} must be callable, not {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__
