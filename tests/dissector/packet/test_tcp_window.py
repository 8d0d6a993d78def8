"""The window of a packet, and the scale that a SYN offers for the windows after it."""

from __future__ import annotations

import pytest

from dissect.nats.packet import PacketParser
from dissect.nats.types import NO_SCALE, Packet, Packets, Segment

from tests.support.pcapwriter import ETHERNET, START_NS, ip, link, tcp
from tests.support.tcp_conversation import ACK, SYN

PORTS = (40000, 4222)
FOUR = ("10.0.0.1", "10.0.0.2")
SIX = ("fd00::1", "fd00::2")


def segment_of(data: bytes, size: int) -> Segment | None:
    return PacketParser().segment_of(Packet(START_NS, 7, "t.pcap", ETHERNET, data, size))


_MSS, _TIMES, _SCALE = b"\2\4\5\xb4", b"\1\1\x08\x0a" + bytes(8), b"\1\3\3"


@pytest.mark.parametrize("hosts", [FOUR, SIX])
@pytest.mark.parametrize(
    ("options", "scale"),
    [
        (_MSS + _TIMES + _SCALE + b"\7", 7),
        (_SCALE + b"\0", 0),
        (_SCALE + b"\x63", 14),  # more than RFC 7323 allows counts as the most that it does
        (_MSS + _TIMES, NO_SCALE),
        (b"\0\3\3\7", NO_SCALE),  # what comes after the end of the list is none
        (b"\5\0" + _SCALE[1:] + b"\7" + bytes(3), 7),  # a length that lies
        (b"\5\xff" + bytes(2), NO_SCALE),
        (b"", NO_SCALE),
    ],
)
def test_the_window_scale_of_a_syn(hosts: tuple[str, str], options: bytes, scale: int) -> None:
    for flags, expected in (SYN, scale), (SYN | ACK, scale), (ACK, None):
        data = link(ip(*hosts, tcp(PORTS, 1, 2, flags, b"", options, window=9)))
        run = Packets("t.pcap", ETHERNET, data, 1, [(1, 0, len(data), len(data))])
        for segment in segment_of(data, len(data)), *PacketParser().segments([run]):
            assert isinstance(segment, Segment)
            assert (segment.window, segment.window_scale) == (9, expected)


@pytest.mark.parametrize("hosts", [FOUR, SIX])
def test_a_window_that_was_cut_off_is_not_known(hosts: tuple[str, str]) -> None:
    data = link(ip(*hosts, tcp(PORTS, 1, 2, SYN, b"", _MSS + _SCALE + b"\7", window=9)))
    cut = [segment_of(data[:-less], len(data)) for less in (1, 4, 8, 12, 14)]
    found = [(segment.window, segment.window_scale) for segment in cut if segment]
    assert found == [(9, None)] * 4 + [(65535, None)]
