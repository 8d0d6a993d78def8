"""Messages as users see them: `Msg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .errors import MsgNoReplyError, MsgNotBoundError
from .headers import (
    Headers,
    HeadersLike,
    encode_headers,
    received_headers,
    to_text,
    to_wire,
)
from .protocol import HMsg
from .protocol import Msg as MsgFrame
from .protocol import ProtocolError, parse_headers

__all__ = [
    "Data",
    "Delivered",
    "Handler",
    "Headers",
    "HeadersLike",
    "Msg",
    "ReceivedMsg",
    "Respond",
    "is_no_responders",
    "message_parts",
    "says_no_responders",
    "to_text",
    "to_wire",
]

Data = bytes | bytearray | memoryview
"""The types of a payload that a call accepts."""

Delivered = MsgFrame | HMsg
"""A frame that delivers a message."""


class Respond(Protocol):
    """Publishes to the reply subject of a message; `Msg.respond` calls it."""

    def __call__(self, msg: Msg, data: Data, *, headers: HeadersLike | None) -> None: ...


def _unbound(msg: Msg, data: Data, *, headers: HeadersLike | None) -> None:
    wire_reply(msg)  # raises the error


class Msg:
    """A message: received by a subscription or a request, or made by the program to be published.

    `Msg(subject, data, reply=..., headers=...)` makes one for `publish`. Messages are equal if subject,
    payload, reply, headers and status are. They can be pickled; an unpickled message belongs to no
    connection, so its `respond` raises MsgNotBoundError. The attributes of a received message are decoded
    when they are read: only then does an invalid header block raise ProtocolError.
    """

    __slots__ = ("_frame", "_respond", "_parsed")

    def __init__(
        self,
        subject: str,
        data: Data = b"",
        *,
        reply: str = "",
        headers: HeadersLike | None = None,
    ) -> None:
        for what, text in (("subject", subject), ("reply", reply)):
            if not isinstance(text, str):
                raise TypeError(f"{what} must be str, not {type(text).__name__}")
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        self._frame = _frame(
            to_wire(subject),
            to_wire(reply),
            encode_headers(headers) if headers else b"",
            bytes(data),
        )
        self._respond: Respond = _unbound
        self._parsed: tuple[Headers, int, str] | None = None

    @property
    def subject(self) -> str:
        """The subject that the message was published to."""
        return self._frame.subject.decode("utf-8", "surrogateescape")

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._frame.payload

    @property
    def reply(self) -> str:
        """The subject for a reply; empty if none is wanted."""
        return self._frame.reply.decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> Headers:
        """The headers; empty if there are none."""
        return self._headers()[0]

    @property
    def header_block(self) -> bytes:
        """The headers as bytes, unparsed; empty if there are none."""
        return self._frame.headers if isinstance(self._frame, HMsg) else b""

    @property
    def status(self) -> int:
        """The inline status of the header block (`NATS/1.0 503`); 0 if there is none."""
        return self._headers()[1]

    @property
    def description(self) -> str:
        """The text after the inline status."""
        return self._headers()[2]

    def respond(self, data: Data = b"", *, headers: HeadersLike | None = None) -> None:
        """Publishes `data` to the reply subject, on the connection that the message came from.

        The headers of this message are not copied into the answer. Raises MsgNoReplyError if there is
        no reply subject, MsgNotBoundError if the message belongs to no connection, and the errors of
        `Client.publish`. The reply subject is not checked, since it came from a server.
        """
        self._respond(self, data, headers=headers)

    def _headers(self) -> tuple[Headers, int, str]:
        if self._parsed is None:
            block = self._frame.headers if isinstance(self._frame, HMsg) else b""
            self._parsed = _parse(block) if block else (_NO_HEADERS, 0, "")
        return self._parsed

    def _content(self) -> tuple[bytes, bytes, bytes, bytes]:
        frame = self._frame
        block = frame.headers if isinstance(frame, HMsg) else b""
        return frame.subject, frame.reply, block, frame.payload

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Msg):
            return NotImplemented
        mine, others = self._content(), other._content()
        if mine == others:
            return True
        if mine[:2] != others[:2] or mine[3] != others[3]:
            return False
        try:
            return self._headers() == other._headers()
        except ProtocolError:  # an invalid header block, and not the same bytes
            return False

    def __hash__(self) -> int:
        return hash((self._frame.subject, self._frame.reply, self._frame.payload))

    def __reduce__(self) -> tuple[Callable[..., Msg], tuple[bytes, bytes, bytes, bytes]]:
        return _unpickled, self._content()

    def __repr__(self) -> str:
        return f"Msg(subject={self.subject!r}, reply={self.reply!r}, {len(self.data)} bytes)"


class ReceivedMsg(Msg):
    """A message made from the frame that delivered it and the function that responds to it."""

    __slots__ = ()

    def __init__(self, frame: Delivered, respond: Respond) -> None:
        self._frame = frame
        self._respond = respond
        self._parsed = None


_NO_HEADERS = Headers()


def is_no_responders(msg: Msg) -> bool:
    """Returns whether `msg` is a server's status 503, which says that nobody listens. A status 503 with a
    payload comes from a responder."""
    return says_no_responders(msg._frame)


def says_no_responders(frame: Delivered) -> bool:
    """Like `is_no_responders`, for a frame."""
    if frame.payload or not isinstance(frame, HMsg):
        return False
    try:
        return parse_headers(frame.headers).status == 503
    except ProtocolError:  # raised again when the caller reads the headers
        return False


def wire_reply(msg: Msg) -> bytes:
    """Returns the reply subject of a received message as bytes, which need no check. Raises
    MsgNoReplyError, and MsgNotBoundError for a message that the program made or unpickled."""
    reply = msg._frame.reply
    if not reply:
        raise MsgNoReplyError(msg.subject)
    if msg._respond is _unbound:
        raise MsgNotBoundError(msg.reply)
    return reply


def message_parts(
    msg: Msg, data: Data, reply: str | None, headers: HeadersLike | None
) -> tuple[str, Data, str | None, HeadersLike | None]:
    """Returns subject, payload, reply and headers of `msg`. Raises TypeError for other arguments, which no
    call takes beside a `Msg`."""
    if len(data) or reply or headers:
        raise TypeError("a Msg is sent alone: it has its own payload, reply and headers")
    return msg.subject, msg.data, msg.reply or None, msg.headers or None


def request_parts(
    subject: str | Msg, data: Data, headers: HeadersLike | None
) -> tuple[str, Data, HeadersLike | None]:
    """Returns subject, payload and headers of a request, which may be a `Msg`; its reply subject is not
    used, since the reply comes to the caller. Raises TypeError as `message_parts` does."""
    if not isinstance(subject, Msg):
        return subject, data, headers
    subject, data, _, headers = message_parts(subject, data, None, headers)
    return subject, data, headers


def _frame(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> Delivered:
    if headers:
        return HMsg(subject, b"", reply, headers, payload)
    return MsgFrame(subject, b"", reply, payload)


def _unpickled(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> Msg:
    return ReceivedMsg(_frame(subject, reply, headers, payload), _unbound)


def _parse(block: bytes) -> tuple[Headers, int, str]:
    parsed = parse_headers(block)
    fields = [(to_text(name), to_text(value)) for name, value in parsed.fields]
    return received_headers(fields), parsed.status, to_text(parsed.description)


Handler = Callable[[Msg], object]
"""A function that a subscription calls with each message; its return value is ignored."""
