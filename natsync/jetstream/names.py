"""Names of streams and consumers (ADR-6; nats-server err_codes 10102, 10127, 10128) and subjects, checked at
the call."""

from __future__ import annotations

from .._checks import check_text, plain
from ..headers import to_wire
from ..protocol import ProtocolError, check_subscribe
from .errors import InvalidConsumerNameError, InvalidNameError, InvalidStreamNameError

__all__ = ["check_consumer_name", "check_pattern", "check_stream_name"]

_LONGEST = 255
_FORBIDDEN = set(".*>/\\")


def check_stream_name(name: str) -> str:
    """Returns `name`. Raises InvalidStreamNameError if no stream can have this name."""
    return _check(name, InvalidStreamNameError)


def check_consumer_name(name: str) -> str:
    """Returns `name`. Raises InvalidConsumerNameError if no consumer can have this name."""
    return _check(name, InvalidConsumerNameError)


def check_pattern(subject: str) -> None:
    """Raises ProtocolError for a subject that matches none: servers answer only "bad request", or that
    nothing matches. Also for one that is not UTF-8: the API's JSON would carry another one."""
    check_text(subject=subject)
    check_subscribe(to_wire(subject))
    try:
        subject.encode()
    except UnicodeEncodeError:
        raise ProtocolError("a subject that is not UTF-8, which JSON cannot carry") from None


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
