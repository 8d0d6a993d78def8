"""The list of decisions: NATS or not, which side opened the connection, and which layer begins where."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.secrets.key_log import KeyLogs
from dissect.nats.transport.decide import (
    LAYERS,
    WAIT,
    Begin,
    Decision,
    FirstBytes,
    Nats,
    Reject,
    decide,
    decide_late,
    first_layer,
    layer_in_place_of_frame,
    layer_of,
)
from dissect.nats.transport.layer import Begins, Heads, Layer, LayerOptions
from dissect.nats.transport.s2 import layer as s2
from dissect.nats.transport.stack import MOST_LAYERS, Stack
from dissect.nats.transport.tls import layer as tls
from dissect.nats.transport.websocket import layer as websocket
from dissect.nats.types import Chunk, Direction, Gap, Item

INFO = b'INFO {"server_id":"NS"} \r\n'
CHOICE = b'INFO {"server_id":"","max_payload":0,"client_id":7,"compression":"s2_auto"}\r\n'
COMMAND = b'INFO {"server_id":"","max_payload":0,"gateway":"GA","gateway_cmd":2}\r\n'
ORIGINATOR, RESPONDER = Direction
HELLO = b"\x16\x03\x01\x00\x30" + b"h" * 48
DATA = b"\x17\x03\x03\x00\x10" + b"d" * 16


IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"
SYNC = b"\x82\x7e\x01\x00" + INFO  # a frame of WebSocket
TUNNEL = b"CONNECT example.org:443 HTTP/1.1\r\n"
UPGRADE = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 x\r\n"
PROXY = b"PROXY UNKNOWN\r\n"

WAITS, NATS, SWAPPED, OTHER = "wait", "nats", "swapped", "other"


def word(decision: Decision) -> str:
    """A decision in a word; a layer by its name."""
    match decision:
        case Begin(layer):
            return layer.name
        case Nats(_, swapped):
            return SWAPPED if swapped else NATS
        case Reject():
            return OTHER
    return WAITS


def decided(
    midstream: bool,
    *packets: tuple[Direction, bytes],
    stack: Stack | None = None,
    inside_payload: bool = False,
) -> Decision:
    """The decision at the last of these packets."""
    first, decision = FirstBytes(midstream), WAIT
    stack = Stack() if stack is None else stack
    for number, (way, data) in enumerate(packets, 1):
        item = Chunk(number, number, "t.pcap", 0, data)
        first.add(way, item)
        decision = decide(first, stack, way, item, inside_payload)
    return decision


def greeted(originator: bytes, responder: bytes, midstream: bool) -> str:
    packets = [pair for pair in ((ORIGINATOR, originator), (RESPONDER, responder)) if pair[1]]
    return word(decided(midstream, *packets))


@pytest.mark.parametrize(
    "originator, responder, expected",
    [
        (b"", INFO, NATS),
        (b"", b"info{", NATS),
        (b'CONNECT {"cluster":"x"}\r\n', b"", NATS),
        (b"", b"INF", WAITS),
        (b"PUB a 1\r\nx\r\n", b"", WAITS),
        (TUNNEL, b"", "http_connect"),
        (TUNNEL[:20], b"", WAITS),
        (TUNNEL[:20], b"HTTP/1.1 200 OK\r\n", WAITS),
        (b"", b"HTTP/1.1 200 Connection est", WAITS),
        (b"", b"HTTP/1.1 200 Connection established\r\n\r\n", "http_connect"),
        (b"\x05\x01\0", b"", WAITS),
        (b"\x05\x01\0", b"\x05\0", "socks"),
        (b"\x05\x01\0", b"\x05\x02", OTHER),
        (b"\x05\0", b"\x05\x02", OTHER),
        (b"\x04\x01\x10\x7e\x0a\0\0\x01\0", b"\0", WAITS),
        (b"\x04\x01\x10\x7e\x0a\0\0\x01\0", b"\0\x5a", "socks"),
        (b"\x04\x02", b"\0\x5a", OTHER),
        (b"CONNECT / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", OTHER),
        (b"PING\r\n", b"+PONG\r\n", OTHER),
        (b"SSH-2.0-x\r\n", b"SSH-2.0-y\r\n", OTHER),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"", WAITS),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", OTHER),
        (b"GET /wrong-port HTTP/1.1\r\n\r\n", INFO, NATS),
        (PROXY, b"", "proxy"),
        (HELLO, HELLO, "tls"),
        (UPGRADE, SWITCHING[:9], WAITS),
        (UPGRADE, SWITCHING, "websocket"),
        (UPGRADE, b"HTTP/1.1 403 no\r\n\r\n", "http"),
    ],
)
def test_a_connection_seen_from_its_beginning(
    originator: bytes, responder: bytes, expected: str
) -> None:
    assert greeted(originator, responder, False) == expected


def test_midstream_other_bytes_rule_nothing_out() -> None:
    assert greeted(b"", b"rest of a payload\r\n", True) == WAITS


def test_midstream_the_server_may_have_been_seen_first() -> None:
    assert greeted(INFO, b"", True) == SWAPPED


@pytest.mark.parametrize(
    "originator, responder, expected",
    [
        (CHOICE, b"", NATS),
        (b"", CHOICE, SWAPPED),
        (INFO, CHOICE, SWAPPED),
        (COMMAND, b"", SWAPPED),
        (b"", COMMAND, NATS),
    ],
)
def test_midstream_a_leafnode_that_chooses_compression_is_no_server(
    originator: bytes, responder: bytes, expected: str
) -> None:
    assert greeted(originator, responder, True) == expected


@pytest.mark.parametrize(
    "data, secrets, expected",
    [
        (IDENTIFIER, False, "s2"),
        (SYNC, False, "websocket"),
        (DATA, False, WAITS),
        (DATA, True, "tls"),
        (b"GET /varz HTTP/1.1\r\n\r\n", False, OTHER),
        (b"PUB a 0\r\n\r\n", False, WAITS),
    ],
)
def test_midstream_one_unit_of_a_layer_is_enough(
    data: bytes, secrets: bool, expected: str, tmp_path: Path
) -> None:
    key_log = tmp_path / "keys"
    key_log.write_text("CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48 + "\n")
    options = LayerOptions(KeyLogs((str(key_log),) if secrets else ()))
    decision = decided(True, (ORIGINATOR, b"rest"), (ORIGINATOR, data), stack=Stack(options))
    assert word(decision) == expected
    if isinstance(decision, Begin):
        assert decision.joined and decision.directions == (ORIGINATOR,)


def test_http_inside_a_payload_proves_nothing() -> None:
    request = (ORIGINATOR, b"GET /varz HTTP/1.1\r\n\r\n")
    assert word(decided(True, request, inside_payload=True)) == WAITS


def test_a_layer_on_a_full_stack_is_rejected() -> None:
    stack = Stack()
    for _ in range(MOST_LAYERS):
        stack.push(s2.LAYER, [ORIGINATOR])
        stack.push(websocket.LAYER, [ORIGINATOR])
    assert stack.is_full
    assert word(decided(False, (ORIGINATOR, PROXY), stack=stack)) == OTHER


def test_many_bytes_without_a_frame_are_no_nats() -> None:
    packets = [(ORIGINATOR, b"x" * 1000)] * 70
    assert word(decided(False, *packets[:40])) == WAITS
    assert word(decided(False, *packets)) == OTHER
    assert word(decided(True, *packets)) == WAITS


@pytest.mark.parametrize(
    "data, is_first, is_sought, begun, expected",
    [
        (PROXY, True, False, None, "proxy"),
        (PROXY, False, True, None, WAITS),
        (IDENTIFIER, False, True, None, "s2"),
        (IDENTIFIER, False, False, None, WAITS),
        (DATA, False, True, None, WAITS),
        (DATA, False, True, tls.LAYER, "tls"),
    ],
)
def test_a_layer_begins_late_in_a_nats_connection(
    data: bytes, is_first: bool, is_sought: bool, begun: Layer | None, expected: str
) -> None:
    stack = Stack()
    if begun:
        stack.push(begun, [RESPONDER])
    chunk = Chunk(1, 1, "t.pcap", 0, data)
    decision = decide_late(
        stack, ORIGINATOR, chunk, False, is_first=is_first, is_sought=is_sought, beside=None
    )
    assert word(decision) == expected


def test_names_of_layers_are_unique() -> None:
    names = [layer.name for layer in LAYERS]
    assert sorted(set(names)) == sorted(names)


def test_a_layer_that_has_begun_is_not_found_again() -> None:
    assert first_layer(Heads(PROXY, b"")) is LAYERS[0]
    assert first_layer(Heads(PROXY, b""), {"proxy"}) is Begins.NO


@pytest.mark.parametrize("data, expected", [(DATA, "tls"), (IDENTIFIER, "s2"), (b"PING", None)])
def test_a_layer_in_place_of_a_frame_and_in_the_middle(data: bytes, expected: str | None) -> None:
    for layer in (layer_in_place_of_frame(data, 1), layer_of(data)):
        assert (layer.name if layer else None) == expected


def fed(midstream: bool, *packets: tuple[Direction, bytes]) -> FirstBytes:
    first = FirstBytes(midstream)
    for number, (way, data) in enumerate(packets, 1):
        first.add(way, Chunk(number, number, "t.pcap", 0, data))
    return first


@pytest.mark.parametrize(
    "midstream, packets, expected",
    [
        (False, [(ORIGINATOR, HELLO)], "tls"),
        (False, [(RESPONDER, HELLO)], "tls"),
        (False, [(ORIGINATOR, HELLO), (RESPONDER, HELLO)], "tls"),
        (True, [(ORIGINATOR, b"end of a record"), (ORIGINATOR, DATA)], "tls"),
        (True, [(ORIGINATOR, b"end of a record"), (RESPONDER, DATA * 2)], "tls"),
        (False, [(ORIGINATOR, b"not TLS"), (ORIGINATOR, DATA)], "other"),
        (True, [], "other"),
    ],
)
def test_the_protocol_of_a_connection_that_shows_no_nats(
    midstream: bool, packets: list[tuple[Direction, bytes]], expected: str
) -> None:
    assert fed(midstream, *packets).protocol(Stack()) == expected


def test_a_gap_hides_the_first_bytes_of_one_direction_only() -> None:
    first = FirstBytes(False)
    items: list[tuple[Direction, Item]] = [
        (ORIGINATOR, Gap(1, 1, "t.pcap", 0, 9)),
        (ORIGINATOR, Chunk(2, 2, "t.pcap", 9, b"CONNECT {}\r\n")),
        (RESPONDER, Chunk(3, 3, "t.pcap", 0, INFO)),
    ]
    found = []
    for way, item in items:
        first.add(way, item)
        found.append((first.has_news, word(decide(first, Stack(), way, item, False))))
    assert found == [(False, WAITS), (False, WAITS), (True, NATS)]
    assert first.joined_late(ORIGINATOR) and not first.joined_late(RESPONDER)


def test_roles_are_swapped_in_the_first_bytes_as_well() -> None:
    first = fed(True, (ORIGINATOR, INFO))
    first.swap_roles()
    assert first.head(RESPONDER) == INFO
    assert first.heads() == Heads(b"", INFO, True)
