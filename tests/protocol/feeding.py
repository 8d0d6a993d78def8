"""What the decoder makes of some bytes, as a value: how tests compare one way of feeding with another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from natsync.protocol import Context, Decoder, Frame, Limits, Message, ProtocolError

Place = tuple[int, int]
"""Offset and total size of a frame."""
Refusal = tuple[str, int | None, bytes]
"""Reason, offset and snippet of a ProtocolError."""


@dataclass
class Reading:
    """Everything a decoder says about a stream; equal readings cannot be told apart by its user."""

    frames: list[Frame] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)
    refusal: Refusal | None = None
    end: int = 0

    def add(self, frames: list[Frame]) -> None:
        self.frames += frames
        self.places += [(frame.offset, frame.total_bytes) for frame in frames]
        self.sizes += [sizes(frame) for frame in frames]

    def tiles(self, start: int = 0) -> bool:
        """Whether each frame begins where the one before it ended, and `end` is that of the last."""
        for offset, total in self.places:
            if offset != start or total <= 0:
                return False
            start += total
        return start == self.end


def sizes(frame: Frame) -> tuple[int, int, int]:
    """Header, payload and missing bytes; zeros for what has no body."""
    if isinstance(frame, Message):
        return frame.header_bytes, frame.payload_bytes, frame.missing_bytes
    return 0, 0, 0


def decoder_of(
    context: Context, limits: Limits = Limits(), *, payloads: bool = True, offset: int = 0
) -> Decoder:
    decoder = Decoder(context.sender, context.kind, limits=limits, payloads=payloads, offset=offset)
    decoder.learn(dedicated=context.dedicated, lnocu=context.lnocu)
    return decoder


def drain(decoder: Decoder) -> Iterator[list[Frame]]:
    """Reads until there is nothing more to read."""
    while frames := decoder.read():
        yield frames


def read(
    pieces: Iterable[bytes],
    context: Context,
    limits: Limits = Limits(),
    *,
    payloads: bool = True,
    offset: int = 0,
) -> Reading:
    """What becomes of `pieces`, up to their end or the first error."""
    decoder = decoder_of(context, limits, payloads=payloads, offset=offset)
    reading = Reading()
    try:
        for piece in pieces:
            decoder.feed(piece)
            for frames in drain(decoder):
                reading.add(frames)
    except ProtocolError as error:
        reading.refusal = (error.reason, error.offset, error.snippet)
    reading.end = decoder.offset
    return reading


def by_bytes(wire: bytes) -> list[bytes]:
    return [wire[at : at + 1] for at in range(len(wire))]


def cut(wire: bytes, places: Iterable[int]) -> list[bytes]:
    """`wire` in pieces that end at `places`; empty pieces where places repeat."""
    edges = [0, *sorted(min(place, len(wire)) for place in places), len(wire)]
    return [wire[start:end] for start, end in zip(edges, edges[1:])]


def label(context: Context) -> str:
    """A context in a few words, for the names of tests."""
    words = [context.kind.value if context.kind else "unknown", context.sender.value]
    words += [word for word in ("dedicated", "lnocu") if getattr(context, word)]
    return " ".join(words)


def shown(wire: bytes) -> str:
    """Bytes for the name of a test."""
    text = repr(wire)[2:-1].replace("\\r\\n", "<CRLF>").replace("\\", "%")
    return text if len(text) < 70 else text[:66] + "..."
