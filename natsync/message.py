"""A message as the user sees it: `Msg`, and its `Headers`.

Text is UTF-8; bytes that are not survive both ways as lone surrogates (PEP 383), so a strange subject
can be answered. Header names keep their case and are looked up by it (ADR-4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from .errors import MsgNoReplyError
from .protocol import HMsg
from .protocol import Msg as MsgFrame
from .protocol import ProtocolError, build_headers, parse_headers

__all__ = [
    "Data",
    "Delivered",
    "Headers",
    "HeadersLike",
    "Msg",
    "Publish",
    "encode_headers",
    "is_no_responders",
    "to_text",
    "to_wire",
]

Data = bytes | bytearray | memoryview
"""A payload as a caller may give it."""

_MOST_NAMES = 1000
_names: set[str] = set()
"""Names of headers that are known to be valid."""

Delivered = MsgFrame | HMsg
"""A frame that brings a message."""


def to_wire(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ProtocolError("text with a lone surrogate, which is no UTF-8") from None


def to_text(wire: bytes) -> str:
    return wire.decode("utf-8", "surrogateescape")


class Headers:
    """The headers of a message: names to values, in order; a name may have several values.

    `headers["name"]` and `get` give the first value, `get_all` all of them. Read-only.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> str:
        for known, value in self._fields:
            if known == name:
                return value
        raise KeyError(name)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of `name`, or `default`."""
        return next((value for known, value in self._fields if known == name), default)

    def get_all(self, name: str) -> list[str]:
        """Every value of `name`, in order; none if it is not there."""
        return [value for known, value in self._fields if known == name]

    def items(self) -> list[tuple[str, str]]:
        """Every name and value, in order; a name with two values comes twice."""
        return list(self._fields)

    def keys(self) -> list[str]:
        """Every name once, in order."""
        return list(dict.fromkeys(name for name, _ in self._fields))

    def to_dict(self) -> dict[str, list[str]]:
        """Names to lists of values."""
        return {name: self.get_all(name) for name in self.keys()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return any(known == name for known, _ in self._fields)

    def __len__(self) -> int:
        return len(self.keys())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(tuple(self._fields))

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"


HeadersLike = Mapping[str, str | list[str] | tuple[str, ...]] | Headers
"""Headers as a caller may give them: names to one value or several, or those of another message."""


class Publish(Protocol):
    """How a message is sent; `Msg.respond` and those who make a Msg are handed this."""

    def __call__(self, subject: str, data: Data, *, headers: HeadersLike | None) -> None: ...


def encode_headers(headers: HeadersLike) -> bytes:
    """The header block of `headers`. Raises ProtocolError for what a block cannot carry."""
    if headers.__class__ is dict:
        lines = ["NATS/1.0\r\n"]
        for name, value in headers.items():
            # Printable text has no line end, NUL or lone surrogate. Other values may be good, too.
            if name not in _names or value.__class__ is not str or not value.isprintable():
                break
            lines.append(f"{name}: {value}\r\n")
        else:
            lines.append("\r\n")
            return "".join(lines).encode()
    return _encode_any_headers(headers)


def _encode_any_headers(headers: HeadersLike) -> bytes:
    fields: list[tuple[bytes, bytes]] = []
    if not isinstance(headers, (Mapping, Headers)):
        raise TypeError(f"headers must be a mapping, not {type(headers).__name__}")
    for name, values in headers.items():
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if not (isinstance(name, str) and isinstance(value, str)):
                wrong = value if isinstance(name, str) else name
                raise TypeError(f"header names and values are str, not {type(wrong).__name__}")
            fields.append((to_wire(name), to_wire(value)))
    block = build_headers(fields)
    if len(_names) < _MOST_NAMES:
        _names.update(name for name in headers if isinstance(name, str))
    return block


class Msg:
    """One message that was received.

    `data` is its payload. Attributes are decoded when they are asked for; asking for headers that are
    no header block raises ProtocolError.
    """

    __slots__ = ("_frame", "_publish", "_parsed")

    def __init__(self, frame: Delivered, publish: Publish) -> None:
        self._frame = frame
        self._publish = publish
        self._parsed: tuple[Headers, int, str] | None = None

    @property
    def subject(self) -> str:
        """Where it was published to."""
        return self._frame.subject.decode("utf-8", "surrogateescape")

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._frame.payload

    @property
    def reply(self) -> str:
        """The subject a reply should go to; empty where none is wanted."""
        return self._frame.reply.decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> Headers:
        """The headers; empty where there are none."""
        return self._headers()[0]

    @property
    def status(self) -> int:
        """The inline status of the header block (`NATS/1.0 503`), 0 where there is none."""
        return self._headers()[1]

    @property
    def description(self) -> str:
        """The text behind the inline status."""
        return self._headers()[2]

    def respond(self, data: Data = b"", *, headers: HeadersLike | None = None) -> None:
        """Publishes `data` to the reply subject. Raises MsgNoReplyError where there is none.

        The headers of this message are not copied into the answer.
        """
        if not self._frame.reply:
            raise MsgNoReplyError(self.subject)
        self._publish(self.reply, data, headers=headers)

    def _headers(self) -> tuple[Headers, int, str]:
        if self._parsed is None:
            block = self._frame.headers if isinstance(self._frame, HMsg) else b""
            self._parsed = _parse(block) if block else (Headers([]), 0, "")
        return self._parsed

    def __repr__(self) -> str:
        return f"Msg(subject={self.subject!r}, reply={self.reply!r}, {len(self.data)} bytes)"


def is_no_responders(msg: Msg) -> bool:
    """Whether it is the server's word that nobody listens; an answer of 503 with a payload is somebody's."""
    try:
        return not msg.data and msg.status == 503
    except ProtocolError:  # the caller meets it again when asking for the headers
        return False


def _parse(block: bytes) -> tuple[Headers, int, str]:
    parsed = parse_headers(block)
    fields = [(to_text(name), to_text(value)) for name, value in parsed.fields]
    return Headers(fields), parsed.status, to_text(parsed.description)


Handler = Callable[[Msg], object]
"""What a subscription may call with each message; what it returns is not used."""
