"""What key-value buckets and object stores have in common: stored messages that gets return, and watches.

The answer to a direct get is the message itself, with its position in the stream in `Nats-` headers (ADR-31);
the answer to the older call is JSON with the headers and the payload in base64 (ADR-8).
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from natsync.protocol import ProtocolError, parse_headers

from ...schema.anomalies import Anomaly
from ...schema.records import text_of
from ..json_bodies import decimal, header, member, number, text
from ..rows import Marked, mark
from .api import Call
from .subjects import ConsumerKey

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


_R = TypeVar("_R", bound=Marked)


class Watches(Generic[_R]):
    """The rows of at most `limit` watches by consumer. If there are more, the oldest one is given up."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: dict[ConsumerKey, _R] = {}
        # The number of messages that came before the answer that names their watch.
        self._early: dict[ConsumerKey, int] = {}

    def of_message(self, key: ConsumerKey) -> _R | None:
        """The row of the watch to which a message was delivered. If there is none yet, counts the message
        for `take_early`."""
        row = self._rows.get(key)
        if row is None and (key in self._early or len(self._early) < self._limit):
            self._early[key] = self._early.get(key, 0) + 1
        return row

    def take_early(self, key: ConsumerKey) -> int:
        """The number of messages that came before the watch."""
        return self._early.pop(key, 0)

    def begin(self, key: ConsumerKey, row: _R) -> Iterator[_R]:
        """Adds a watch; yields the row of one that ends: an earlier one of the same name, or the oldest."""
        before = self._rows.pop(key, None)
        if before:
            yield before
        elif len(self._rows) >= self._limit:
            oldest = self._rows.pop(next(iter(self._rows)))
            mark(oldest, Anomaly.FORGOTTEN.value)
            yield oldest
        self._rows[key] = row

    def end(self, key: ConsumerKey) -> Iterator[_R]:
        """Ends a watch; yields its row, if there is one."""
        row = self._rows.pop(key, None)
        if row:
            yield row

    def finish(self) -> Iterator[_R]:
        """The rows of the watches that are open at the end of the session."""
        yield from self._rows.values()
