"""First bytes: NATS or not, which side opened the connection, and which layer comes first."""

from __future__ import annotations

import pytest

from dissect.nats.transport.detect import Detection, FirstBytes, detect, may_begin_nats
from dissect.nats.types import Chunk, Direction, Gap

INFO = b'INFO {"server_id":"NS"} \r\n'
CHOICE = b'INFO {"server_id":"","max_payload":0,"client_id":7,"compression":"s2_auto"}\r\n'
COMMAND = b'INFO {"server_id":"","max_payload":0,"gateway":"GA","gateway_cmd":2}\r\n'
ORIGINATOR, RESPONDER = Direction
HELLO = b"\x16\x03\x01\x00\x30" + b"h" * 48
DATA = b"\x17\x03\x03\x00\x10" + b"d" * 16


@pytest.mark.parametrize(
    "originator, responder, expected",
    [
        (b"", INFO, Detection.NATS),
        (b"", b"info{", Detection.NATS),
        (b'CONNECT {"cluster":"x"}\r\n', b"", Detection.NATS),
        (b"", b"INF", Detection.WAIT),
        (b"PUB a 1\r\nx\r\n", b"", Detection.WAIT),
        (b"CONNECT example.org:443 HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", Detection.OTHER),
        (b"PING\r\n", b"+PONG\r\n", Detection.OTHER),
        (b"\x16\x03\x01", b"\x16\x03\x03", Detection.OTHER),
        (b"SSH-2.0-x\r\n", b"SSH-2.0-y\r\n", Detection.OTHER),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"", Detection.WAIT),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", Detection.OTHER),
        (b"GET /wrong-port HTTP/1.1\r\n\r\n", INFO, Detection.NATS),
    ],
)
def test_a_connection_seen_from_its_beginning(
    originator: bytes, responder: bytes, expected: Detection
) -> None:
    assert detect(originator, responder, False) is expected


def test_midstream_nothing_is_ruled_out_by_other_bytes() -> None:
    assert detect(b"", b"rest of a payload\r\n", True) is Detection.WAIT


def test_midstream_the_server_may_have_been_seen_first() -> None:
    assert detect(INFO, b"", True) is Detection.SWAPPED


@pytest.mark.parametrize(
    "originator, responder, expected",
    [
        (CHOICE, b"", Detection.NATS),
        (CHOICE, INFO, Detection.NATS),
        (b"", CHOICE, Detection.SWAPPED),
        (INFO, CHOICE, Detection.SWAPPED),
        (COMMAND, b"", Detection.SWAPPED),
        (b"", COMMAND, Detection.NATS),
    ],
)
def test_midstream_a_leafnode_that_chooses_compression_is_no_server(
    originator: bytes, responder: bytes, expected: Detection
) -> None:
    assert detect(originator, responder, True) is expected


@pytest.mark.parametrize(
    "head, expected",
    [
        (b"P", True),
        (b"PUB a 0\r\n", True),
        (b'CONNECT{"a":1}\r\n', True),
        (b"\x16", False),
        (b"GET / HTTP/1.1\r\n", False),
        (b"POST /a HTTP/1.1\r\n", False),
    ],
)
def test_what_an_originator_may_begin_with(head: bytes, expected: bool) -> None:
    assert may_begin_nats(head) is expected


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
    assert fed(midstream, *packets).protocol() == expected


def test_a_gap_hides_the_first_bytes_of_one_direction_only() -> None:
    first = FirstBytes(False)
    assert not first.add(ORIGINATOR, Gap(1, 1, "t.pcap", 0, 9))
    assert not first.add(ORIGINATOR, Chunk(2, 2, "t.pcap", 9, b"CONNECT {}\r\n"))
    assert first.joined_late(ORIGINATOR) and not first.joined_late(RESPONDER)
    assert first.nats() is Detection.WAIT
    assert first.add(RESPONDER, Chunk(3, 3, "t.pcap", 0, INFO))
    assert first.nats() is Detection.NATS


def test_roles_are_swapped_in_the_first_bytes_as_well() -> None:
    first = fed(True, (ORIGINATOR, INFO))
    first.swap_roles()
    assert first.head(RESPONDER) == INFO
    assert first.nats() is Detection.NATS
