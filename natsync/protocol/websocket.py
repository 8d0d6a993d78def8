"""WebSocket frames and permessage-deflate (RFC 6455, RFC 7692), as NATS connections use them.

The payloads of all data frames of one direction form one NATS byte stream; its division into frames and
messages has no meaning (server/websocket.go). Errors are `ProtocolError`.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from enum import IntEnum
from typing import NamedTuple

from .errors import ProtocolError

__all__ = [
    "FrameHead",
    "FrameReader",
    "Opcode",
    "accept_key",
    "apply_mask",
    "build_frame",
    "deflate",
    "inflate",
    "read_frame_head",
]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL, _COMPRESSED, _RESERVED, _CONTROL, _MASKED = 0x80, 0x40, 0x30, 0x08, 0x80
_FLAGS = _FINAL | _COMPRESSED
_BAD_CONTROL = "a WebSocket control frame that is too long, fragmented or compressed"
_TAIL = b"\0\0\xff\xff"
"""The end of a DEFLATE block with a sync flush, which senders leave out (RFC 7692, 7.2.1)."""

WINDOW_BYTES = 32 << 10


class Opcode(IntEnum):
    """The opcode of a frame (RFC 6455, 5.2). Servers send data as BINARY, and accept TEXT as well."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10

    @property
    def is_control(self) -> bool:
        """Whether the frame is a control frame, which may stand between the fragments of a message."""
        return self >= Opcode.CLOSE


class FrameHead(NamedTuple):
    """The head of a frame: `size` bytes, which are followed by `length` bytes of payload. `mask` is empty or
    four bytes; `compressed` is the bit RSV1, which the first frame of a compressed message has."""

    size: int
    opcode: Opcode
    final: bool
    compressed: bool
    mask: bytes
    length: int


def _first_byte(first: int) -> tuple[Opcode, bool, bool] | str:
    """The opcode of a frame that begins with the byte `first`, and whether it is final and compressed; or the
    reason why no frame begins with it."""
    opcode = first & 0x0F
    if opcode not in (each.value for each in Opcode):
        return f"unknown WebSocket opcode {opcode}"
    if first & _RESERVED:
        return "a WebSocket frame with reserved bits"
    if opcode & _CONTROL and first & _FLAGS != _FINAL:
        return _BAD_CONTROL
    return Opcode(opcode), first >= _FINAL, first & _COMPRESSED != 0


_FIRST_BYTES = tuple(map(_first_byte, range(256)))
_new_head = tuple.__new__  # takes half the time of calling the class


def read_frame_head(data: bytes | bytearray, at: int = 0) -> FrameHead | None:
    """The frame head at `at`, or None if more bytes are needed. Raises ProtocolError."""
    held = len(data) - at
    if held < 2:
        return None
    first, second = _FIRST_BYTES[data[at]], data[at + 1]
    if isinstance(first, str):
        raise ProtocolError(first)
    opcode, final, compressed = first
    length, size = second & 0x7F, 2
    if length >= 126:
        if opcode >= Opcode.CLOSE:
            raise ProtocolError(_BAD_CONTROL)
        size = 4 if length == 126 else 10
        if held < size:
            return None
        if length == 126:
            length = data[at + 2] << 8 | data[at + 3]
        else:
            length = int.from_bytes(data[at + 2 : at + size], "big")
            if length >> 63:
                raise ProtocolError("a WebSocket frame whose length is negative")
    mask = b""
    if second & _MASKED:
        if held < size + 4:
            return None
        mask = bytes(data[at + size : at + size + 4])
        size += 4
    return _new_head(FrameHead, (size, opcode, final, compressed, mask, length))


