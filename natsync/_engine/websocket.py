"""NATS over WebSocket: a transport that puts bytes into frames (RFC 6455, RFC 7692).

The server behaves as in server/websocket.go: clients have to mask their frames, messages may be cut
anywhere, and compressed ones never refer to each other.
"""

from __future__ import annotations

import errno
import os

from ..protocol import ProtocolError
from ..protocol.websocket import FrameReader, Opcode, build_frame, deflate
from ..tls import TLSState
from .transport import SystemCalls, Transport

__all__ = ["WebSocketTransport"]

_FRAME_BYTES = 64 << 10  # the most that is sent in one frame
_LEAST_COMPRESSED = 64  # frames up to this size stay plain, as in server/websocket.go


class WebSocketTransport(Transport):
    """A transport of WebSocket frames on another transport. `rest` is the result of `Upgrade.feed`."""

    def __init__(self, inner: Transport, compresses: bool, rest: bytes) -> None:
        self.wants_write = False
        self._inner = inner
        self._compresses = compresses
        self._most_inflated = 0  # the most bytes to compress in one frame
        self._reader = FrameReader()
        self._reader.feed(rest)
        self._unsent = b""  # the rest of the frame that is being sent
        self._covers = 0  # the number of the caller's bytes in that frame
        self._is_begun = False  # whether the socket has taken some of them
        self._pong = b""  # a frame to be sent after it
        self._ended = False

    @property
    def tls_state(self) -> TLSState | None:
        return self._inner.tls_state

    @property
    def local_address(self) -> str | None:
        return self._inner.local_address

    @property
    def remote_address(self) -> str | None:
        return self._inner.remote_address

    def fileno(self) -> int:
        return self._inner.fileno()

    def read_rest(self) -> bytes:
        """Returns the payload that came with the upgrade, without reading more."""
        return self._payloads() or b""

    def read(self, size: int) -> bytes | None:
        """Returns the payload that has arrived; None if none has, empty bytes at the end of the stream."""
        if self._unsent or self._pong:
            self._send()
        data = self._inner.read(max(size, _FRAME_BYTES))
        self._note_wants()
        if data is None or self._ended:
            return b"" if self._ended else None
        if not data:
            return b""
        self._reader.feed(data)
        found = self._payloads()
        return b"" if self._ended and not found else found

    @property
    def system_calls(self) -> SystemCalls | None:
        """None, since frames have to be made."""
        return None

    @property
    def begun(self) -> int:
        """The number of bytes in a frame of which the socket has taken some: a server processes what has
        arrived of a frame (nats-server 2.9 to 2.12)."""
        return self._covers if self._is_begun else 0

    def limit(self, max_payload: int) -> None:
        """Notes how far a compressed frame may inflate: a server ends the connection after one that inflates
        to more than its `max_payload` (nats-server: server/websocket.go, decompress). Nothing is compressed
        before the first call."""
        self._most_inflated = min(_FRAME_BYTES, max_payload) if self._compresses else 0

    def write(self, data: memoryview) -> int:
        """Sends the first bytes of `data` in a frame; returns their number once the frame is sent, else 0.

        After a return of 0, the next call must begin with the same bytes: they are in a frame already.
        """
        if not self._covers:
            compresses = self._most_inflated > _LEAST_COMPRESSED
            piece = bytes(data[: self._most_inflated if compresses else _FRAME_BYTES])
            compressed = compresses and len(piece) > _LEAST_COMPRESSED
            payload = deflate(piece) if compressed else piece
            # After the rest of a pong, if one is being sent.
            self._unsent += build_frame(Opcode.BINARY, payload, os.urandom(4), compressed)
            self._covers = len(piece)
        if self._unsent:  # else a read has sent the rest of the frame
            self._send()
        if self._unsent:
            return 0
        covers, self._covers, self._is_begun = self._covers, 0, False
        return covers

    def finish_writing(self) -> None:
        """Tells the server that nothing more comes."""
        self._inner.finish_writing()

    def part(self, timeout: float) -> None:
        """As `Transport.part`."""
        self._inner.part(timeout)

    def close(self) -> None:
        """Sends a close frame (status 1000), if the socket takes it at once, and closes the connection.

        A forked process sends nothing, because its parent goes on using the connection.
        """
        if not self._unsent and self._inner.is_own:
            try:
                payload = (1000).to_bytes(2, "big")
                self._inner.write(memoryview(build_frame(Opcode.CLOSE, payload, os.urandom(4))))
            except OSError:
                pass  # it is gone
        self._inner.close()

    def _send(self) -> None:
        """Sends the rest of a frame, or else a pong, as far as the socket takes it now."""
        if not self._unsent:
            self._unsent, self._pong = self._pong, b""
        while self._unsent:
            sent = self._inner.write(memoryview(self._unsent))
            if not sent:
                break
            self._unsent = self._unsent[sent:]
            self._is_begun = bool(self._covers)
        self._note_wants()

    def _note_wants(self) -> None:
        self.wants_write = self._inner.wants_write or bool(self._unsent or self._pong)

    def _payloads(self) -> bytes | None:
        """Returns the payloads of the data frames that have arrived; None if there are none."""
        parts = []
        try:
            while (frame := self._reader.read()) is not None:
                opcode, payload = frame
                if opcode is Opcode.PING:
                    self._pong = build_frame(Opcode.PONG, payload, os.urandom(4))
                elif opcode is Opcode.CLOSE:
                    self._ended = True
                elif opcode is not Opcode.PONG:
                    parts.append(payload)
        except ProtocolError as error:
            raise OSError(errno.EPROTO, error.reason) from error
        self._note_wants()
        return b"".join(parts) or None
