"""Names of streams and consumers (ADR-6; nats-server err_codes 10102, 10127, 10128), checked at the call."""

from __future__ import annotations

from .._checks import check_text, plain
from .errors import InvalidConsumerNameError, InvalidNameError, InvalidStreamNameError

__all__ = ["check_consumer_name", "check_stream_name"]

_LONGEST = 255
_FORBIDDEN = set(".*>/\\")


def check_stream_name(name: str) -> str:
    """Returns `name`. Raises InvalidStreamNameError if no stream can have this name."""
    return _check(name, InvalidStreamNameError)


def check_consumer_name(name: str) -> str:
    """Returns `name`. Raises InvalidConsumerNameError if no consumer can have this name."""
    return _check(name, InvalidConsumerNameError)


def _check(name: str, error: type[InvalidNameError]) -> str:
    check_text(name=name)
    if not name:
        raise error(name, "is empty")
    for character in name:
        if character in _FORBIDDEN:
            raise error(name, f"contains {character!r}")
        if character == " " or not character.isprintable():
            raise error(name, "contains a blank or an unprintable character")
    if len(name.encode()) > _LONGEST:
        raise error(name, f"is longer than {_LONGEST} bytes")
    return plain(name)