class FrameReader:
    """Reads the frames of one direction: `feed` it bytes in pieces of any size, take payloads with `read`.

    The payload of a data frame comes in pieces, as they arrive: a server sends everything that waits for a
    client as one frame, of any size (server/websocket.go: wsCollapsePtoNB). Each compressed message is
    inflated separately, because servers never keep the context of the message before; an inflated piece is at
    most 1,032 times as long as the bytes that arrived.
    """

    def __init__(self) -> None:
        self._held = b""
        self._at = 0  # the index of the next byte in `_held`
        self._head: FrameHead | None = None  # the head of the data frame in progress
        self._taken = 0  # the number of bytes of its payload that were taken
        self._inflator = zlib.decompressobj(-15)
        self._is_compressed = False  # whether the message in progress is compressed

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        rest = self._held[self._at :]
        self._held, self._at = rest + data if rest else data, 0

    def read(self) -> tuple[Opcode, bytes] | None:
        """The opcode and payload of the next control frame or piece of a data frame, or None if more bytes
        are needed. Raises ProtocolError."""
        while True:
            head = self._head
            if head is None:
                head = read_frame_head(self._held, self._at)
                if head is None:
                    return None
                if head.opcode.is_control:
                    return self._control(head)
                self._begin(head)
            payload = self._piece(head)
            if payload:
                return head.opcode, payload
            if self._head is not None:
                return None

    def _control(self, head: FrameHead) -> tuple[Opcode, bytes] | None:
        begin = self._at + head.size
        end = begin + head.length
        if len(self._held) < end:
            return None
        self._at = end
        return head.opcode, apply_mask(self._held[begin:end], head.mask)

    def _begin(self, head: FrameHead) -> None:
        self._head, self._taken = head, 0
        self._at += head.size
        if head.opcode is not Opcode.CONTINUATION:
            self._is_compressed = head.compressed
            if head.compressed:
                self._inflator = zlib.decompressobj(-15)

    def _piece(self, head: FrameHead) -> bytes:
        """The next piece of the payload: all that has arrived of it, which may be nothing."""
        data = self._held[self._at : self._at + head.length - self._taken]
        payload = apply_mask(data, head.mask, self._taken)
        self._at += len(data)
        self._taken += len(data)
        is_last = self._taken == head.length
        if is_last:
            self._head = None
        if not self._is_compressed:
            return payload
        try:
            return self._inflator.decompress(payload + _TAIL if is_last and head.final else payload)
        except zlib.error as error:
            raise _not_inflated(error) from None


def apply_mask(data: bytes, mask: bytes, offset: int = 0) -> bytes:
    """Masks or unmasks `data`, which begins at `offset` of a frame's payload. `mask` may be empty."""
    if not mask or not data:
        return data
    start = offset & 3
    size = len(data)
    key = (mask[start:] + mask[:start]) * (size // 4 + 1)
    # An XOR of two large numbers is 100 times as fast as one byte by byte.
    number = int.from_bytes(data, "little") ^ int.from_bytes(key[:size], "little")
    return number.to_bytes(size, "little")


def build_frame(
    opcode: Opcode, payload: bytes, mask: bytes = b"", compressed: bool = False
) -> bytes:
    """A whole frame. Clients must give a `mask` of four random bytes (RFC 6455, 5.3); servers give none."""
    size = len(payload)
    masked = _MASKED if mask else 0
    first = _FINAL | (_COMPRESSED if compressed else 0) | opcode
    if size < 126:
        head = bytes((first, masked | size))
    elif size < 1 << 16:
        head = bytes((first, masked | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, masked | 127)) + size.to_bytes(8, "big")
    return b"".join((head, mask, apply_mask(payload, mask)))


def accept_key(key: str) -> str:
    """The `Sec-WebSocket-Accept` that answers a `Sec-WebSocket-Key` (RFC 6455, 4.2.2)."""
    digest = hashlib.sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def deflate(message: bytes) -> bytes:
    """The payload of a compressed message, without context takeover."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    data = compressor.compress(message) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return data[: -len(_TAIL)]


def inflate(message: bytes, limit: int, window: bytes = b"") -> bytes:
    """The plaintext of a compressed message, at most `limit` bytes. `window` is the plaintext before the
    message, if the sender takes over its context. Raises ProtocolError."""
    inflator = zlib.decompressobj(-15, zdict=window) if window else zlib.decompressobj(-15)
    try:
        plain = inflator.decompress(message + _TAIL, limit + 1)
    except zlib.error as error:
        raise _not_inflated(error) from None
    if len(plain) > limit:
        raise ProtocolError(f"a WebSocket message that inflates to more than {limit} bytes")
    return plain


def _not_inflated(error: zlib.error) -> ProtocolError:
    return ProtocolError(f"a WebSocket message that cannot be inflated: {error}")
