"""WebSocket: an HTTP upgrade, then frames that carry NATS (server/websocket.go, RFC 6455, RFC 7692).

The payloads of one direction's data frames form one byte stream, whatever their boundaries. A leafnode that
compresses without permessage-deflate puts S2 below its WebSocket frames, after the first frame of each side.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from natsync.protocol import ProtocolError
from natsync.protocol.websocket import (
    WINDOW_BYTES,
    FrameHead,
    Opcode,
    apply_mask,
    inflate,
    read_frame_head,
)

from ...schema.anomalies import Anomaly
from ...schema.records import Value
from ...types import Chunk, Direction, Gap, Item, Oddity
from ..expansion import Expansion
from ..layer import Begins, Heads, Layer, LayerBytes, LayerColumn, LayerOptions, Transform
from ..plaintext import Plaintext
from ..s2.layer import IDENTIFIER, S2Transform
from .http_upgrade import (
    HEAD_BYTES,
    HEAD_END,
    SWITCHING,
    UPGRADE,
    request_facts,
    request_secrets,
    response_facts,
)

_EXTENSIONS = re.compile(rb"\r\nSec-WebSocket-Extensions:([^\r]*)", re.IGNORECASE)
_NATS = re.compile(rb"(?:H?MSG|H?PUB|SUB|UNSUB|INFO|LMSG|LS[+-]|-ERR) |(?:PING|PONG|\+OK)\r\n")
_S2_BYTE = IDENTIFIER[0]  # no frame begins with it
_MOST_MESSAGE_BYTES = 64 << 20  # server/const.go: MAX_PAYLOAD_MAX_SIZE
_BEGINNINGS = (b"GET ", SWITCHING)
_NO_STATUS = 1005
_NORMAL_CLOSE = frozenset((1000, 1001, _NO_STATUS))


class _State(Enum):
    HTTP = auto()  # the request or the response
    FRAMES = auto()
    SEEKING = auto()  # after a gap or an error: a packet that certainly begins with a frame


@dataclass(slots=True)
class Upgrade:
    """The HTTP upgrade, and what both sides agreed on in it. `keeps_context` has the directions in which
    compressed messages refer to earlier ones."""

    request: bytes = b""
    response: bytes = b""
    deflates: bool = False
    keeps_context: frozenset[Direction] = frozenset()

    def read(self, direction: Direction, head: bytes) -> None:
        """Reads the request or the response."""
        if direction is Direction.ORIGINATOR:
            self.request = head
            return
        self.response = head
        found = _EXTENSIONS.search(head)
        extension = found[1].lower() if found else b""
        self.deflates = b"permessage-deflate" in extension
        names = {Direction.ORIGINATOR: b"client", Direction.RESPONDER: b"server"}
        self.keeps_context = frozenset(
            way for way, name in names.items() if name + b"_no_context_takeover" not in extension
        )


class WebSocketTransform:
    """Unpacks the frames of one direction. Bytes are skipped between a gap that hides a frame's head and the
    next packet that certainly begins with a frame."""

    done = False
    opaque = False

    def __init__(self, direction: Direction, upgrade: Upgrade) -> None:
        self.upgrade = upgrade
        self.s2: S2Transform | None = None
        self._plain = Plaintext()
        self.counts = self._plain.counts
        self._direction = direction
        self._state = _State.HTTP
        self._held = b""  # a head that is not complete
        # A compressed frame that is a whole message: its pieces so far, the bytes it lacks, and its head.
        self._pieces: list[bytes] = []
        self._lacks = 0
        self._whole: FrameHead | None = None
        self._frame: FrameHead | None = None
        self._left = 0  # bytes of its payload that are still to come
        self._control = b""  # payload of a control frame
        self._message: bytearray | None = None  # the compressed message in progress
        self._is_broken = False  # whether the compressed message in progress has lost bytes
        self._window: bytes | None = b""  # None: lost
        self._expansion = Expansion()
        self._is_exhausted = False  # whether the stream has expanded too much

    @property
    def facts(self) -> Mapping[str, Value]:
        """The facts that the upgrade shows."""
        return {**request_facts(self.upgrade.request), **response_facts(self.upgrade.response)}

    @property
    def compression(self) -> str | None:
        """The compression of this layer, or of a layer that began below it."""
        if self.s2:
            return "s2"
        return "deflate" if self.upgrade.deflates else None

    @property
    def below(self) -> Mapping[str, LayerBytes]:
        """The byte counts of S2, if it began below the frames."""
        return {"s2": self.s2.counts} if self.s2 else {}

    def feed(self, item: Item) -> list[Item]:
        """Returns the plaintext that `item` contains or completes."""
        if self.s2:
            for each in self.s2.feed(item):
                self._feed(each)
        elif isinstance(item, Chunk) and len(item.data) < self._lacks:  # most of a large message
            self._plain.take(item)
            self._pieces.append(item.data)
            self._lacks -= len(item.data)
        else:
            self._feed(item)
        return self._plain.hand_on()

    def resume(self) -> list[Item]:
        """Returns nothing: neither direction waits for the other."""
        return []

    def finish(self) -> list[Item]:
        """Counts an incomplete head, message or control frame at the end as skipped."""
        for each in self.s2.finish() if self.s2 else ():
            self._feed(each)
        self._begin_incomplete()
        self._plain.skip(len(self._held) + len(self._message or b"") + len(self._control))
        self._held, self._message, self._control = b"", None, b""
        return self._plain.finish()

    def _feed(self, item: Item) -> None:
        if isinstance(item, Oddity):
            self._plain.pass_on(item)
            return
        self._plain.take(item)
        if isinstance(item, Gap):
            self._take_gap(item.length)
            return
        data = item.data
        if self._state is _State.HTTP:
            data = self._take_http(data)
        if data and self._state is _State.SEEKING:
            if not (_resumes(data) or not self.s2 and data.startswith(IDENTIFIER)):
                self._plain.skip(len(data))
                return
            self._state = _State.FRAMES
        if data:
            self._take_frames(data)

    def _take_http(self, data: bytes) -> bytes:
        """Reads the head of the request or response; returns what follows it."""
        held = self._held + data
        end = held.find(HEAD_END) + len(HEAD_END)
        begins = any(held[: len(start)] == start[: len(held)] for start in _BEGINNINGS)
        if not begins or end < len(HEAD_END) and len(held) > HEAD_BYTES:
            self._plain.skip(len(self._held))  # joined in the middle
            self._held, self._state = b"", _State.SEEKING
            return data
        if end < len(HEAD_END):
            self._held = held
            return b""
        self.upgrade.read(self._direction, held[:end])
        self._plain.count_overhead(end)
        self._held, self._state = b"", _State.FRAMES
        return held[end:]

    def _take_frames(self, data: bytes) -> None:
        at = 0
        if self._lacks:
            self._pieces.append(data)
            self._lacks -= len(data)
            if self._lacks > 0:
                return
            assert self._whole
            data, self._pieces, self._lacks = b"".join(self._pieces), [], 0
            at = self._take_whole(self._whole, data, 0)
        elif self._held:
            data, self._held = self._held + data, b""
        size = len(data)
        while at < size:
            if self._frame:
                piece = data[at : at + self._left]
                at += len(piece)
                self._take_payload(self._frame, piece)
                continue
            if data[at] == _S2_BYTE and IDENTIFIER.startswith(data[at : at + len(IDENTIFIER)]):
                self._begin_s2(data[at:])
                return
            try:
                head = read_frame_head(data, at)
            except ProtocolError as error:
                self._plain.note(Anomaly.WEBSOCKET_ERROR, error.reason)
                self._plain.skip(size - at)
                self._state = _State.SEEKING
                return
            if head is None:
                self._held = data[at:]
                return
            lacks = at + head.size + head.length - size
            whole = head.compressed and head.final and self._message is None
            if whole and lacks <= 0:  # nearly all compressed frames
                at = self._take_whole(head, data, at)
            elif whole and head.length <= _MOST_MESSAGE_BYTES:
                self._whole, self._pieces, self._lacks = head, [data[at:]], lacks
                return
            else:
                at += head.size
                self._begin_frame(head)

    def _take_whole(self, head: FrameHead, data: bytes, at: int) -> int:
        """Takes a compressed frame that is a whole message; returns where it ends."""
        end = at + head.size + head.length
        self._plain.count_overhead(head.size)
        self._end_message(apply_mask(data[at + head.size : end], head.mask))
        return end

    def _begin_incomplete(self) -> None:
        """Takes the pieces of a whole message of which the rest, or a part of it, is missing."""
        if self._lacks and self._whole:
            data, self._pieces, self._lacks = b"".join(self._pieces), [], 0
            self._begin_frame(self._whole)
            self._take_payload(self._whole, data[self._whole.size :])

    def _begin_frame(self, head: FrameHead) -> None:
        self._plain.count_overhead(head.size)
        self._frame, self._left = head, head.length
        if head.compressed:
            self._plain.skip(len(self._message or b""))  # of a message without an end
            self._message, self._is_broken = bytearray(), False
        if not head.length:
            self._end_frame(head)

    def _take_payload(self, head: FrameHead, piece: bytes) -> None:
        plain = apply_mask(piece, head.mask, head.length - self._left)
        self._left -= len(piece)
        if head.opcode.is_control:
            self._control += plain
        elif self._message is None:
            self._plain.carry(plain, len(piece))
        elif self._is_broken:
            self._plain.skip(len(piece))
        else:
            self._message += plain
            if len(self._message) > _MOST_MESSAGE_BYTES:
                self._break("a compressed message of more than 64 MiB")
        if not self._left:
            self._end_frame(head)

    def _end_frame(self, head: FrameHead) -> None:
        self._frame = None
        if head.opcode.is_control:
            self._end_control(head.opcode)
        elif head.final and self._message is not None:
            message, self._message = bytes(self._message), None
            if not self._is_broken:
                self._end_message(message)
            self._is_broken = False

    def _end_control(self, opcode: Opcode) -> None:
        payload, self._control = self._control, b""
        self._plain.count_overhead(len(payload))
        status = int.from_bytes(payload[:2], "big") if len(payload) > 1 else _NO_STATUS
        if opcode is Opcode.CLOSE and status not in _NORMAL_CLOSE:
            reason = payload[2:].decode("utf-8", "replace")
            text = request_secrets(self.upgrade.request).masked(f"{status} {reason}".strip())
            self._plain.note(Anomaly.WEBSOCKET_CLOSE, text)

    def _end_message(self, message: bytes) -> None:
        """Inflates a whole message."""
        kept = self.upgrade.keeps_context  # no server keeps it
        takes_over = bool(kept) and self._direction in kept
        if self._is_exhausted or takes_over and self._window is None:
            self._plain.skip(len(message))
            return
        window = (self._window or b"") if takes_over else b""
        try:
            plain = inflate(message, _MOST_MESSAGE_BYTES, window)
        except ProtocolError as error:
            self._plain.skip(len(message))
            self._break(error.reason)
            return
        if not self._expansion.add(len(message), plain):
            self._is_exhausted = True
            self._plain.skip(len(message))
            self._break("the rest is skipped: it expands too much")
            return
        if takes_over:
            self._window = (window + plain)[-WINDOW_BYTES:]
        self._plain.carry(plain, len(message))

    def _break(self, reason: str) -> None:
        """Gives up a compressed message, and with it the context of the next ones."""
        self._plain.note(Anomaly.DECOMPRESSION_ERROR, reason)
        self._drop_message()

    def _drop_message(self) -> None:
        if self._message is not None:
            self._plain.skip(len(self._message))
            self._message, self._is_broken = bytearray(), True
        self._window = None

    def _begin_s2(self, data: bytes) -> None:
        """Begins S2 below the frames. The offsets of its plaintext are not used."""
        if self.s2:  # this is already the plaintext of S2
            self._plain.skip(len(data))
            self._state = _State.SEEKING
            return
        self.s2 = S2Transform()
        latest = self._plain.latest
        for each in self.s2.feed(replace(latest, data=data)):
            self._feed(each)

    def _take_gap(self, length: int) -> None:
        self._begin_incomplete()
        inside = min(length, self._left) if self._frame else 0
        if self._frame and inside:
            self._left -= inside
            if not self._frame.opcode.is_control:
                if self._message is not None:  # only compressed messages are in a context
                    self._drop_message()
                self._plain.lose(inside)
            if not self._left:
                self._end_frame(self._frame)
        if length > inside:
            self._plain.skip(len(self._held))
            self._drop_message()
            self._held, self._frame, self._message = b"", None, None
            self._state = _State.SEEKING
            self._plain.lose(length - inside)


def _begins(heads: Heads) -> Begins:
    request, response = heads.originator, heads.responder
    if not request and HEAD_END in response:  # the request was not captured
        known = response.startswith(SWITCHING) and UPGRADE.search(response)
        return Begins.YES if known else Begins.NO
    if not request.startswith(b"GET "):
        return Begins.NO
    incomplete = HEAD_END not in request and len(request) < HEAD_BYTES
    if (incomplete or len(response) < len(SWITCHING)) and not heads.final:
        return Begins.MAYBE
    if UPGRADE.search(request) and response.startswith(SWITCHING):
        return Begins.YES
    return Begins.NO


def _resumes(packet: bytes) -> bool:
    """Whether a packet certainly begins with a frame: the payload begins with a NATS operation, and the frame
    ends with the packet, or after it, or where another frame begins."""
    try:
        head = read_frame_head(packet)
        if head is None or head.opcode not in (Opcode.BINARY, Opcode.TEXT):
            return False
        end = head.size + head.length
        if end < len(packet) and read_frame_head(packet, end) is None:
            return False
    except ProtocolError:
        return False
    payload = apply_mask(packet[head.size : min(end, head.size + 64)], head.mask)
    if head.compressed:
        try:
            payload = zlib.decompressobj(-15).decompress(payload, 16)
        except zlib.error:
            return False
    return _NATS.match(payload) is not None


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    upgrade = Upgrade()
    return {direction: WebSocketTransform(direction, upgrade) for direction in Direction}


LAYER = Layer(
    "websocket",
    LayerColumn.TRANSPORT,
    _begins,
    resumes=_resumes,
    implies_nats=True,
    transforms=_transforms,
)
