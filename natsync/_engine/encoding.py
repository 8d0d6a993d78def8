"""The encoding of messages, with all checks, in the call that publishes them.

A subject is checked once: the start of its PUB is kept. Any thread may call anything: single dictionary
operations, which are atomic, take the place of a lock.
"""

from __future__ import annotations

from .._checks import check_data, check_text
from ..errors import HeadersNotSupportedError, MaxControlLineError, MaxPayloadError
from ..headers import HeadersLike, encode_headers, to_wire
from ..message import Data
from ..options import MAX_CONTROL_LINE
from ..protocol import ServerInfo, check_publish

__all__ = ["MessageEncoder"]

_SUBJECTS = 32_768
"""How many subjects are kept: at most 7 MB with subjects of 30 bytes. To check and encode another one takes
1 us more (CPython 3.11)."""
_LINE = (
    MAX_CONTROL_LINE - 14
)  # of prefix and reply: less the op, but with two sizes of eight digits
_AT_ONCE = 1024  # so many of the oldest make room together: 0.1 ms


class MessageEncoder:
    """Encodes messages for a server with this `info`.

    `prefixes` maps subjects to the start of their PUB, `PUB subject `. When it is full, the oldest ones
    are removed.
    """

    __slots__ = ("prefixes", "max_payload", "_headers")

    def __init__(self, info: ServerInfo) -> None:
        self.max_payload = info.max_payload
        self.prefixes: dict[str, bytes] = {}
        self._headers = info.headers

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
        """Returns the start of a PUB to `subject` and keeps it. Raises ProtocolError for an invalid
        subject."""
        wire = to_wire(subject)
        check_publish(wire)
        if len(wire) + 5 > _LINE:
            raise MaxControlLineError(len(wire), MAX_CONTROL_LINE)
        if len(self.prefixes) >= _SUBJECTS:
            for oldest in list(self.prefixes)[:_AT_ONCE]:  # a copy: other threads may add some
                self.prefixes.pop(oldest, None)
        self.prefixes[subject] = prefix = b"PUB %b " % wire
        return prefix
