"""Connections with the same addresses and ports in one timeline: each is whole, nothing is missing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.flow import Delivery, Flow
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Gap, Oddity, Segment

from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Record, ip, link, pcap_file, tcp
from tests.support.tcp_conversation import ACK, TcpConversation

A, B = b"\n\0\0\1\n\0\0\2\x13\x88\x10\x7e", b"\n\0\0\2\n\0\0\1\x10\x7e\x13\x88"
FAR = 1 << 30
WORDS = b"PUB a.b 5\r\nhello\r\n", b"MSG a.b 1 5\r\nhello\r\n"


class ScriptedFlow(TcpConversation[int]):
    """Both sides of a connection that was joined midstream, from some numbers on."""

    def __init__(self, seq: int, ack: int) -> None:
        super().__init__(0, 1, (seq, ack))

    def emit(self, sender: int, flags: int, seq: int, ack: int, payload: bytes) -> None:
        key, size = (A, B)[sender], len(payload)
        self.segment = Segment(1, 1, "t.pcap", key, seq, ack, flags, payload, size)

    def say(self, side: int, data: bytes = b"x" * 100) -> Segment:
        self.packet(side, ACK, data)
        return self.segment


def fed(segments: Sequence[Segment]) -> list[Delivery]:
    table = FlowTable(Stream)
    made = []
    for number, segment in enumerate(segments, 1):
        segment.ts_ns, segment.number, segment.ordinal = number * 1000, number, number
        made += [(flow, way, list(items)) for flow, way, items in table.add(segment)]
    return made + list(table.finish())


def bytes_of(deliveries: list[Delivery]) -> dict[Flow, int]:
    found: dict[Flow, int] = {}
    for flow, _, items in deliveries:
        size = sum(len(item.data) for item in items if isinstance(item, Chunk))
        found[flow] = found.get(flow, 0) + size
    return found


def missing(deliveries: list[Delivery]) -> int:
    return sum(i.length for _, _, items in deliveries for i in items if isinstance(i, Gap))


def jumps(deliveries: list[Delivery]) -> list[int]:
    return [
        item.length
        for _, _, items in deliveries
        for item in items
        if isinstance(item, Oddity) and item.anomaly is Anomaly.SEQUENCE_JUMP
    ]


def exchange(flow: ScriptedFlow, times: int) -> list[Segment]:
    return [flow.say(number % 2) for number in range(times)]


def test_a_jump_of_both_numbers_is_another_connection() -> None:
    made = fed(exchange(ScriptedFlow(1000, 5000), 20) + exchange(ScriptedFlow(FAR, 3 * FAR), 30))
    assert list(bytes_of(made).values()) == [2000, 3000]
    assert missing(made) == 0 and jumps(made) == [0]
    first, second = bytes_of(made)
    assert [side.packets for side in first.sides] == [10, 10]
    assert [side.packets for side in second.sides] == [15, 15]
    assert (first.last_ns, second.first_ns, second.midstream) == (20_000, 21_000, True)


def test_acknowledgements_alone_show_it_as_well() -> None:
    other = ScriptedFlow(FAR, 3 * FAR)
    acks = [other.say(side, b"") for side in (0, 1, 0, 1)]
    made = fed(exchange(ScriptedFlow(1000, 5000), 20) + acks)
    assert missing(made) == 0 and len(bytes_of(made)) == 2 and jumps(made) == [0]


def test_connections_that_take_turns_leave_the_first_whole() -> None:
    """Captures of the same time: packet by packet, nothing proves that the first connection is over."""
    one, other = ScriptedFlow(1000, 5000), ScriptedFlow(FAR, 3 * FAR)
    every = exchange(one, 20)
    for _ in range(10):
        every += [one.say(0), other.say(0)]
    made = fed(every + [one.say(0)])
    assert list(bytes_of(made).values()) == [3100]
    assert missing(made) == 0 and jumps(made) == [100] * 10
    (flow,) = bytes_of(made)
    assert sum(side.bytes for side in flow.sides) == 4100


def test_a_forged_packet_does_no_harm() -> None:
    one = ScriptedFlow(1000, 5000)
    made = fed([*exchange(one, 20), ScriptedFlow(FAR, 3 * FAR).say(0), *exchange(one, 20)])
    assert list(bytes_of(made).values()) == [4000] and jumps(made) == [100]


def test_what_was_not_captured_stays_a_gap() -> None:
    """One side sent much more than was captured: the other number says that it is the same connection."""
    one = ScriptedFlow(1000, 5000)
    every = exchange(one, 20)
    one.next[0] += 100 << 20
    made = fed(every + exchange(one, 20))
    assert list(bytes_of(made).values()) == [4000]
    assert missing(made) == 100 << 20 and jumps(made) == []


def test_a_stray_at_the_end_is_counted() -> None:
    made = fed([*exchange(ScriptedFlow(1000, 5000), 20), ScriptedFlow(FAR, 3 * FAR).say(1)])
    assert jumps(made) == [100] and list(bytes_of(made).values()) == [2000]


@pytest.mark.parametrize("seed", range(6))
def test_parts_of_a_capture_give_the_rows_of_the_whole(tmp_path: Path, seed: int) -> None:
    """Bursts of two conversations between the same ports, cut anywhere."""
    rng = random.Random(seed)
    flows = [ScriptedFlow(1000, 5000), ScriptedFlow(FAR, 3 * FAR)]
    records: list[Record] = []
    for _ in range(12):
        flow = rng.choice(flows)
        for number in range(rng.choice((1, 1, 2, 9))):
            side = number % 2
            data = rng.choice((WORDS[side], WORDS[side], b""))
            each = flow.say(side, data)
            hosts, ports = ("10.0.0.1", "10.0.0.2"), (5000, 4222)
            if side:
                hosts, ports = hosts[::-1], ports[::-1]
            packet = link(ip(*hosts, tcp(ports, each.seq, each.ack, ACK, data)))
            records.append(Record(len(records) * 10**6, packet, len(packet)))
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap_file(records))
    whole = in_one([str(path)])
    assert any(getattr(row, "anomaly", "") == "sequence_jump" for row in whole)
    for size in (300, 700, 2000):
        assert in_partitions([str(path)], size) == whole
