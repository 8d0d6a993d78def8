"""The header block of HPUB and HMSG: bytes to fields and back (ADR-4).

Order, case and repetition of names are kept; nothing is joined or canonicalised. Reading is as lenient
as other clients: a folded line continues the value before it, a bare LF ends a line, a line with an empty
name is ignored, blanks around a value are not part of it. Servers do not check the block. Writing is
strict: a name is printable ASCII without a colon, a value has no CR, LF or NUL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .errors import ProtocolError
from .structs import Struct, field

__all__ = ["HeaderBlock", "build_headers", "parse_headers"]

_VERSION = b"NATS/1.0"
_STATUS = re.compile(rb"[ \t]*([0-9]{3})(?:[ \t]+(.*?))?[ \t]*", re.DOTALL)
_NAME = re.compile(rb"[\x21-\x39\x3b-\x7e]+")
_NOT_IN_VALUE = re.compile(rb"[\r\n\0]")


class HeaderBlock(Struct):
    """A parsed header block. `status` is 0 if there is no inline status (`NATS/1.0 503`)."""

    status: int = 0
    description: bytes = b""
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)


def parse_headers(block: bytes) -> HeaderBlock:
    """The fields and inline status of `block`. Raises ProtocolError for bytes that are not a header block.

    The offset in the error counts from the start of the block.
    """
    lines = block.split(b"\n")
    first = lines[0].rstrip(b"\r")
    if not first.startswith(_VERSION):
        raise ProtocolError("header block without NATS/1.0", None, first[: len(_VERSION)])
    parsed = _status_line(first[len(_VERSION) :])
    offset = len(lines[0]) + 1
    for line in lines[1:]:
        text = line.rstrip(b"\r")
        if text[:1] in (b" ", b"\t") and text.strip(b" \t"):
            _unfold(parsed.fields, text, offset)
        elif text.strip(b" \t"):
            name, colon, value = text.partition(b":")
            if not colon:
                raise ProtocolError("header line without a colon", offset)
            if name:
                parsed.fields.append((name, value.strip(b" \t")))
        offset += len(line) + 1
    return parsed


def _status_line(rest: bytes) -> HeaderBlock:
    found = _STATUS.fullmatch(rest)
    if found:
        return HeaderBlock(int(found[1]), found[2] or b"")
    if rest.strip(b" \t"):
        raise ProtocolError("header block with a status that is not three digits", len(_VERSION))
    return HeaderBlock()


def _unfold(fields: list[tuple[bytes, bytes]], text: bytes, offset: int) -> None:
    if not fields:
        raise ProtocolError("header block that begins with a folded line", offset)
    name, value = fields[-1]
    fields[-1] = (name, (value + b" " + text.strip(b" \t")).strip(b" \t"))


def build_headers(
    fields: Iterable[tuple[bytes, bytes]], status: int = 0, description: bytes = b""
) -> bytes:
    """The header block of `fields`, in their order, with an inline status unless `status` is 0.

    Raises ProtocolError for a name or value that a block cannot carry. Blanks around values are lost: every
    reader drops them.
    """
    if (status and not 100 <= status <= 999) or (description and not status):
        raise ProtocolError(f"status {status} is not three digits")
    if _NOT_IN_VALUE.search(description):
        raise ProtocolError("status description with a line end or NUL")
    lines = [
        b" ".join([_VERSION, *([b"%d" % status] if status else []), *filter(None, [description])])
    ]
    for name, value in fields:
        if not _NAME.fullmatch(name):
            raise ProtocolError(
                "header name that is not printable ASCII without blank or colon", None, name
            )
        if _NOT_IN_VALUE.search(value):
            raise ProtocolError("header value with a line end or NUL, under the name", None, name)
        lines.append(name + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n"
