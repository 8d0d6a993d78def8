"""Messages as bytes, checked; what they begin with is known where one like it was met before.

Known for as long as the server's INFO says the same. Any thread may call anything; single dictionary
operations, which are atomic, take the place of a lock.
"""

from __future__ import annotations

from .._checks import check_data, check_text
from ..errors import HeadersNotSupportedError, MaxPayloadError
from ..message import Data, HeadersLike, encode_headers, to_text, to_wire
from ..protocol import ServerInfo, encode_publish

__all__ = ["MessageEncoder"]

_MOST = 4096  # of each; then they are learned anew


class MessageEncoder:
    """Of messages to a server that says `info`. Known are those without headers, by subject and size of the
    payload, which is bytes."""

    __slots__ = ("get", "_info", "_plain", "_asks")

    def __init__(self, info: ServerInfo) -> None:
        self._info = info
        self._plain: dict[tuple[str, int], bytes] = {}
        self._asks: dict[tuple[str, int], tuple[bytes, bytes]] = {}
        self.get = self._plain.get
        """All before the payload of a message that wants no reply, if that is known."""

    def message(
        self, subject: str, data: Data, reply: str | None, headers: HeadersLike | None
    ) -> bytes:
        """A whole message. Raises what `Client.publish` does for one that cannot be sent."""
        block = self._block(headers) if headers else b""
        if data.__class__ is not bytes:  # a quick look: most are
            check_data(data)
        try:
            wire = encode_publish(to_wire(subject), to_wire(reply) if reply else b"", block, data)
        except AttributeError:
            check_text(subject=subject, reply="" if reply is None else reply)
            raise
        limit = self._info.max_payload
        if len(wire) > limit:
            size = len(block) + memoryview(data).nbytes
            if size > limit:
                raise MaxPayloadError(size, limit)
        elif data.__class__ is bytes and not (reply or block):
            self._learn(subject, wire, len(data))
        return wire

    def ask(self, subject: str, data: Data, reply: bytes, headers: HeadersLike | None) -> bytes:
        """A whole message that wants a reply."""
        plain = headers is None and data.__class__ is bytes and subject.__class__ is str
        known = self._asks.get((subject, len(data))) if plain else None
        if known:
            return b"".join((known[0], reply, known[1], data, b"\r\n"))
        wire = self.message(subject, data, to_text(reply), headers)
        if plain:
            self._learn_ask(subject, reply, wire, len(data))
        return wire

    def _learn(self, subject: str, wire: bytes, size: int) -> None:
        if len(self._plain) >= _MOST:
            self._plain.clear()
        self._plain[subject, size] = wire[: -size - 2]

    def _learn_ask(self, subject: str, reply: bytes, wire: bytes, size: int) -> None:
        if len(self._asks) >= _MOST:
            self._asks.clear()
        head = wire[: -size - 2]
        end = head.rindex(b" ")
        self._asks[subject, size] = head[: end - len(reply)], head[end:]

    def _block(self, headers: HeadersLike) -> bytes:
        if not self._info.headers:
            raise HeadersNotSupportedError
        return encode_headers(headers)
