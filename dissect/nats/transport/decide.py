"""Decides what a connection carries: NATS, a layer with more inside, or another protocol.

This is the one list of such decisions. Ports prove nothing. The functions change nothing: `framing` asks
them about each item above the layers that were found before, and acts. The first decision that applies
counts.

Nothing is known of the connection yet (`decide`):

1. The first bytes of this direction may be missing in the capture.
   a. The packet begins with a unit of a layer of which one is enough: WebSocket or S2, which only NATS has
      in this form, or TLS if there are secrets, because the plaintext may prove NATS. The layer begins here.
   b. The packet begins with a message of HTTP, outside of a payload of possible frames: no NATS.
2. The first bytes of both directions begin a layer, in the order of `LAYERS`:
   a. a PROXY header, version 1 or 2;
   b. a CONNECT of HTTP to a proxy, or, if it was not captured, the answer of the proxy;
   c. SOCKS, of which the methods or the request, and the first two bytes of the answer, are needed;
   d. HTTP that refuses a WebSocket;
   e. an upgrade to WebSocket;
   f. TLS, unless the server's INFO may still come.
   The plaintext is judged again from 1, so layers may be stacked. There are at most `MOST_LAYERS`.
3. The first bytes of both directions are those of NATS, or cannot be.
   a. INFO of the server or CONNECT of the other side: NATS. In a capture that begins later, this also tells
      which side opened the connection.
   b. The responder begins with anything else: no NATS. A server greets with INFO on every kind of
      connection; only a route's CONNECT may come earlier (server/route.go: createRoute). Bytes that an
      originator sends before the greeting, like a browser on the wrong port, prove nothing. While 2b to 2e
      need more bytes, this waits.
4. Many bytes have shown no NATS: no NATS.

Otherwise frames may still prove themselves anywhere in the bytes (`framing.resync`).

The connection is NATS (`decide_late`, and `layer_in_place_of_frame` where a frame should begin):

5. The first chunk of a direction begins with a layer, as in 2.
6. The direction has shown fewer than two frames, and its packet begins with a unit of a layer that the
   connection has in the other direction, or that implies NATS: the layer was joined late.
7. Bytes that are no operation, where a frame should begin:
   a. the stream identifier of S2, after the INFO of both sides;
   b. a record of TLS, after at most one frame: the server's INFO.

To add a layer, define a `layer.Layer` and add it to `LAYERS`, and its line to this list.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from ..types import Chunk, Direction, Gap, Item
from . import http_connect, proxy, socks
from .layer import Begins, Heads, Layer
from .patterns import is_http, is_info, is_opener
from .s2 import layer as s2
from .stack import Stack
from .tls import layer as tls
from .websocket import http_refusal
from .websocket import layer as websocket
from .websocket.http_upgrade import HEAD_BYTES

LAYERS: list[Layer] = [
    proxy.LAYER,
    http_connect.LAYER,
    socks.LAYER,
    http_refusal.LAYER,
    websocket.LAYER,
    s2.LAYER,
    tls.LAYER,
]

# A connection that has not proven to carry NATS after this much (bytes, and `_ITEM_BYTES` for each item) is
# taken for something else. More is allowed if the first bytes were not captured.
_FRESH_BYTES = 64 << 10
_MIDSTREAM_BYTES = 4 << 20
_ITEM_BYTES = 400  # memory of a held packet or gap in addition to its bytes
_NO_DIRECTION: frozenset[Direction] = frozenset()


class Wait(Enum):
    """Nothing is decided: the item is read as before."""

    WAIT = auto()


WAIT = Wait.WAIT


@dataclass(frozen=True, slots=True)
class Reject:
    """The connection carries something else."""

    why: str


@dataclass(frozen=True, slots=True)
class Nats:
    """The connection carries NATS. `swapped`: the originator is the side that was taken for the responder."""

    why: str
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """A layer begins in these directions, with the item that was judged. If it was `joined` late, the bytes
    before the item cannot be decoded."""

    layer: Layer
    directions: tuple[Direction, ...]
    why: str
    joined: bool = False


Decision = Wait | Reject | Nats | Begin


class FirstBytes:
    """The first bytes of both directions, in the plaintext of the top layer of the stack.

    Of the latest item, `has_news` tells whether it added to them, and `unit` is the layer with a unit of
    which it begins, if first bytes of its direction may be missing.
    """

    def __init__(self, midstream: bool) -> None:
        self.midstream = midstream
        self.has_news = False
        self.unit: Layer | None = None
        self._heads = {Direction.ORIGINATOR: b"", Direction.RESPONDER: b""}
        self._headless = _NO_DIRECTION  # directions with a gap
        self._names: dict[str, None] = {}  # layers with which packets begin
        self._seen_bytes = 0

    def add(self, direction: Direction, item: Item) -> None:
        """Takes the next item."""
        self.has_news, self.unit = False, None
        self._seen_bytes += _ITEM_BYTES
        if isinstance(item, Gap):
            self._headless |= {direction}
        if not isinstance(item, Chunk):
            return
        self._seen_bytes += len(item.data)
        if self.joined_late(direction):
            self.unit = layer_of(item.data)
            if self.unit:
                self._names[self.unit.name] = None
        head = self._heads[direction]
        if len(head) < HEAD_BYTES and direction not in self._headless:
            self._heads[direction] = head + item.data[:HEAD_BYTES]
            self.has_news = True

    def head(self, direction: Direction) -> bytes:
        """The first bytes of one direction."""
        return self._heads[direction]

    def heads(self, final: bool = False) -> Heads:
        """The first bytes of both directions."""
        originator, responder = self._heads.values()
        return Heads(originator, responder, self.midstream, final)

    def joined_late(self, direction: Direction) -> bool:
        """Whether first bytes of a direction may be missing in the capture."""
        return self.midstream or direction in self._headless

    @property
    def is_too_much(self) -> bool:
        """Whether NATS would have shown itself by now."""
        late = self.midstream or self._headless
        return self._seen_bytes > (_MIDSTREAM_BYTES if late else _FRESH_BYTES)

    def protocol(self, stack: Stack) -> str:
        """The name of the first layer of a connection that shows no NATS; `other` if no layer is known."""
        found = first_layer(self.heads(final=True), stack.begun)
        return found.name if isinstance(found, Layer) else next(iter(self._names), "other")

    def restart(self, direction: Direction) -> None:
        """Starts again with the plaintext of a layer that took the bytes of a direction."""
        self._heads[direction] = b""
        self._headless -= {direction}

    def swap_roles(self) -> None:
        """Exchanges originator and responder."""
        self._heads = dict(zip(Direction, reversed(self._heads.values())))
        self._headless = frozenset(direction.other for direction in self._headless)


def decide(
    first: FirstBytes, stack: Stack, direction: Direction, item: Item, inside_payload: bool
) -> Decision:
    """What a connection of which nothing is known carries. `first` has the item already; `inside_payload`:
    it begins in a payload of possible frames."""
    if isinstance(item, Chunk) and first.joined_late(direction):
        unit = first.unit
        if unit and stack.joins(unit):
            return Begin(unit, (direction,), f"the packet begins with a unit of {unit.name}", True)
        if is_http(item.data) and not inside_payload:
            return Reject("the packet begins with a message of HTTP")
    if first.has_news:
        found = first_layer(first.heads(), stack.begun)
        if isinstance(found, Layer):
            if not stack.decodes(found):
                return Reject(f"there are too many layers below {found.name}")
            return Begin(found, tuple(Direction), f"the first bytes are those of {found.name}")
        decision = _by_greeting(first.heads())
        if not (isinstance(decision, Reject) and found is Begins.MAYBE) and decision is not WAIT:
            return decision
    if first.is_too_much:
        return Reject("many bytes have shown no frame")
    return WAIT


def decide_late(
    stack: Stack,
    direction: Direction,
    chunk: Chunk,
    midstream: bool,
    is_first: bool,
    is_sought: bool,
    beside: Layer | None,
) -> Wait | Begin:
    """Whether a layer begins in a NATS connection. `is_first`: the direction had no bytes before;
    `is_sought`: it has shown fewer than two frames, and frames are searched. `beside` is the layer that made
    the other direction opaque."""
    if is_first:
        heads = Heads(b"", chunk.data, midstream)
        if direction is Direction.ORIGINATOR:
            heads = Heads(chunk.data, b"", midstream)
        found = first_layer(heads, stack.begun)
        if isinstance(found, Layer) and stack.decodes(found):
            return Begin(found, (direction,), f"the first bytes are those of {found.name}")
    if is_sought:
        layer = layer_of(chunk.data) or beside
        if layer and stack.resumes(layer):
            why = f"the packet begins with a unit of {layer.name}"
            return Begin(layer, (direction,), why, joined=True)
    return WAIT


def first_layer(heads: Heads, begun: Collection[str] = ()) -> Layer | Begins:
    """The layer with which a connection begins, except for those that have already `begun`; MAYBE if one
    needs more bytes."""
    found = Begins.NO
    for layer in LAYERS:
        if layer.name in begun:
            continue
        begins = layer.begins(heads)
        if begins is Begins.YES:
            return layer
        if begins is Begins.MAYBE:
            found = begins
    return found


def layer_in_place_of_frame(data: bytes, frames: int) -> Layer | None:
    """The layer that begins with `data` where a frame should begin, after `frames` frames."""
    return next((layer for layer in LAYERS if layer.replaces(data, frames)), None)


def layer_of(packet: bytes) -> Layer | None:
    """The layer with a unit of which a packet in the middle of a stream certainly begins, if there is one."""
    return next((layer for layer in LAYERS if layer.resumes(packet)), None)


def _by_greeting(heads: Heads) -> Wait | Nats | Reject:
    """Whether the first bytes are those of NATS."""
    originator, responder, midstream, _ = heads
    if is_opener(originator):
        return Nats("the originator begins with CONNECT, or with the INFO of a leafnode")
    if is_info(responder) and not is_opener(responder):
        return Nats("the responder begins with INFO")
    if is_info(originator):
        return Nats("the side that was seen first begins with INFO", swapped=midstream)
    if is_opener(responder):
        return Nats("the side that was seen second begins with CONNECT", swapped=midstream)
    if responder and not midstream and not b"INFO".startswith(responder[:4].upper()):
        return Reject("the responder does not begin with INFO")
    return WAIT
