"""The headers of a message: `Headers`, and the header block they are sent as.

Text is UTF-8; bytes that are not UTF-8 survive both ways as lone surrogates (PEP 383). Names keep
their case, and a look-up is case-sensitive, since NATS servers and clients compare names byte by
byte (ADR-4); `Headers.find` ignores case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .protocol import ProtocolError, build_headers

__all__ = [
    "Headers",
    "HeadersLike",
    "encode_headers",
    "received_headers",
    "to_text",
    "to_wire",
]


def to_wire(text: str) -> bytes:
    """The bytes of `text` on the wire. Raises ProtocolError for a lone surrogate that stands for no
    byte."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ProtocolError("text with a lone surrogate, which is not UTF-8") from None


def to_text(wire: bytes) -> str:
    """The text of bytes from the wire; bytes that are not UTF-8 become lone surrogates."""
    return wire.decode("utf-8", "surrogateescape")


_MOST_NAMES = 1000
_names: set[str] = set()
"""Names of headers that are known to be valid."""


class Headers(Mapping[str, str]):
    """The headers of a message: a read-only mapping of names to values, in order.

    A name may have several values: `headers[name]`, `get` and `items` give the first of each name,
    `get_all` and `to_dict` all of them, and `fields` every name and value as they stand in the
    block. Make one from a mapping of names to a value or a list of values, or from an iterable of
    (name, value) pairs. Headers are equal when all their names have the same values in the same
    order. They are encoded once: headers that many messages share cost less as `Headers` than as a
    dict.
    """

    __slots__ = ("_fields", "_block")

    def __init__(self, fields: HeadersLike | Iterable[tuple[str, str]] = ()) -> None:
        self._fields: tuple[tuple[str, str], ...] = tuple(_pairs(fields))
        self._block = b""  # the header block, once it was encoded

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Every name and value in order; a name with two values comes twice."""
        return self._fields

    def __getitem__(self, name: str) -> str:
        for known, value in self._fields:
            if known == name:
                return value
        raise KeyError(name)

    def get_all(self, name: str) -> list[str]:
        """Every value of `name`, in order; empty where the name is absent."""
        return [value for known, value in self._fields if known == name]

    def find(self, name: str, default: str | None = None) -> str | None:
        """The first value whose name equals `name` when case is ignored, or `default`."""
        folded = name.lower()
        return next((value for known, value in self._fields if known.lower() == folded), default)

    def to_dict(self) -> dict[str, list[str]]:
        """Each name with the list of its values, as `json` and `publish` take it."""
        found: dict[str, list[str]] = {}
        for name, value in self._fields:
            found.setdefault(name, []).append(value)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._fields))

    def __contains__(self, name: object) -> bool:
        return any(known == name for known, _ in self._fields)

    def __len__(self) -> int:
        return len({name for name, _ in self._fields})

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            return self._fields == other._fields or self.to_dict() == other.to_dict()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset((name, tuple(values)) for name, values in self.to_dict().items()))

    def __reduce__(self) -> tuple[type[Headers], tuple[tuple[tuple[str, str], ...]]]:
        return Headers, (self._fields,)

    def __repr__(self) -> str:
        return f"Headers({list(self._fields)!r})"


def received_headers(fields: Iterable[tuple[str, str]]) -> Headers:
    """Makes headers from pairs that were read from a block. They need no check, which would take longer than
    reading them."""
    made = Headers.__new__(Headers)
    made._fields = tuple(fields)
    made._block = b""
    return made


HeadersLike = Mapping[str, str | list[str] | tuple[str, ...]] | Headers
"""The headers that a call accepts: a mapping of names to one value or several, or a `Headers`."""


def encode_headers(headers: HeadersLike) -> bytes:
    """The header block of `headers`. Raises ProtocolError for names and values that a block cannot
    carry, TypeError for anything that is not a mapping of text."""
    if headers.__class__ is Headers:
        if not headers._block:
            headers._block = _encode_any(headers)
        return headers._block
    if headers.__class__ is dict:
        lines = ["NATS/1.0\r\n"]
        for name, value in headers.items():
            # Printable text has no line end, NUL or lone surrogate. Other values may be valid, too.
            if name not in _names or name.__class__ is not str:
                break
            if value.__class__ is not str or not value.isprintable():
                break
            lines.append(f"{name}: {value}\r\n")
        else:
            lines.append("\r\n")
            return "".join(lines).encode()
    return _encode_any(headers)


def _encode_any(headers: HeadersLike) -> bytes:
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping, not {type(headers).__name__}")
    pairs = [*_pairs(headers)]
    block = build_headers([(to_wire(name), to_wire(value)) for name, value in pairs])
    if len(_names) < _MOST_NAMES:
        _names.update(name for name, _ in pairs)
    return block


def _pairs(headers: HeadersLike | Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if isinstance(headers, Headers):
        yield from headers.fields
        return
    several = isinstance(headers, Mapping)
    for name, values in headers.items() if isinstance(headers, Mapping) else headers:
        for value in values if several and isinstance(values, (list, tuple)) else (values,):
            if not (isinstance(name, str) and isinstance(value, str)):
                wrong = value if isinstance(name, str) else name
                raise TypeError(f"header names and values are str, not {type(wrong).__name__}")
            yield name, value
