"""The encoding of messages, with all checks, in the call that publishes them.

A subject that repeats is checked once: the start of its PUB is kept. Reply subjects and subjects with an
identifier, which do not repeat, are not kept. Any thread may call anything: single dictionary operations,
which are atomic, take the place of a lock.
"""

from __future__ import annotations

from array import array

from .._checks import check_data, check_text
from ..errors import HeadersNotSupportedError, MaxControlLineError, MaxPayloadError
from ..headers import HeadersLike, encode_headers, to_wire
from ..message import Data
from ..options import MAX_CONTROL_LINE
from ..protocol import ServerInfo, check_publish

__all__ = ["MessageEncoder"]

_SUBJECTS = 32_768
"""How many subjects are kept: 7 MB with subjects of 30 bytes. To check and encode another one takes 0.9 us
more (CPython 3.11)."""
_AT_FIRST = 256
"""How many are kept at their first use: few programs publish to more, and they need no memory for `_seen`."""
_LONGEST = 256
"""Longer subjects are not kept, so that 32,768 of any length take 16 MB at most."""
_SEEN = 1 << 16
"""How many subjects are remembered after their first use, in two bytes each. One of 65,536 new ones is taken
for one of them."""
_AT_ONCE = 1024
"""How many of the oldest make room together, which takes 0.1 ms."""
_LINE = MAX_CONTROL_LINE - 14
"""The bytes of prefix and reply: less the op, but with two sizes of eight digits."""


class MessageEncoder:
    """Encodes messages for a server with this `info`.

    `prefixes` maps subjects to the start of their PUB, `PUB subject `. Beyond the first few, a subject is
    kept at its second use. When it is full, the oldest ones are removed.
    """

    __slots__ = ("prefixes", "max_payload", "_headers", "_seen")

    def __init__(self, info: ServerInfo) -> None:
        self.max_payload = info.max_payload
        self.prefixes: dict[str, bytes] = {}
        self._headers = info.headers
        self._seen: array[int] | None = None  # what is left of subjects after their first use

    def message(
        self, subject: str, data: Data, reply: str | None, headers: HeadersLike | None
    ) -> bytes:
        """Returns a complete message. Raises the errors of `Client.publish`."""
        if not reply:
            return self.request(subject, data, b"", headers)
        if reply.__class__ is not str:  # most are, and `isinstance` takes longer
            check_text(reply=reply)
        wire_reply = to_wire(reply)
        check_publish(wire_reply, "reply")
        return self.request(subject, data, wire_reply, headers)

    def request(self, subject: str, data: Data, reply: bytes, headers: HeadersLike | None) -> bytes:
        """Returns a complete message with a reply subject that needs no check, or without one if it is
        empty."""
        if subject.__class__ is not str:
            check_text(subject=subject)
        prefix = self.prefixes.get(subject) or self._prefix(subject)
        if reply and len(prefix) + len(reply) > _LINE:
            raise MaxControlLineError(len(prefix) + len(reply), MAX_CONTROL_LINE)
        if data.__class__ is not bytes:
            check_data(data)
            data = memoryview(data).tobytes()
        if headers:
            return self._headed(prefix, data, reply, encode_headers(headers))
        size = len(data)
        if size > self.max_payload:
            raise MaxPayloadError(size, self.max_payload)
        if reply:
            return b"".join((prefix, reply, b" %d\r\n" % size, data, b"\r\n"))
        return b"".join((prefix, b"%d\r\n" % size, data, b"\r\n"))

    def response(self, subject: bytes, data: Data, headers: HeadersLike | None) -> bytes:
        """Returns a complete message on a subject that a server sent, which needs no check and mostly does
        not repeat."""
        if data.__class__ is not bytes:
            check_data(data)
            data = memoryview(data).tobytes()
        if headers:
            return self._headed(b"PUB %b " % subject, data, b"", encode_headers(headers))
        size = len(data)
        if size > self.max_payload:
            raise MaxPayloadError(size, self.max_payload)
        return b"PUB %b %d\r\n%b\r\n" % (subject, size, data)

    def _headed(self, prefix: bytes, data: bytes, reply: bytes, block: bytes) -> bytes:
        if not self._headers:
            raise HeadersNotSupportedError
        size = len(block) + len(data)
        if size > self.max_payload:
            raise MaxPayloadError(size, self.max_payload)
        sizes = b"%d %d\r\n" % (len(block), size)
        if reply:
            sizes = b"%b %b" % (reply, sizes)
        return b"".join((b"H", prefix, sizes, block, data, b"\r\n"))

    def _prefix(self, subject: str) -> bytes:
        """Returns the start of a PUB to `subject`, and keeps it if it repeats. Raises ProtocolError for an
        invalid subject."""
        wire = to_wire(subject)
        check_publish(wire)
        if len(wire) + 5 > _LINE:
            raise MaxControlLineError(len(wire), MAX_CONTROL_LINE)
        prefix = b"PUB %b " % wire
        if len(self.prefixes) < _AT_FIRST or self._repeats(subject):
            self._keep(subject, prefix)
        return prefix

    def _repeats(self, subject: str) -> bool:
        """Returns whether `subject` was met before, and not long ago; remembers that it was met now."""
        seen = self._seen
        if seen is None:
            seen = self._seen = array("H", bytes(2 * _SEEN))
        number = hash(subject)
        at, mark = number % _SEEN, number // _SEEN & 0xFFFF
        if seen[at] == mark:
            return True
        seen[at] = mark
        return False

    def _keep(self, subject: str, prefix: bytes) -> None:
        if len(prefix) > _LONGEST:
            return
        if len(self.prefixes) >= _SUBJECTS:
            for oldest in list(self.prefixes)[:_AT_ONCE]:  # a copy: other threads may add some
                self.prefixes.pop(oldest, None)
        self.prefixes[subject] = prefix
