"""The last deliveries of flows."""

from __future__ import annotations

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.ends import beginning, ends, oddity
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Direction

from tests.support.pcapwriter import Conversation
from tests.support.segments import segments_of


def test_flows_end_in_the_order_in_which_they_began() -> None:
    table = FlowTable(Stream)
    late, early = (
        Conversation(("10.0.0.1", port), now_ns=port * 10**9).handshake() for port in (7, 5)
    )
    for segment in segments_of([*late.records, *early.records]):
        table.add(segment)
    flows = list(table.deadlines())
    assert beginning(flows[0]) > beginning(flows[1])
    delivered = [(flow.first_ns, way, items) for flow, way, items in ends(flows)]
    ways = list(Direction)
    assert delivered == [(port * 10**9, way, []) for port in (5, 7) for way in ways]
    assert all(flow.over for flow in flows)


def test_an_anomaly_has_the_place_of_its_witness() -> None:
    (witness,) = segments_of(Conversation().handshake().records[:1])
    found = oddity(witness, 7, Anomaly.EVICTED)
    assert (found.ts_ns, found.number, found.offset, found.length) == (witness.ts_ns, 1, 7, 0)
