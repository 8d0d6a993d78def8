"""A made-up layer below NATS, which shows that adding one is adding a file: bytes XORed with a key.

The responder greets with `XORKEY:` and the key, in the clear. All later bytes of both sides are XORed with
the key by their place in the stream, so that what follows a gap can be read. The originator's bytes wait for
the key, which the other direction brings. Importing this file registers the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dissect.nats.options import Options
from dissect.nats.transport.decide import LAYERS
from dissect.nats.transport.layer import (
    Begins,
    Heads,
    Layer,
    LayerBytes,
    LayerColumn,
    LayerOptions,
    Transform,
    rest_of,
)
from dissect.nats.types import Chunk, Direction, Gap, Item

GREETING = b"XORKEY:"
KEY_BYTES = 8
HEAD_BYTES = len(GREETING) + KEY_BYTES


def xored(data: bytes, key: bytes, offset: int) -> bytes:
    """The bytes at `offset` of a plaintext as ciphertext, and vice versa."""
    return bytes(byte ^ key[(offset + at) % len(key)] for at, byte in enumerate(data))


@dataclass(slots=True)
class Secret:
    """What both directions know: the key, once it was seen."""

    key: bytes = b""


class XorTransform:
    """One direction. The first `head_bytes` are the greeting; offsets of the plaintext count on after it."""

    done = False
    opaque = False

    def __init__(self, secret: Secret, head_bytes: int) -> None:
        self.counts = LayerBytes()
        self._secret = secret
        self._head_bytes = head_bytes
        self._head = b""
        self._held: list[Item] = []

    def feed(self, item: Item) -> list[Item]:
        if isinstance(item, Chunk) and item.offset < self._head_bytes:
            part = item.data[: self._head_bytes - item.offset]
            self._head += part
            self.counts.overhead += len(part)
            if len(self._head) == self._head_bytes:
                self._secret.key = self._head[len(GREETING) :]
            if len(part) == len(item.data):
                return []
            item = rest_of(item, self._head_bytes)
        self._held.append(item)
        return self.resume()

    def resume(self) -> list[Item]:
        if not self._secret.key:
            return []
        held, self._held = self._held, []
        return [self._plain(item) for item in held]

    def finish(self) -> list[Item]:
        for item in self._held:
            if isinstance(item, Chunk):
                self.counts.skipped += len(item.data)
            elif isinstance(item, Gap):
                self.counts.missing += item.length
        self._held = []
        return []

    def _plain(self, item: Item) -> Item:
        if isinstance(item, Chunk):
            self.counts.carried += len(item.data)
            return replace(item, data=xored(item.data, self._secret.key, item.offset))
        if isinstance(item, Gap):
            self.counts.missing += item.length
        return item


def _begins(heads: Heads) -> Begins:
    head = heads.responder
    if head[: len(GREETING)] != GREETING[: len(head)]:
        return Begins.NO
    if len(head) >= len(GREETING):
        return Begins.YES
    return Begins.MAYBE if head else Begins.NO


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    secret = Secret()
    return {
        Direction.ORIGINATOR: XorTransform(secret, 0),
        Direction.RESPONDER: XorTransform(secret, HEAD_BYTES),
    }


LAYER = Layer("xor", LayerColumn.TRANSPORT, _begins, transforms=_transforms)
if LAYER.name not in [layer.name for layer in LAYERS]:
    LAYERS.append(LAYER)


class XorOptions(Options):
    """Options that bring this module, and so the layer, into each process that unpickles them."""
