"""Clocks of captures that are set back, and packets with wrong times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats import CaptureReport, Options
from dissect.nats.capture.report import FileReport
from dissect.nats.commands.captures.info import info_text, traffic
from dissect.nats.pipeline import records, released
from dissect.nats.schema.records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    RequestRecord,
    SessionRecord,
)
from dissect.nats.types import Share

from tests.support.partitioned import in_one, in_partitions, in_shares
from tests.support.pcapwriter import (
    RAW,
    START_NS,
    Conversation,
    Interface,
    Record,
    pcap_file,
    pcapng_file,
)
from tests.support.tenants import said, together

HOUR, YEAR = 3600 * 10**9, 365 * 24 * 3600 * 10**9


def asked(count: int = 4) -> list[Record]:
    """A client that sends requests and gets replies."""
    talk = Conversation(linktype=RAW, isn=(1000, 5000)).handshake()
    talk.from_server(b'INFO {"server_id":"NA","version":"2.15.3","headers":true}\r\n')
    talk.from_client(b'CONNECT {"verbose":false,"lang":"go"}\r\nPING\r\n').from_server(b"PONG\r\n")
    talk.from_client(b"SUB in.* 1\r\n")
    for number in range(count):
        talk.from_client(b"PUB ask in.%d 1\r\nx\r\n" % number)
        talk.from_server(b"MSG in.%d 1 1\r\ny\r\n" % number)
    return talk.records


def set_back(packets: list[Record], at: int, by_ns: int) -> list[Record]:
    return packets[:at] + [replace(each, ts_ns=each.ts_ns - by_ns) for each in packets[at:]]


def pcapng(packets: list[Record]) -> bytes:
    return pcapng_file(packets, [Interface(RAW)])


@pytest.mark.parametrize("write", [lambda packets: pcap_file(packets, RAW), pcapng])
@pytest.mark.parametrize("by_ns", [300_000_000, 10 * 10**9, HOUR])
def test_a_clock_that_is_set_back_is_said(
    by_ns: int, write: Callable[[list[Record]], bytes], tmp_path: Path
) -> None:
    packets = set_back(asked(), 16, by_ns)
    path = tmp_path / "back.pcap"
    path.write_bytes(write(packets))
    report = CaptureReport()
    found = traffic([str(path)], Options(), report)
    (file,) = report.files
    times = [each.ts_ns for each in packets]
    assert (file.earliest_ns, file.last_ns) == (min(times), max(times))
    assert file.back_ns == max(times) - min(times)
    assert "goes back by up to" in "".join(info_text(report, found))
    assert found.anomalies["clock_back"] == 2


def test_packets_slightly_out_of_order_are_no_step() -> None:
    file = FileReport("a", "a")
    file.saw(START_NS, START_NS + 10, START_NS - 50_000_000)
    file.saw(START_NS - 60_000_000, START_NS)
    assert (file.back_ns, file.earliest_ns) == (0, START_NS)


@pytest.mark.parametrize("at", range(11, 25))
def test_a_latency_across_a_step_back_is_absent(at: int, tmp_path: Path) -> None:
    packets = set_back(asked(), at, HOUR)
    path = tmp_path / "back.pcap"
    path.write_bytes(pcap_file(packets, RAW))
    rows = list(records([str(path)], ["requests", "frames", "sessions"]))
    latencies = [row.latency_ns for row in rows if isinstance(row, RequestRecord)]
    assert len(latencies) == 4 and 0 not in latencies and latencies.count(None) <= 1
    times = {each.ts_ns // 1000 * 1000 for each in packets}
    frames = [row for row in rows if isinstance(row, FrameRecord)]
    assert {frame.ts_ns for frame in frames} <= times
    (session,) = [row for row in rows if isinstance(row, SessionRecord)]
    assert session.last_ns == max(times) and (session.rtt_ns or 0) > 0


@pytest.mark.parametrize("at", [0, 2, 9, 14, 20])
def test_one_packet_a_year_ahead_ends_no_flow(at: int, tmp_path: Path) -> None:
    packets = asked()
    other = [replace(each, data=each.data.replace(b"\x9c\x40", b"\x9c\x41")) for each in packets]
    packets[at] = replace(packets[at], ts_ns=packets[at].ts_ns + YEAR)
    path = tmp_path / "ahead.pcap"
    path.write_bytes(pcap_file([each for two in zip(other, packets) for each in two], RAW))
    rows = list(records([str(path)], ["flows", "frames"]))
    flows = [row for row in rows if isinstance(row, FlowRecord)]
    assert [flow.end for flow in flows] == ["open", "open"]
    assert sum(isinstance(row, FrameRecord) for row in rows) == 2 * 13


def test_a_jump_with_which_later_packets_agree_ends_flows(tmp_path: Path) -> None:
    first = said(b"a", (1000, 5000))
    later = said(b"b", (1, 2), START_NS + YEAR)
    later = [replace(each, data=each.data.replace(b"\x9c\x40", b"\x9c\x41")) for each in later]
    path = tmp_path / "later.pcap"
    path.write_bytes(pcap_file(first + later, RAW))
    flows = [row for row in records([str(path)], ["flows"]) if isinstance(row, FlowRecord)]
    assert [flow.end for flow in flows] == ["idle", "open"]


@pytest.mark.parametrize("hours", [7, 48, 960])
@pytest.mark.parametrize("flows", [1, 2])
def test_packets_of_which_each_is_hours_later_are_the_same_in_partitions_and_shares(
    flows: int, hours: int, tmp_path: Path
) -> None:
    packets = asked(30)
    other = [replace(each, data=each.data.replace(b"\x9c\x40", b"\x9c\x41")) for each in packets]
    mixed = packets if flows == 1 else [each for two in zip(packets, other) for each in two]
    late = [
        replace(each, ts_ns=START_NS + number * hours * HOUR) for number, each in enumerate(mixed)
    ]
    path = tmp_path / "days.pcap"
    path.write_bytes(pcap_file(late, RAW))
    whole = in_one([str(path)])
    for size in (300, 1_000, 5_000):
        assert in_partitions([str(path)], size) == whole
    assert in_shares([str(path)], 1_500, 3) == whole


@pytest.mark.parametrize("at", [5, 40, 100, 150])
@pytest.mark.parametrize("change", ["back", "ahead", "both"])
def test_rows_are_the_same_in_partitions_and_shares(change: str, at: int, tmp_path: Path) -> None:
    packets = asked(40)
    other = [replace(each, data=each.data.replace(b"\x9c\x40", b"\x9c\x41")) for each in packets]
    mixed = together(packets, [replace(each, ts_ns=each.ts_ns + 300_000) for each in other])
    if change != "ahead":
        mixed = set_back(mixed, at, HOUR)
    if change != "back":
        mixed[at + 7] = replace(mixed[at + 7], ts_ns=mixed[at + 7].ts_ns + YEAR)
    path = tmp_path / "clocks.pcap"
    path.write_bytes(pcap_file(mixed, RAW))
    whole = in_one([str(path)])
    assert sum(isinstance(row, AnomalyRecord) for row in whole) > 0
    for size in (1_500, 5_000):
        assert in_partitions([str(path)], size) == whole
    assert in_shares([str(path)], 1_500, 3) == whole
    parts = [
        list(released([str(path)], ["flows"], share=Share(each, range(2)))) for each in range(2)
    ]
    assert sum(len(rows.records) for part in parts for rows in part) == 2
