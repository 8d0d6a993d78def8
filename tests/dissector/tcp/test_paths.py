"""Connections between the same endpoints at the same time, and one connection on several paths."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FlowRecord, FrameRecord, Record, SessionRecord

from tests.support.partitioned import in_one, in_partitions, in_shares
from tests.support.pcapwriter import START_NS, Interface
from tests.support.pcapwriter import Record as Captured
from tests.support.pcapwriter import link, pcapng_file
from tests.support.tenants import (
    Wrap,
    captured,
    geneve,
    gre,
    gtp,
    mpls,
    said,
    together,
    vlan,
    vxlan,
)

TWO = [Interface(), Interface()]
FAR, AHEAD, BEHIND = (900_000_000, 700_000_000), (1100, 5100), (700, 4700)
_OF_CAPTURE = {"session", "number", "packet", "capture", "path"}
NETWORKS: list[tuple[Wrap, Wrap, int, str, str]] = [
    (vlan(10), vlan(20), 0, "vlan 10", "vlan 20"),
    (vlan(10, 7), vlan(20, 7), 0, "vlan 10, vlan 7", "vlan 20, vlan 7"),
    (vlan(7, 10), vlan(7, 20), 0, "vlan 7, vlan 10", "vlan 7, vlan 20"),
    (vxlan(5), vxlan(6), 0, "vni 5", "vni 6"),
    (geneve(5), geneve(6), 0, "vni 5", "vni 6"),
    (gre(1), gre(2), 0, "key 1", "key 2"),
    (mpls(100, 16), mpls(100, 17), 0, "mpls 100, mpls 16", "mpls 100, mpls 17"),
    (gtp(1), gtp(2), 0, "teid 1", "teid 2"),
    (link, link, 1, "interface 0", "interface 1"),
    (link, vlan(20), 1, "interface 0", "interface 1, vlan 20"),
    (vxlan(5), gre(5), 0, "vni 5", "key 5"),
]
IDS = [f"{one} {other}" for _, _, _, one, other in NETWORKS]


def rows(table: str, packets: list[Captured], tmp_path: Path) -> list[Record]:
    path = tmp_path / "tenants.pcapng"
    path.write_bytes(pcapng_file(packets, TWO))
    return list(records([str(path)], [table], Options()))


def facts(row: Record) -> dict[str, object]:
    """The columns that do not depend on what else the capture has."""
    names = {field.name for field in fields(row)} - _OF_CAPTURE
    return {name: getattr(row, name) for name in sorted(names)}


@pytest.mark.parametrize("network", NETWORKS, ids=IDS)
@pytest.mark.parametrize("isn", [FAR, AHEAD, BEHIND], ids=["far", "ahead", "behind"])
@pytest.mark.parametrize("syn", [True, False], ids=["handshake", "midstream"])
@pytest.mark.parametrize("table", ["sessions", "flows", "frames"])
def test_tenants_have_the_rows_that_each_has_alone(
    table: str,
    syn: bool,
    isn: tuple[int, int],
    network: tuple[Wrap, Wrap, int, str, str],
    tmp_path: Path,
) -> None:
    first, second, interface, *_ = network
    one = captured(said(b"a", (1000, 5000), syn=syn), first)
    other = captured(said(b"b", isn, START_NS + 300_000, syn=syn), second, interface)
    alone = [facts(row) for part in (one, other) for row in rows(table, part, tmp_path)]
    found = [facts(row) for row in rows(table, together(one, other), tmp_path)]
    key = str if table == "frames" else repr
    assert sorted(map(key, found)) == sorted(map(key, alone))


@pytest.mark.parametrize("distance", [(-25_635, 27_809), (-1, 1), (700, -300), (-40_000, -9)])
@pytest.mark.parametrize("kept", [2, 5])
def test_a_side_that_has_sent_no_bytes_yet_takes_none_of_another_tenant(
    kept: int, distance: tuple[int, int], tmp_path: Path
) -> None:
    near = 100_000 + distance[0], 500_000 + distance[1]
    one = said(b"a", (100_000, 500_000), syn=False)[kept:]
    other = said(b"b", near, START_NS + 300_000, syn=False)
    both = captured(one, vlan(10)), captured(other, vlan(20))
    frames = rows("frames", together(*both), tmp_path)
    tenants = {
        (row.session, row.subject) for row in frames if isinstance(row, FrameRecord) and row.subject
    }
    assert len(tenants) == len({session for session, _ in tenants}) == 2


@pytest.mark.parametrize("network", NETWORKS, ids=IDS)
def test_the_flows_of_tenants_show_their_paths(
    network: tuple[Wrap, Wrap, int, str, str], tmp_path: Path
) -> None:
    first, second, interface, *paths = network
    one = captured(said(b"a", (1000, 5000)), first)
    other = captured(said(b"b", FAR), second, interface)  # each packet at the time of the other's
    flows = rows("flows", together(one, other), tmp_path)
    assert len({flow.session for flow in flows if isinstance(flow, FlowRecord)}) == 2
    texts = [flow.path for flow in flows if isinstance(flow, FlowRecord)]
    expected = [
        f"interface 0, {path}" if not path.startswith("interface") else path for path in paths
    ]
    assert sorted(map(str, texts)) == sorted(expected)


@pytest.mark.parametrize("network", NETWORKS, ids=IDS)
@pytest.mark.parametrize("delay_ns", [0, 7_000, 2_500_000])
@pytest.mark.parametrize("syn", [True, False], ids=["handshake", "midstream"])
def test_a_packet_on_two_paths_is_one_packet_and_a_duplicate(
    syn: bool, delay_ns: int, network: tuple[Wrap, Wrap, int, str, str], tmp_path: Path
) -> None:
    first, second, interface, *_ = network
    packets = said(b"a", (1000, 5000), syn=syn)
    later = [replace(each, ts_ns=each.ts_ns + delay_ns) for each in packets]
    both = together(captured(packets, first), captured(later, second, interface))
    (session,) = rows("sessions", both, tmp_path)
    (alone,) = rows("sessions", captured(packets, first), tmp_path)
    assert isinstance(session, SessionRecord) and isinstance(alone, SessionRecord)
    assert session.frames_originator == alone.frames_originator
    assert session.frames_responder == alone.frames_responder
    assert (session.retransmitted_bytes, session.missing_bytes) == (0, 0)
    (flow,) = rows("flows", captured(packets, first), tmp_path)
    assert isinstance(flow, FlowRecord)
    assert session.duplicate_bytes == flow.bytes_originator + flow.bytes_responder
    assert len(rows("frames", both, tmp_path)) == len(
        rows("frames", captured(packets, first), tmp_path)
    )


def test_each_direction_may_have_a_path_of_its_own(tmp_path: Path) -> None:
    packets = said(b"a", (1000, 5000))
    source = packets[0].data[12:16]
    both = [replace(each, interface=int(each.data[12:16] != source)) for each in packets]
    both = [replace(each, data=link(each.data)) for each in both]
    (flow,) = rows("flows", both, tmp_path)
    assert isinstance(flow, FlowRecord) and flow.start == "handshake"
    assert (flow.duplicate_bytes, flow.missing_originator, flow.path) == (0, 0, None)
    kinds = [row.op for row in rows("frames", both, tmp_path) if isinstance(row, FrameRecord)]
    assert kinds.count("PUB") == kinds.count("MSG") == 5


def test_ports_that_are_used_again_on_the_same_path_end_the_old_connection(tmp_path: Path) -> None:
    one = captured(said(b"a", (1000, 5000)), vlan(10))
    other = captured(said(b"b", FAR, START_NS + 10**9), vlan(10))
    last = said(b"a", (1000, 5000))[-1]
    late = captured([replace(last, ts_ns=START_NS + 10**9 + 100)], vlan(20))
    flows = rows("flows", together(one, other), tmp_path)
    assert [flow.path for flow in flows if isinstance(flow, FlowRecord)] == ["vlan 10"] * 2
    assert len(rows("sessions", together(one, late, other), tmp_path)) == 2


def test_a_mirror_doubles_packets_on_one_path(tmp_path: Path) -> None:
    packets = captured(said(b"a", (1000, 5000)), link)
    copies = [replace(each, ts_ns=each.ts_ns + 4_000) for each in packets]
    (session,) = rows("sessions", together(packets, copies), tmp_path)
    again = [replace(each, ts_ns=each.ts_ns + 250_000_000) for each in packets]
    (other,) = rows("sessions", together(packets, again), tmp_path)
    assert isinstance(session, SessionRecord) and isinstance(other, SessionRecord)
    assert session.duplicate_bytes > 0 == session.retransmitted_bytes
    assert other.retransmitted_bytes == session.duplicate_bytes
    assert other.duplicate_bytes == 0


@pytest.mark.parametrize("network", [NETWORKS[0], NETWORKS[-2]], ids=[IDS[0], IDS[-2]])
@pytest.mark.parametrize("syn", [True, False], ids=["handshake", "midstream"])
@pytest.mark.parametrize("start_ns", [300_000, 90_300_000, 400_000_000])
def test_tenants_have_the_same_rows_in_partitions(
    start_ns: int, syn: bool, network: tuple[Wrap, Wrap, int, str, str], tmp_path: Path
) -> None:
    first, second, interface, *_ = network
    one = captured(said(b"a", (1000, 5000), count=90, syn=syn), first)
    other = captured(said(b"b", FAR, START_NS + start_ns, 60, syn), second, interface)
    path = tmp_path / "tenants.pcapng"
    path.write_bytes(pcapng_file(together(one, other), TWO))
    whole = in_one([str(path)])
    assert sum(isinstance(row, SessionRecord) for row in whole) == 2
    for size in (4_000, 15_000):
        assert in_partitions([str(path)], size) == whole
    assert in_shares([str(path)], 4_000, 3) == whole


@pytest.mark.parametrize("syn", [True, False], ids=["handshake", "midstream"])
def test_copies_on_another_path_have_the_same_rows_in_partitions(syn: bool, tmp_path: Path) -> None:
    packets = said(b"a", (1000, 5000), count=90, syn=syn)
    later = [replace(each, ts_ns=each.ts_ns + 4_000) for each in packets[:60] + packets[90:]]
    path = tmp_path / "tenants.pcapng"
    both = together(captured(packets, vlan(10)), captured(later, vlan(20), 1))
    path.write_bytes(pcapng_file(both, TWO))
    for size in (4_000, 15_000):
        assert in_partitions([str(path)], size) == in_one([str(path)])
