"""IP headers: options, extension headers, fragments, lengths that lie."""

from __future__ import annotations

import struct

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.layers.ip import Transport, find_tcp

from tests.support.pcapwriter import ACK, TCP, ip, tcp

FOUR = ("10.0.0.1", "10.0.0.2")
SIX = ("fd00::1", "fd00::2")
BODY = tcp((1, 2), 3, 4, ACK, b"PING")


def find(data: bytes) -> Transport | str:
    return find_tcp(data, 0, len(data))


def extension(following: int, words: int = 0) -> bytes:
    """An options header: hop by hop, routing, destination."""
    return bytes((following, words)) + bytes(6 + 8 * words)


@pytest.mark.parametrize("words", range(11))
def test_ipv4_options_are_passed_over(words: int) -> None:
    data = ip(*FOUR, BODY, options=bytes(4 * words))
    assert find(data) == (bytes((10, 0, 0, 1, 10, 0, 0, 2)), 20 + 4 * words, len(data))


def test_what_trails_the_packet_is_left_out() -> None:
    assert find(ip(*FOUR, BODY) + bytes(6)) == (bytes((10, 0, 0, 1, 10, 0, 0, 2)), 20, 44)


@pytest.mark.parametrize("at", [0, 7])
def test_the_header_may_be_anywhere(at: int) -> None:
    for hosts, start in ((FOUR, 20), (SIX, 40)):
        data = bytes(at) + ip(*hosts, BODY)
        found = find_tcp(data, at, len(data))
        assert found[1:] == (at + start, len(data))


@pytest.mark.parametrize(
    ("first", "headers"),
    [
        (0, extension(TCP)),
        (43, extension(TCP, 3)),
        (60, extension(TCP, 1)),
        (51, bytes((TCP, 4)) + bytes(22)),
        (44, bytes((TCP, 0, 0, 0)) + b"abcd"),
        (0, extension(43, 1) + extension(60) + extension(51) + bytes((TCP, 1)) + bytes(10)),
    ],
)
def test_ipv6_extension_headers_are_passed_over(first: int, headers: bytes) -> None:
    data = ip(*SIX, BODY, proto=first, options=headers)
    found = find(data)
    assert isinstance(found, Transport)
    assert data[found.start : found.end] == BODY
    assert bytes(dpkt.ip6.IP6(data).data) == BODY


def test_extension_headers_that_are_cut_off() -> None:
    data = ip(*SIX, BODY, proto=0, options=extension(60) + extension(TCP))
    for kept in range(len(data) - len(BODY) - 8):
        assert find_tcp(data[:kept], 0, len(data)) == "header cut off"


@pytest.mark.parametrize(("offset", "more"), [(0, 1), (100, 0), (100, 1)])
def test_fragments_are_named(offset: int, more: int) -> None:
    four = bytearray(ip(*FOUR, BODY))
    four[6:8] = struct.pack("!H", more << 13 | offset)
    six = ip(*SIX, BODY, proto=44, options=struct.pack("!BBHI", TCP, 0, offset << 3 | more, 9))
    assert find(bytes(four)) == find(six) == "ip fragment"


@pytest.mark.parametrize(
    ("hosts", "proto", "name"),
    [
        (FOUR, 1, "icmp"),
        (FOUR, 17, "udp"),
        (FOUR, 254, "ip protocol 254"),
        (SIX, 58, "icmpv6"),
        (SIX, 59, "ip protocol 59"),
    ],
)
def test_other_protocols_are_named(hosts: tuple[str, str], proto: int, name: str) -> None:
    assert find(ip(*hosts, BODY, proto=proto)) == name


def test_lengths_that_cannot_be_are_refused() -> None:
    assert find(b"\x44" + ip(*FOUR, BODY)[1:]) == "bad ip header"
    assert find(ip(*FOUR, BODY, total=19)) == "bad ip header"
    assert find(ip(*SIX, BODY, proto=0, options=extension(TCP, 4), total=30)) == "bad ip header"


def test_other_versions_are_named() -> None:
    assert find(b"\x50" + bytes(60)) == "ip version 5"
    assert find(b"") == "header cut off"


def test_endless_extension_headers_end_with_the_packet() -> None:
    assert find(ip(*SIX, b"", proto=0, options=extension(0) * 8000)) == "header cut off"


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_give_a_place_or_a_reason(data: bytes) -> None:
    found = find(data)
    assert isinstance(found, str) or 20 <= found.start <= found.end
