"""Flows: who opened them, where they begin and end, and that the table stays small."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dissect.nats.tcp.flow import Delivery, End, Flow
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.limits import FlowLimits
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Direction, Gap

from tests.support.pcapwriter import START_NS, Conversation, Record
from tests.support.segments import segments_of
from tests.support.tcp_conversation import ACK, FIN, PSH, RST, SYN

ORIGINATOR, RESPONDER = Direction.ORIGINATOR, Direction.RESPONDER
SECOND = 10**9


class Account:
    """What a table delivered, flow by flow."""

    def __init__(self, limits: FlowLimits | None = None) -> None:
        self.table = FlowTable(Stream, limits) if limits else FlowTable(Stream)
        self.flows: list[Flow] = []
        self.streams: dict[tuple[Flow, Direction], bytes] = {}
        self.missing: dict[tuple[Flow, Direction], int] = {}
        self.ends: list[tuple[Flow, Direction]] = []

    def take(self, deliveries: Iterable[Delivery]) -> None:
        for flow, direction, items in deliveries:
            if flow not in self.flows:
                self.flows.append(flow)
            where = flow, direction
            if flow.over:
                self.ends.append(where)
            data = [item.data for item in items if isinstance(item, Chunk)]
            self.streams[where] = self.streams.get(where, b"") + b"".join(data)
            lost = [item.length for item in items if isinstance(item, Gap)]
            self.missing[where] = self.missing.get(where, 0) + sum(lost)

    def feed(self, records: Iterable[Record]) -> Account:
        for segment in segments_of(records):
            self.take(self.table.add(segment))
        return self

    def finish(self) -> Account:
        self.take(self.table.finish())
        return self


def account(records: Iterable[Record], limits: FlowLimits | None = None) -> Account:
    return Account(limits).feed(records).finish()


def test_a_whole_connection() -> None:
    conversation = Conversation().handshake().from_server(b"INFO").from_client(b"CONNECT").close()
    done = account(conversation.records)
    (flow,) = done.flows
    assert (flow.originator, flow.responder) == ("10.0.0.1:40000", "10.0.0.2:4222")
    assert (flow.first_ns, flow.last_ns) == (
        conversation.records[0].ts_ns,
        conversation.records[-1].ts_ns,
    )
    assert (flow.midstream, flow.end, flow.ended_by) == (False, End.FIN, ORIGINATOR)
    assert done.streams == {(flow, ORIGINATOR): b"CONNECT", (flow, RESPONDER): b"INFO"}
    assert done.ends == [(flow, ORIGINATOR), (flow, RESPONDER)]
    sides = flow.side(ORIGINATOR), flow.side(RESPONDER)
    assert [(side.packets, side.bytes) for side in sides] == [(6, 7), (4, 4)]


def test_bytes_come_out_as_they_arrive() -> None:
    opening, speaking = Conversation().handshake(), Conversation()
    done = Account().feed(opening.records)
    assert done.flows == []
    done.feed(speaking.handshake().from_server(b"INFO").records[3:])
    (flow,) = done.flows
    assert done.streams == {(flow, RESPONDER): b"INFO"}
    assert not flow.over
    done.finish()
    assert flow.over
    assert list(done.table.finish()) == []


def test_ipv6_endpoints_are_in_brackets() -> None:
    (flow,) = account(Conversation(("fd00::1", 1), ("fd00::2", 2)).handshake().records).flows
    assert (flow.originator, flow.responder) == ("[fd00::1]:1", "[fd00::2]:2")


# Who opened it


def test_a_syn_ack_alone_says_who_accepted() -> None:
    done = account(Conversation().handshake().from_server(b"INFO").records[1:])
    (flow,) = done.flows
    assert (flow.originator, flow.midstream) == ("10.0.0.1:40000", False)
    assert done.streams[flow, RESPONDER] == b"INFO"


def test_midstream_the_first_sender_counts_as_originator() -> None:
    done = account(Conversation().handshake().from_server(b"MSG").from_client(b"PUB").records[3:])
    (flow,) = done.flows
    assert (flow.originator, flow.midstream) == ("10.0.0.2:4222", True)
    assert done.streams == {(flow, ORIGINATOR): b"MSG", (flow, RESPONDER): b"PUB"}


def test_a_flow_can_be_turned_round() -> None:
    conversation = Conversation().handshake().from_server(b"MSG").from_client(b"PUB").close()
    done = Account().feed(conversation.records[3:7])
    (flow,) = done.flows
    flow.swap()
    assert (flow.originator, flow.responder) == ("10.0.0.1:40000", "10.0.0.2:4222")
    assert flow.side(RESPONDER).bytes == 3
    done.feed(conversation.records[7:])
    assert flow.ended_by is ORIGINATOR
    flow.swap()
    assert flow.ended_by is RESPONDER
    done.finish()
    assert done.ends == [(flow, ORIGINATOR), (flow, RESPONDER)]


def test_a_late_syn_says_who_opened_the_flow() -> None:
    conversation = Conversation().handshake().from_server(b"INFO").from_client(b"CONNECT")
    syn, syn_ack, ack, *rest = conversation.records
    done = account([rest[0], syn_ack, syn, ack, *rest[1:]])
    (flow,) = done.flows
    assert (flow.originator, flow.midstream) == ("10.0.0.1:40000", False)
    assert done.streams == {(flow, ORIGINATOR): b"CONNECT", (flow, RESPONDER): b"INFO"}


def test_a_syn_that_is_later_than_delivered_bytes_turns_nothing_round() -> None:
    conversation = Conversation().handshake().from_server(b"INFO").from_client(b"CONNECT")
    syn, syn_ack, ack, *rest = conversation.records
    done = account([*rest, syn])
    (flow,) = done.flows
    assert (flow.originator, flow.midstream) == ("10.0.0.2:4222", True)


def test_an_endpoint_may_talk_to_itself() -> None:
    conversation = Conversation(("10.0.0.1", 7), ("10.0.0.1", 7))
    conversation.packet(conversation.client, SYN)
    conversation.packet(conversation.client, PSH | ACK, b"echo")
    done = account(conversation.records)
    (flow,) = done.flows
    assert done.streams[flow, ORIGINATOR] == b"echo"


# The other direction's gaps


def test_an_ack_gives_up_a_gap_of_the_other_direction() -> None:
    conversation = Conversation().handshake().from_server(b"lost", skip=True).from_server(b"MSG")
    for _ in range(20):
        conversation.packet(conversation.client, ACK)
    done = Account().feed(conversation.records)
    (flow,) = done.flows
    assert done.streams == {(flow, RESPONDER): b"MSG"}
    assert done.missing == {(flow, RESPONDER): 4}


def test_a_request_comes_before_the_answer_that_acknowledges_it() -> None:
    conversation = Conversation()
    conversation.packet(conversation.server, PSH | ACK, b"request")
    conversation.packet(conversation.client, PSH | ACK, b"answer")
    conversation.packet(conversation.server, ACK)
    table = FlowTable(Stream)
    deliveries = [
        delivery for segment in segments_of(conversation.records) for delivery in table.add(segment)
    ]
    assert [direction for _, direction, _ in deliveries] == [ORIGINATOR, RESPONDER]


# Ends


def test_a_reset_ends_a_flow_and_its_text_is_no_data() -> None:
    conversation = Conversation().handshake().from_client(b"PING")
    conversation.packet(conversation.server, RST | ACK, b"go away")
    done = account(conversation.records)
    (flow,) = done.flows
    assert (flow.end, flow.ended_by) == (End.RST, RESPONDER)
    assert done.streams == {(flow, ORIGINATOR): b"PING", (flow, RESPONDER): b""}


def test_the_first_reason_counts() -> None:
    conversation = Conversation().handshake()
    conversation.packet(conversation.server, FIN | ACK)
    conversation.packet(conversation.client, RST)
    (flow,) = account(conversation.records).flows
    assert (flow.end, flow.ended_by) == (End.FIN, RESPONDER)


def test_an_open_flow_ends_with_the_capture() -> None:
    (flow,) = account(Conversation().handshake().records).flows
    assert (flow.end, flow.ended_by, flow.over) == (End.OPEN, None, True)


def test_late_packets_belong_to_a_closed_flow_until_it_goes() -> None:
    conversation = Conversation().handshake().from_client(b"one", skip=True).close()
    done = Account().feed(conversation.records)
    late = Conversation().handshake().from_client(b"one").records[3]
    done.feed([Record(conversation.now_ns + 59 * SECOND, late.data)])
    (flow,) = done.flows
    assert done.streams[flow, ORIGINATOR] == b"one"
    assert done.ends == []
    other = Conversation(("10.0.0.3", 1), now_ns=conversation.now_ns + 61 * SECOND).handshake()
    done.feed(other.records[:1])
    assert done.ends == [(flow, ORIGINATOR), (flow, RESPONDER)]


def test_what_comes_after_a_flow_went_is_another_one() -> None:
    conversation = Conversation().handshake().close()
    done = account(
        [
            *conversation.records,
            Record(conversation.now_ns + 100 * SECOND, conversation.records[-1].data),
        ]
    )
    assert [flow.midstream for flow in done.flows] == [False, True]


# Ports are reused


@pytest.mark.parametrize("closed", [True, False])
def test_a_syn_with_another_number_begins_the_next_flow(closed: bool) -> None:
    first = Conversation().handshake().from_client(b"one")
    if closed:
        first.close()
    second = (
        Conversation(isn=(70000, 90000), now_ns=first.now_ns + SECOND)
        .handshake()
        .from_client(b"two")
    )
    done = account(first.records + second.records)
    one, two = done.flows
    assert (done.streams[one, ORIGINATOR], done.streams[two, ORIGINATOR]) == (b"one", b"two")
    assert one.community_id == two.community_id
    assert one.id != two.id
    assert done.ends == [(one, ORIGINATOR), (one, RESPONDER), (two, ORIGINATOR), (two, RESPONDER)]


def test_the_same_syn_again_does_not() -> None:
    conversation = Conversation().handshake().from_client(b"one")
    assert len(account([*conversation.records[:1], *conversation.records]).flows) == 1


def test_the_other_side_may_open_the_next_flow() -> None:
    first = Conversation().handshake().close()
    second = Conversation(first.server, first.client, isn=(7, 8), now_ns=first.now_ns).handshake()
    assert [flow.originator for flow in account(first.records + second.records).flows] == [
        "10.0.0.1:40000",
        "10.0.0.2:4222",
    ]


def test_a_flow_that_ended_for_a_syn_is_not_ended_again_when_its_time_comes() -> None:
    first = Conversation().handshake().close()
    second = Conversation(isn=(70000, 90000), now_ns=first.now_ns).handshake()
    later = Conversation(("10.0.0.3", 1), now_ns=first.now_ns + 100 * SECOND).handshake()
    done = account(first.records + second.records + later.records)
    assert len(done.ends) == 2 * len(done.flows) == 6


# The table stays small


def test_silence_ends_a_flow() -> None:
    limits = FlowLimits(idle_ns=100 * SECOND)
    quiet = Conversation().handshake()
    busy = Conversation(("10.0.0.3", 1)).handshake()
    done = Account(limits).feed(quiet.records + busy.records)
    for _ in range(5):
        busy.now_ns += 40 * SECOND
        done.feed(busy.from_client(b"PING").records[-2:])
    (flow, _), *_ = done.ends
    assert flow.originator == "10.0.0.1:40000"
    assert len(done.ends) == 2


@pytest.mark.parametrize("size", [0, 4])
def test_the_same_ports_after_silence_are_another_flow(size: int) -> None:
    conversation = Conversation().handshake()
    conversation.now_ns += 100 * SECOND
    done = Account(FlowLimits(idle_ns=60 * SECOND)).feed(conversation.records)
    conversation.packet(conversation.client, PSH | ACK, b"x" * size)
    done.feed(conversation.records[-1:]).finish()
    assert [flow.midstream for flow in done.flows] == [False, True]


def test_silence_ends_a_flow_at_the_same_time_whoever_else_talks() -> None:
    quiet, busy = Conversation().handshake(), Conversation(("10.0.0.3", 1)).handshake()
    done = Account(FlowLimits(idle_ns=100 * SECOND)).feed(quiet.records + busy.records)
    busy.now_ns += 90 * SECOND
    done.feed(busy.from_client(b"PING").records[-2:])
    assert done.ends == []
    quiet.now_ns += 105 * SECOND
    done.feed(quiet.from_client(b"PING").records[-2:])
    assert [flow.originator for flow, way in done.ends if way is ORIGINATOR] == ["10.0.0.1:40000"]


def test_closed_flows_go_one_after_the_other() -> None:
    done = Account()
    for port, start in ((1, 0), (2, 30), (3, 61), (4, 91)):
        done.feed(
            Conversation(("10.0.0.1", port), now_ns=START_NS + start * SECOND)
            .handshake()
            .close()
            .records
        )
    assert [flow.originator for flow, way in done.ends if way is ORIGINATOR] == [
        "10.0.0.1:1",
        "10.0.0.1:2",
    ]


def test_too_many_flows_push_out_the_closed_the_empty_and_the_longest_silent() -> None:
    done = Account(FlowLimits(max_flows=16))

    def conversation(port: int) -> Conversation:
        return Conversation(("10.0.0.1", port), now_ns=START_NS + port * SECOND).handshake()

    done.feed(conversation(1).from_client(b"PING").records)
    done.feed(conversation(2).records)
    done.feed(conversation(3).from_client(b"PING").close().records)
    for port in range(4, 20):
        done.feed(conversation(port).from_client(b"PING").records)
    assert done.table.evicted == 3
    assert [flow.originator for flow, way in done.ends if way is ORIGINATOR] == [
        "10.0.0.1:1",
        "10.0.0.1:2",
        "10.0.0.1:3",
    ]
    assert len(done.finish().flows) == 19


def test_time_may_run_backwards() -> None:
    conversation = Conversation().handshake().from_client(b"one").from_server(b"two").close()
    backwards = [
        Record(record.ts_ns, other.data)
        for record, other in zip(reversed(conversation.records), conversation.records, strict=True)
    ]
    done = account(backwards)
    (flow,) = done.flows
    assert done.streams == {(flow, ORIGINATOR): b"one", (flow, RESPONDER): b"two"}
    assert flow.last_ns == flow.first_ns


def test_a_flow_is_complete_once_with_both_fins() -> None:
    table = FlowTable(Stream)
    conversation = Conversation().handshake().from_server(b"INFO").close()
    found = [table.add(segment) for segment in segments_of(conversation.records)]
    (flow, *_), (other, *_) = found[-2]
    assert flow is other and flow.complete and not flow.over
    assert found[-2] == [(flow, ORIGINATOR, []), (flow, RESPONDER, [])] and found[-1] == []
