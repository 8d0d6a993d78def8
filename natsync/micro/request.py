"""`Request`: the argument of a service's handler; and the headers that mark a response as an error
(ADR-32)."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import OptionError
from ..message import Data, Headers, HeadersLike, Msg
from .errors import ServiceError

__all__ = ["ERROR_CODE_HEADER", "ERROR_HEADER", "Request", "error_headers", "raise_for_error"]

ERROR_HEADER = "Nats-Service-Error"
ERROR_CODE_HEADER = "Nats-Service-Error-Code"


def error_headers(code: int | str, description: str) -> dict[str, str]:
    """Returns the headers of an error response. The code is a number (ADR-32), or its text, as other
    clients take it. Each run of whitespace in `description` becomes one space.

    Raises OptionError for a negative code, or for an empty description, with which readers do not
    recognize an error.
    """
    if isinstance(code, str) and code.isascii() and code.isdecimal():
        code = int(code)
    if not isinstance(code, int) or isinstance(code, bool) or code < 0:
        raise OptionError("code", f"must be an int of 0 or more, not {code!r}")
    line = " ".join(description.split())
    if not line:
        raise OptionError("description", "must not be empty")
    return {ERROR_HEADER: line, ERROR_CODE_HEADER: str(code)}


def raise_for_error(msg: Msg) -> Msg:
    """Returns the response `msg`; if it is an error, raises it as ServiceError.

    >>> raise_for_error(nc.request("math.divide", b"1 0"))
    Traceback (most recent call last):
    natsync.micro.ServiceError: service error 400: division by zero
    """
    description = msg.headers.get(ERROR_HEADER)
    code = msg.headers.get(ERROR_CODE_HEADER)
    if description is None and code is None:
        return msg
    description, code = description or "", code or ""
    if code.isascii() and code.isdecimal() and len(code) < 20:
        raise ServiceError(int(code), description, msg.data)
    raise ServiceError(0, f"{code}: {description}", msg.data)


class Request:
    """A request to an endpoint: a message, with `respond_error`."""

    __slots__ = ("_msg", "_failed", "answered_error")

    def __init__(self, msg: Msg, failed: Callable[[str], None]) -> None:
        self._msg = msg
        self._failed = failed
        self.answered_error = False
        """Whether `respond_error` was called."""

    @property
    def subject(self) -> str:
        """The subject that the request was sent to: it shows what the wildcards of an endpoint's
        subject matched."""
        return self._msg.subject

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._msg.data

    @property
    def headers(self) -> Headers:
        """The headers; empty if there are none."""
        return self._msg.headers

    @property
    def reply(self) -> str:
        """The subject for the response; empty if no response is wanted."""
        return self._msg.reply

    def respond(self, data: Data = b"", *, headers: HeadersLike | None = None) -> None:
        """Sends a response; may be called any number of times. Raises `MsgNoReplyError` if no
        response is wanted, and the errors of `Client.publish`."""
        self._msg.respond(data, headers=headers)

    def respond_error(
        self,
        code: int | str,
        description: str,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
    ) -> None:
        """Answers with an error, which the statistics of the endpoint count. Raises as `respond`
        does, and OptionError for arguments that `error_headers` refuses."""
        error = error_headers(code, description)
        every: dict[str, str | list[str] | tuple[str, ...]] = {}
        for name, value in (headers or {}).items():
            every[name] = value
        every.update(error)
        self._failed(f"{code}:{error[ERROR_HEADER]}")
        self.answered_error = not self.reply  # nobody wants another response either
        self.respond(data, headers=every)
        self.answered_error = True

    def __repr__(self) -> str:
        return f"Request(subject={self.subject!r}, {len(self.data)} bytes)"
