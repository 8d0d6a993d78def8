"""The stack: layers on layers, keys from the other side, offsets and sums of bytes in each."""

from __future__ import annotations

import pickle

from dissect.nats.transport import proxy
from dissect.nats.transport.layer import LayerColumn
from dissect.nats.transport.s2 import layer as s2
from dissect.nats.transport.stack import MOST_LAYERS, Stack
from dissect.nats.transport.websocket import layer as websocket
from dissect.nats.types import Chunk, Direction, Gap, Item

from tests.support import xor_layer

ORIGINATOR, RESPONDER = Direction
BOTH = tuple(Direction)
HEADER = b"PROXY UNKNOWN\r\n"
KEY = b"\x11\x22\x33\x44\x55\x66\x77\x88"
GREETING = xor_layer.GREETING + KEY


def chunk(offset: int, data: bytes, number: int = 1) -> Chunk:
    return Chunk(number * 1000, number, "t.pcap", offset, data)


def secret(offset: int, data: bytes, number: int = 1) -> Chunk:
    return chunk(offset, xor_layer.xored(data, KEY, offset), number)


def test_without_a_layer_it_is_false_and_changes_nothing() -> None:
    stack = Stack()
    assert not stack
    assert stack.feed(ORIGINATOR, chunk(0, b"x")) == [(ORIGINATOR, chunk(0, b"x"))]
    assert stack.finish() == []


def test_a_transform_that_is_done_leaves_the_stack_and_its_counts_stay() -> None:
    stack = Stack()
    assert stack.push(proxy.LAYER, BOTH) == (0, [ORIGINATOR])
    assert stack
    assert stack.feed(ORIGINATOR, chunk(0, HEADER[:4])) == []
    end = len(HEADER)
    rest = chunk(end, b"PING\r\n", 2)
    assert stack.feed(ORIGINATOR, chunk(4, HEADER[4:] + b"PING\r\n", 2)) == [(ORIGINATOR, rest)]
    assert not stack
    assert stack.byte_counts(ORIGINATOR)["proxy"].span == end
    assert stack.names(LayerColumn.TRANSPORT) == []


def test_bytes_wait_for_a_key_that_the_other_side_brings() -> None:
    stack = Stack()
    stack.push(xor_layer.LAYER, BOTH)
    assert stack.feed(ORIGINATOR, secret(0, b"CONNECT {}\r\n")) == []
    assert stack.feed(ORIGINATOR, Gap(2, 2, "t.pcap", 12, 3)) == []
    stack = pickle.loads(pickle.dumps(stack))
    assert stack.feed(RESPONDER, chunk(0, GREETING[:10], 3)) == []
    start = len(GREETING)
    greeting = chunk(10, GREETING[10:] + secret(start, b"INFO {}\r\n").data, 4)
    found: list[tuple[Direction, Item]] = stack.feed(RESPONDER, greeting)
    assert found == [
        (RESPONDER, chunk(start, b"INFO {}\r\n", 4)),
        (ORIGINATOR, chunk(0, b"CONNECT {}\r\n")),
        (ORIGINATOR, Gap(2, 2, "t.pcap", 12, 3)),
    ]
    assert stack.byte_counts(ORIGINATOR)["xor"].span == 15
    assert stack.byte_counts(RESPONDER)["xor"].span == start + 9
    assert stack.names(LayerColumn.TRANSPORT) == ["xor"]


def test_a_key_that_never_comes_leaves_skipped_and_missing_bytes() -> None:
    stack = Stack()
    stack.push(xor_layer.LAYER, BOTH)
    stack.feed(ORIGINATOR, chunk(0, b"cipher"))
    stack.feed(ORIGINATOR, Gap(2, 2, "t.pcap", 6, 4))
    assert stack.finish() == []
    counts = stack.byte_counts(ORIGINATOR)["xor"]
    assert (counts.skipped, counts.missing, counts.span) == (6, 4, 10)


def test_layers_lie_on_each_other_and_each_sum_closes() -> None:
    stack = Stack()
    stack.push(proxy.LAYER, BOTH)
    assert stack.push(xor_layer.LAYER, BOTH) == (1, [ORIGINATOR, RESPONDER])
    stack.feed(RESPONDER, chunk(0, GREETING))
    end = len(HEADER)
    data = HEADER + secret(end, b"PING\r\n").data
    assert stack.feed(ORIGINATOR, chunk(0, data)) == [(ORIGINATOR, chunk(end, b"PING\r\n"))]
    counts = stack.byte_counts(ORIGINATOR)
    assert [counts["proxy"].span, counts["xor"].span] == [end, 6]


def test_the_second_direction_joins_a_layer_that_the_first_has_pushed() -> None:
    stack = Stack()
    assert stack.push(xor_layer.LAYER, [RESPONDER]) == (0, [RESPONDER])
    plain = chunk(0, b"plain")
    assert stack.feed(ORIGINATOR, plain) == [(ORIGINATOR, plain)]
    stack.feed(RESPONDER, chunk(0, GREETING))
    assert stack.push(xor_layer.LAYER, [ORIGINATOR]) == (0, [ORIGINATOR])
    assert stack.feed(ORIGINATOR, secret(5, b"PING\r\n")) == [(ORIGINATOR, chunk(5, b"PING\r\n"))]


def test_a_layer_is_not_joined_below_another_one_of_the_same_direction() -> None:
    stack = Stack()
    assert stack.push(websocket.LAYER, [ORIGINATOR])[0] == 0
    assert stack.push(s2.LAYER, [RESPONDER])[0] == 1
    assert stack.push(websocket.LAYER, [RESPONDER]) == (2, [RESPONDER])
    assert list(stack.byte_counts(RESPONDER)) == ["s2", "websocket"]


def test_roles_are_swapped_in_every_layer() -> None:
    stack = Stack()
    stack.push(proxy.LAYER, BOTH)
    stack.swap_roles()
    assert stack.feed(RESPONDER, chunk(0, HEADER)) == []
    assert stack.byte_counts(RESPONDER)["proxy"].overhead == len(HEADER)


def test_hostile_bytes_cannot_pile_up_layers() -> None:
    stack = Stack()
    for _ in range(MOST_LAYERS):
        assert not stack.is_full
        stack.push(xor_layer.LAYER, BOTH)
    assert stack.is_full
