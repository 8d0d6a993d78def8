"""A packet that the kernel places has the key and the TCP payload that `PacketParser` finds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from dissect.nats.capture import CaptureReport, read_runs
from dissect.nats.kernel import packets, state
from dissect.nats.kernel.arrays import LINKS, words_of
from dissect.nats.packet import PacketParser, flow_hash
from dissect.nats.tcp.checksum import is_right
from dissect.nats.types import Packet

from tests.dissector.kernel.both import KERNEL
from tests.support.paths import CAPTURES

pytestmark = KERNEL

PATHS = sorted(path for path in CAPTURES.iterdir() if path.suffix in (".pcap", ".pcapng"))


def checked(packet: Packet, seen: dict[str, int]) -> None:
    key = np.zeros(state.KEY_WORDS, np.uint64)
    found = np.zeros(packets.P_WIDTH, np.int64)
    type_at, ip_at = LINKS.get(packet.linktype, (-1, -1))
    text = np.frombuffer(packet.data + b"\0", np.uint8)[:-1]
    what = packets.place(text, 0, len(text), type_at, ip_at, key, found)
    segment = PacketParser().segment_of(packet)
    seen[("unclear", "elsewhere", "tcp")[what]] = 1
    if what == packets.ELSEWHERE:
        assert segment is None
    elif what == packets.TCP and found[packets.P_CLEAN]:
        assert segment
        assert key.tolist() == words_of(segment.key)
        start = found[packets.P_BODY]
        assert packet.data[start : start + found[packets.P_LENGTH]] == segment.payload
        assert found[packets.P_LENGTH] == segment.length == len(segment.payload)
        assert packets.is_right(text, found) == is_right(segment)
        share, is_opening = flow_hash(segment.key) % 3, bool(segment.flags & 2)
        buckets = np.eye(3, dtype=np.uint8)
        shares = [packets.in_share(text, found, buckets[number]) for number in range(3)]
        assert shares == [is_opening or number == share for number in range(3)]
        seen["clean"] = 1


def some_packets(path: Path) -> list[Packet]:
    runs = list(read_runs([str(path)], CaptureReport()))
    return [packet for run in runs for packet in run][:60]


def test_packets_of_samples_are_placed_as_the_parser_does() -> None:
    seen: dict[str, int] = {}
    rng = random.Random(7)
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    checked(Packet(1, 1, "", 1, arp, len(arp)), seen)
    for port in (53, 4789):
        udp = b"\x45\0\0\x24" + bytes(5) + b"\x11" + bytes(10) + b"\0\x35" + port.to_bytes(2, "big")
        checked(Packet(1, 1, "", 101, udp + bytes(12), 36), seen)
    for path in PATHS:
        for packet in some_packets(path):
            checked(packet, seen)
            data = bytearray(packet.data)
            if data:
                data[rng.randrange(min(60, len(data)))] = rng.randrange(256)
            checked(Packet(1, 1, "", packet.linktype, bytes(data), packet.wire_bytes), seen)
            cut = rng.randrange(len(data) + 1)
            checked(Packet(1, 1, "", packet.linktype, bytes(data[:cut]), packet.wire_bytes), seen)
    assert set(seen) == {"unclear", "elsewhere", "tcp", "clean"}
