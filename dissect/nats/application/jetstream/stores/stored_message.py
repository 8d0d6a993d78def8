"""The stored message in the answer of a direct get or of STREAM.MSG.GET (ADR-31, ADR-8).

The answer to a direct get is the message itself, with its position in the stream in `Nats-` headers; the
answer to the older call is JSON with the headers and the payload in base64.
"""

from __future__ import annotations

import binascii
from typing import NamedTuple

from natsync.protocol import ProtocolError, parse_headers

from ....schema.records import text_of
from ...json_bodies import decimal, header, member, number, text
from ..api import Call

GETS = ("DIRECT.GET", "STREAM.MSG.GET")


class StoredMessage(NamedTuple):
    """A message as a stream stores it; `headers` has the first value of each header."""

    subject: str
    seq: int | None
    headers: dict[str, str]
    content: bytes


def asked_subject(call: Call) -> str:
    """The subject whose last message a get asks for; empty if it asks for a sequence."""
    return call.rest or text(call.request, "last_by_subj")


def stored_message(call: Call) -> StoredMessage | None:
    """The message that a get returned; None if it returned none."""
    frame = call.value
    if frame is None or call.row.code is not None:
        return None
    if call.row.api == "DIRECT.GET":
        firsts = {name: values[0] for name, values in (frame.headers or {}).items() if values}
        subject = firsts.get("Nats-Subject", "")
        return StoredMessage(
            subject, decimal(header(frame, "Nats-Sequence")), firsts, frame.content
        )
    message = member(call.response, "message")
    if not message:
        return None
    headers = _headers(_decoded(text(message, "hdrs")))
    content = _decoded(text(message, "data"))
    return StoredMessage(text(message, "subject"), number(message, "seq"), headers, content)


def _decoded(data: str) -> bytes:
    try:
        return binascii.a2b_base64(data.encode("ascii", "replace"))
    except binascii.Error:
        return b""


def _headers(block: bytes) -> dict[str, str]:
    if not block:
        return {}
    try:
        parsed = parse_headers(block)
    except ProtocolError:
        return {}
    firsts: dict[str, str] = {}
    for name, value in parsed.fields:
        firsts.setdefault(text_of(name), text_of(value))
    return firsts
