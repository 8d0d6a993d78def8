"""IP headers: options, extension headers, fragments, lengths that lie."""

from __future__ import annotations

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.packet.ip import (
    UDP,
    Datagram,
    Fragment,
    find_datagram,
    past_extensions,
    proto_name,
)

from tests.support.pcapwriter import TCP, ip, tcp
from tests.support.tcp_conversation import ACK

FOUR = ("10.0.0.1", "10.0.0.2")
SIX = ("fd00::1", "fd00::2")
BODY = tcp((1, 2), 3, 4, ACK, b"PING")


def find(data: bytes) -> Datagram | str:
    return find_datagram(data, 0, len(data))


def place(data: bytes, at: int = 0) -> tuple[bytes, int, int]:
    """Addresses, start and end of the TCP in a packet."""
    found = find_datagram(data, at, len(data))
    assert isinstance(found, Datagram)
    assert (found.proto, found.fragment) == (TCP, None)
    return found.addresses, found.start, found.end


def extension(following: int, words: int = 0) -> bytes:
    """An options header: hop by hop, routing, destination."""
    return bytes((following, words)) + bytes(6 + 8 * words)


@pytest.mark.parametrize("words", range(11))
def test_ipv4_options_are_passed_over(words: int) -> None:
    data = ip(*FOUR, BODY, options=bytes(4 * words))
    assert place(data) == (bytes((10, 0, 0, 1, 10, 0, 0, 2)), 20 + 4 * words, len(data))


def test_the_authentication_header_of_ipv4_is_passed_over() -> None:
    header = bytes((TCP, 4)) + bytes(22)
    data = ip(*FOUR, header + BODY, proto=51)
    assert place(data) == (bytes((10, 0, 0, 1, 10, 0, 0, 2)), 44, len(data))
    assert find(data[:24]) == "header cut off"


def test_what_trails_the_packet_is_left_out() -> None:
    assert place(ip(*FOUR, BODY) + bytes(6)) == (bytes((10, 0, 0, 1, 10, 0, 0, 2)), 20, 44)


@pytest.mark.parametrize("at", [0, 7])
def test_the_header_may_be_anywhere(at: int) -> None:
    for hosts, start in ((FOUR, 20), (SIX, 40)):
        data = bytes(at) + ip(*hosts, BODY)
        assert place(data, at)[1:] == (at + start, len(data))


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
    _, start, end = place(data)
    assert data[start:end] == BODY
    assert bytes(dpkt.ip6.IP6(data).data) == BODY


def test_extension_headers_that_are_cut_off() -> None:
    data = ip(*SIX, BODY, proto=0, options=extension(60) + extension(TCP))
    for kept in range(len(data) - len(BODY) - 8):
        assert find_datagram(data[:kept], 0, len(data)) == "header cut off"


@pytest.mark.parametrize(("offset", "more"), [(0, 1), (100, 0), (100, 1), (8191, 0)])
def test_fragments_say_where_they_belong(offset: int, more: int) -> None:
    four = ip(*FOUR, BODY, proto=UDP, fragment=(7, offset, bool(more)))
    hosts = bytes((10, 0, 0, 1, 10, 0, 0, 2))
    part = Fragment(hosts + b"\0\7" + bytes([UDP]), offset * 8, bool(more))
    assert find(four) == (hosts, UDP, 20, len(four), part)
    six = ip(*SIX, BODY, fragment=(7, offset, bool(more)))
    found = find(six)
    assert isinstance(found, Datagram) and found.fragment
    assert found.fragment == (found.addresses + b"\0\0\0\7", offset * 8, bool(more))
    assert (found.proto, found.start, found.end) == (TCP, 48, len(six))


@pytest.mark.parametrize(
    ("proto", "name"),
    [(1, "icmp"), (17, "udp"), (47, "gre"), (58, "icmpv6"), (59, "ip protocol 59")],
)
def test_other_protocols_have_names(proto: int, name: str) -> None:
    assert proto_name(proto) == name
    found = find(ip(*FOUR, BODY, proto=proto))
    assert isinstance(found, Datagram) and found.proto == proto


def test_extension_headers_may_come_without_an_ip_header() -> None:
    inside = Datagram(b"ab", 60, 4, 24 + len(BODY))
    found = past_extensions(bytes(4) + extension(0) + extension(TCP) + BODY, inside)
    assert found == (b"ab", TCP, 20, 24 + len(BODY), None)


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
    assert isinstance(found, str) or found.fragment or 20 <= found.start <= found.end
