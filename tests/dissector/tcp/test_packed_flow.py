"""Flows that are packed while they linger: late packets find them as they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dissect.nats.tcp import flow_table
from dissect.nats.tcp.flow import Delivery, Flow
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.packed_flow import pack, unpack
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Direction, Item, Segment

from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Conversation
from tests.support.segments import segments_of
from tests.support.tcp_conversation import ACK, FIN, PSH, RST, SYN

SECOND = 10**9


def conversation() -> Conversation:
    return Conversation().handshake().from_server(INFO).from_client(CONNECT).close()


def repeated(made: Conversation) -> None:
    """The latest bytes, then all bytes of a side come again."""
    end = made.next[made.client]
    made.emit(made.client, PSH | ACK, end - 9, made.next[made.server], CONNECT[-8:])
    start = made.next[made.server] - 1 - len(INFO)
    made.emit(made.server, PSH | ACK, start, end, INFO)


def contradicted(made: Conversation) -> None:
    end = made.next[made.client]
    made.emit(made.client, PSH | ACK, end - 9, made.next[made.server], b"x" * 8)


def continued(made: Conversation) -> None:
    made.emit(made.client, PSH | ACK, made.next[made.client], made.next[made.server], b"PING\r\n")


def reset(made: Conversation) -> None:
    made.emit(made.server, RST, made.next[made.server], 0, b"")


def reset_from_afar(made: Conversation) -> None:
    made.emit(made.server, RST, made.next[made.server] + 10**9, 0, b"")


def finished_again(made: Conversation) -> None:
    made.emit(made.server, FIN | ACK, made.next[made.server] - 1, made.next[made.client], b"")


def opened_again(made: Conversation) -> None:
    """With the same number, late, and with another: the next connection."""
    made.emit(made.client, SYN, made.next[made.client] - 2 - len(CONNECT), 0, b"")
    made.emit(made.client, SYN, made.next[made.client] + 10**9, 0, b"")


def strayed(made: Conversation) -> None:
    made.emit(made.client, PSH | ACK, 10**9, 2 * 10**9, b"PING\r\n")
    made.emit(made.server, PSH | ACK, 2 * 10**9, 10**9 + 6, b"PONG\r\n")


LATE = [repeated, contradicted, continued, reset, reset_from_afar]
LATE += [finished_again, opened_again, strayed]

Seen = list[tuple[str, Direction, list[Item]]]


def seen(deliveries: list[Delivery]) -> Seen:
    return [(flow.id, direction, items) for flow, direction, items in deliveries]


def facts(flow: Flow) -> list[object]:
    """Everything that rows say of a flow."""
    names = "packets bytes fin reset zero_windows zero_window_ns window_full".split()
    counts = "offset missing_bytes retransmitted_bytes out_of_order".split()
    found: list[object] = [flow.id, flow.originator, flow.responder, flow.last_ns, flow.end]
    for side in flow.sides:
        found += [getattr(side, name) for name in names]
        found += [getattr(side.stream, name) for name in counts]
    return found


def life(segments: list[Segment]) -> tuple[Seen, list[list[object]]]:
    """The deliveries of these segments, and the facts of the flows that are left."""
    table = FlowTable(Stream)
    deliveries = [one for segment in segments for one in seen(table.add(segment))]
    return deliveries, [facts(flow) for flow in table.deadlines()]


@pytest.mark.parametrize("late", LATE)
def test_a_late_packet_finds_a_flow_as_it_was(
    monkeypatch: pytest.MonkeyPatch, late: Callable[[Conversation], None]
) -> None:
    made = conversation()
    late(made)
    segments = segments_of(made.records)
    kept = life(segments)
    monkeypatch.setattr(flow_table, "_UNPACKED", 0)
    assert life(segments) == kept


@pytest.mark.parametrize("accepted", [False, True])
def test_what_is_packed_comes_back(accepted: bool) -> None:
    table = FlowTable(Stream)
    for segment in segments_of(conversation().records[accepted:]):
        table.add(segment)
    ((flow, _),) = table.deadlines().items()
    before = facts(flow)
    pack(flow)
    assert flow.packed and not flow.sides
    unpack(flow, Stream)
    assert facts(flow) == before and not flow.packed
    for way in Direction:
        assert (
            flow.side(way).key
            == segments_of(conversation().records)[way is Direction.RESPONDER].key
        )


def test_a_flow_without_payload_is_not_packed() -> None:
    """It takes no more, and is the first to be dropped, which its sides say."""
    table = FlowTable(Stream)
    for segment in segments_of(Conversation().handshake().close().records):
        table.add(segment)
    ((flow, _),) = table.deadlines().items()
    pack(flow)
    assert flow.complete and not flow.packed
