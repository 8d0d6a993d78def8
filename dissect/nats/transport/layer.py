"""The contract of a layer between TCP and NATS: how it is detected, and how its bytes become plaintext.

A layer has one `Transform` per direction. Transforms are pickled with the state of their connection, so they
hold plain values only: keys and counters, never an `ssl` object or a `zlib.decompressobj`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple, Protocol, runtime_checkable

from ..schema.records import Value
from ..secrets.key_log import KeyLogs
from ..types import Chunk, Direction, Item


@dataclass(slots=True)
class LayerBytes:
    """The byte counts of one direction in one layer. `carried` bytes became plaintext, `overhead` belongs to
    the layer itself (headers, handshakes), `skipped` was captured but not decoded, `missing` was not
    captured. They add up to `span`, the number of bytes that the layer below sent."""

    carried: int = 0
    overhead: int = 0
    skipped: int = 0
    missing: int = 0

    @property
    def span(self) -> int:
        """The number of bytes that the layer below sent; complete once the transform is finished."""
        return self.carried + self.overhead + self.skipped + self.missing


def rest_of(chunk: Chunk, offset: int) -> Chunk:
    """The part of a chunk from `offset` on; all of it if it begins there or later."""
    if chunk.offset >= offset:
        return chunk
    return replace(chunk, offset=offset, data=chunk.data[offset - chunk.offset :])


class Transform(Protocol):
    """One direction of one layer: items of the layer below in, items of its plaintext out.

    Chunks that come out keep the time, packet and capture of the chunk that completed them. Their offsets
    count plaintext, ascend without overlap, and begin at or after the offset of the first item that came in,
    because a layer may begin in the middle of a stream. A `Gap` in the input becomes a gap, or skipped bytes,
    or both in the output; an `Oddity` is passed on.
    """

    counts: LayerBytes

    def feed(self, item: Item) -> list[Item]:
        """Returns the plaintext that `item` completes."""

    def resume(self) -> list[Item]:
        """Returns plaintext that had to wait for the other direction, for example for a key. Called after
        each item of the other direction."""

    def finish(self) -> list[Item]:
        """Returns the remaining items when the connection is over."""

    @property
    def done(self) -> bool:
        """Whether the layer is over and passes on everything unchanged, at the same offsets. The stack drops
        a transform that is done."""

    @property
    def opaque(self) -> bool:
        """Whether the rest of the direction can neither be decoded nor show any more facts. The stack drops
        such a transform, and the rest is counted as opaque."""


@runtime_checkable
class Learns(Protocol):
    """A transform that learns facts about the connection for rows."""

    @property
    def facts(self) -> Mapping[str, Value]:
        """Values by columns of `sessions` and `flows`; None: unknown."""


@runtime_checkable
class Compresses(Protocol):
    """A transform whose layer may also compress, or may begin another layer below itself."""

    @property
    def compression(self) -> str | None:
        """The name of the compression; None: not compressed."""

    @property
    def below(self) -> Mapping[str, LayerBytes]:
        """The byte counts of a layer that began below this one in the middle of the connection, by its
        name."""


class Heads(NamedTuple):
    """The first bytes of both directions; empty if none were seen, or not the first ones.

    With `midstream`, the originator is a guess: the side that was seen first. `final`: no more bytes come.
    """

    originator: bytes
    responder: bytes
    midstream: bool = False
    final: bool = False


class LayerOptions(NamedTuple):
    """What layers may use in addition to the bytes: the secrets of the dissection, for TLS."""

    key_logs: KeyLogs = KeyLogs()


class Begins(Enum):
    """Whether a connection begins with a layer."""

    YES = auto()
    MAYBE = auto()  # more bytes are needed to tell
    NO = auto()


class LayerColumn(Enum):
    """The column of `sessions` that names a layer."""

    TRANSPORT = auto()
    COMPRESSION = auto()
    NONE = auto()


def begins_nothing(heads: Heads) -> Begins:
    """The `begins` function of a layer with which no connection begins."""
    return Begins.NO


def _never(data: bytes, frames: int = 0) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Layer:
    """How to detect a layer, and how to decode it.

    - `begins(heads)`: whether the connection begins with the layer.
    - `replaces(data, frames)`: whether `data`, after `frames` whole frames, begins the layer instead of a
      frame. Called where a frame must begin, if no operation begins with the first byte.
    - `resumes(packet)`: whether a packet in the middle of the stream certainly begins with a unit of the
      layer. If the layer `implies_nats`, this also proves NATS; if it `decrypts`, its plaintext may prove
      NATS when there are secrets.
    - `transforms(options)`: a new transform for each direction that the layer changes. None: the layer is
      known, but cannot be decoded, and its bytes are counted as opaque.
    """

    name: str
    column: LayerColumn
    begins: Callable[[Heads], Begins]
    replaces: Callable[[bytes, int], bool] = _never
    resumes: Callable[[bytes], bool] = _never
    implies_nats: bool = False
    decrypts: bool = False
    transforms: Callable[[LayerOptions], Mapping[Direction, Transform]] | None = None
