"""The law without Spark: however captures are cut, the rows are those of one reading."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dissect.nats.partition import survey
from dissect.nats.partition.flow_shares import FlowShares
from dissect.nats.schema.records import FlowRecord
from dissect.nats.schema.records import Record as Row
from dissect.nats.spark.tasks import stages
from dissect.nats.spark.tasks.inputs import SharedFlows, Timeline, WholeTimelines
from dissect.nats.spark.tasks.stages import (
    DecodeCounts,
    chunk_contexts,
    decode,
    needs_resurvey,
)
from dissect.nats.types import EARLIEST_NS

from tests.dissector.fuzzing.kernel import PLANS, Count, generated, kernel
from tests.support.conversations import CONNECT, INFO
from tests.support.crafted import crafted
from tests.support.damage import Pcap, harm, pcap_bytes, read_pcap, snap, start_at
from tests.support.partitioned import (
    WORK,
    chunks_of,
    in_one,
    in_partitions,
    in_shares,
    planned,
    share_of,
    stitched,
    surveyed,
)
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, Record, fragments, link, pcap_file

NAMES = sorted(path.name for path in CAPTURES.iterdir() if path.suffix in (".pcap", ".pcapng"))
HOUR_NS = 3600 * 10**9


def written(tmp_path: Path, records: list[Record], name: str = "t.pcap") -> str:
    path = tmp_path / name
    path.write_bytes(pcap_file(records))
    return str(path)


def is_the_same(paths: list[str], size: int = 4096) -> None:
    assert len(planned(paths, size)) > 1
    assert in_partitions(paths, size) == in_one(paths)


@cache
def rows_of_sample(path: str) -> list[Row]:
    """The rows that two tests compare with, made once."""
    return in_one([path])


@pytest.mark.parametrize("name", NAMES)
def test_each_sample_cut_anywhere_gives_the_rows_of_one_reading(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(CAPTURES / name)
    whole = rows_of_sample(path)
    for size in (4096, 65536, 1 << 30):
        if size < 1 << 30 or len(planned([path], 65536)) > 1:  # else it is the same partition again
            assert in_partitions([path], size) == whole, size
    monkeypatch.setattr(survey, "_SETTLED_PACKETS", 1)
    assert in_partitions([path], 8192) == whole, "with summaries only"


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_in_shares_of_its_flows(name: str) -> None:
    path = str(CAPTURES / name)
    for count in (1, 3):
        assert in_shares([path], 16384, count) == rows_of_sample(path), count


def test_flows_that_end_by_the_time_of_others_in_shares(tmp_path: Path) -> None:
    one = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    records = [*one.records, *filler(one.now_ns), *filler(one.now_ns + 30 * HOUR_NS)]
    assert in_shares([path := written(tmp_path, records)], 4096, 2) == in_one([path])
    assert in_shares([path := fragmented(tmp_path, 7)], 4096, 2) == in_one([path])


def test_packets_without_tcp_are_counted_by_one_share(tmp_path: Path) -> None:
    path = fragmented(tmp_path, 7)
    flows = SharedFlows(planned([path], 4096), FlowShares(3, range(3)))
    counts = [DecodeCounts() for _ in range(3)]
    for number, count in enumerate(counts):
        list(decode(WORK, flows, number, (), (), count))
    assert counts[0].passed_over["ip fragment, joined with others"] > 0
    assert not counts[1].passed_over and not counts[2].passed_over


@pytest.mark.xdist_group("kernel")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(len(PLANS)))
def test_the_kernel_makes_the_same_rows(number: int, tmp_path: Path) -> None:
    path = str(tmp_path / "t.pcap")
    Path(path).write_bytes(pcap_bytes(generated(number)))
    tables = ("frames", "sessions", "subscriptions", "anomalies")
    with kernel("off", 3000, Count()):
        plain = in_one([path], tables)
    for size in (200_000, 1 << 30):
        count = Count()
        with kernel("on", 3000, count):
            assert in_partitions([path], size, tables) == plain, size
        assert count.kept > 500
        for shares in (1, 3):
            count = Count()
            with kernel("on", 3000, count):
                assert in_shares([path], size, shares, tables) == plain, (size, shares)
            assert count.kept > 500


def test_why_the_kernel_did_not_decode_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_read_bytes", 0)
    path = str(CAPTURES / "core-2.15.1.pcap")
    spec = replace(WORK, tables=frozenset({"sessions"}))
    found = planned([path], 1 << 30)
    cases = [
        (WORK, SharedFlows(found, FlowShares(1, [0])), "its tables or options need every frame"),
        (spec, SharedFlows(found, FlowShares(2, [0, 1])), "there are few packets"),
        (spec, WholeTimelines([Timeline(found)]), "there are few packets"),
    ]
    for spec, inputs, why in cases:
        counts = DecodeCounts()
        list(decode(spec, inputs, 0, (), (), counts))
        assert (counts.with_kernel, counts.without_kernel) == (0, {why: 1})


def test_a_flow_that_was_silent_before_is_read_again(tmp_path: Path) -> None:
    conversation, other = Conversation(), Conversation(client=("10.0.0.9", 41000))
    conversation.handshake().from_server(INFO).from_client(CONNECT)
    for number in range(335):
        conversation.from_client(b"PUB a.%d 40\r\n%b\r\n" % (number, b"x" * 40))
    records = conversation.records
    other.from_server(INFO).from_client(CONNECT)
    for number in range(1600):
        other.from_client(b"PUB b.%d 40\r\n%b\r\n" % (number, b"y" * 40))
    records += [replace(each, ts_ns=each.ts_ns + HOUR_NS) for each in other.records]
    path = written(tmp_path, records)
    found = planned([path], 60_000)
    surveys, flows = surveyed(found)
    assert any(met.state is None for some in flows for met in some)
    states = stitched(WORK, chunk_contexts(found, surveys), chunks_of(flows))
    assert any(state.read for state in states)
    is_the_same([path], 60_000)


def test_all_samples_are_one_timeline() -> None:
    is_the_same([str(CAPTURES)], 16384)


def damaged(pcap: Pcap, how: str) -> Pcap:
    if how == "harmed":
        return pcap.with_records(harm(pcap.records, 3, 4, 4, 4)[0])
    if how == "snapped":
        return pcap.with_records(snap(pcap.records, 120))
    if how == "midstream":
        return pcap.with_records(start_at(pcap.records, len(pcap.records) // 3))
    rng = random.Random(how)
    return pcap.with_records(
        [replace(one, ts_ns=one.ts_ns - rng.randrange(2) * 10**9) for one in pcap.records]
    )


@pytest.mark.parametrize("how", ["harmed", "snapped", "midstream", "times go back"])
@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "cluster-2.15.1.pcap", "gateway-2.15.1.pcap"])
def test_a_damaged_capture_gives_the_rows_of_one_reading(
    name: str, how: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(pcap_bytes(damaged(read_pcap((CAPTURES / name).read_bytes()), how)))
    is_the_same([str(path)])


def test_captures_and_nats_inside_payloads(tmp_path: Path) -> None:
    inner = (CAPTURES / "core-2.15.1.pcap").read_bytes()[:12_000]
    nats = b"PUB a 3\r\nabc\r\nMSG b 1 2\r\nhi\r\n" * 200
    conversation = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    for body in (inner, nats, inner + nats):
        conversation.from_client(b"PUB files.raw %d\r\n%b\r\n" % (len(body), body))
    is_the_same([written(tmp_path, conversation.close().records)])


def test_a_message_larger_than_some_partitions(tmp_path: Path) -> None:
    body = bytes(range(256)) * 200
    conversation = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    conversation.from_client(b"PUB a %d\r\n%b\r\nPUB b 0\r\n\r\n" % (len(body), body))
    is_the_same([written(tmp_path, conversation.records)])


def filler(now_ns: int, count: int = 60) -> list[Record]:
    """Another connection, which fills partitions."""
    conversation = (
        Conversation(client=("10.9.9.9", 555), now_ns=now_ns).handshake().from_server(INFO)
    )
    for number in range(count):
        conversation.from_client(b"PUB filler.%d 200\r\n%b\r\n" % (number, b"x" * 200))
    return conversation.records


def test_flows_that_fall_silent_and_wake(tmp_path: Path) -> None:
    first = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    shift = 25 * HOUR_NS
    late = [
        replace(one, ts_ns=one.ts_ns + shift)
        for one in Conversation().from_client(b"PING\r\n").records
    ]
    records = [*first.records, *filler(first.now_ns), *filler(first.now_ns + shift // 2), *late]
    is_the_same([written(tmp_path, [*records, *filler(late[-1].ts_ns)])])


def test_a_port_that_is_used_again(tmp_path: Path) -> None:
    one = Conversation().handshake().from_server(INFO).from_client(CONNECT).close()
    other = (
        Conversation(isn=(900_000, 700_000), now_ns=one.now_ns + 10**9)
        .handshake()
        .from_server(INFO)
    )
    other.from_client(CONNECT).reset(other.client)
    records = [*one.records, *filler(one.now_ns), *other.records, *filler(other.now_ns)]
    path = written(tmp_path, records)
    is_the_same([path])
    assert sum(isinstance(row, FlowRecord) for row in in_one([path])) > 2


def test_the_end_of_a_flow_is_known_from_packets_long_after_it(tmp_path: Path) -> None:
    one = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    records = [*one.records, *filler(one.now_ns), *filler(one.now_ns + 30 * HOUR_NS)]
    path = written(tmp_path, records)
    is_the_same([path])
    ends = [row.end for row in in_one([path]) if isinstance(row, FlowRecord)]
    assert "idle" in ends and "open" in ends


def fragmented(tmp_path: Path, every: int = 1000) -> str:
    """A capture with datagrams in fragments everywhere, without one of `every`."""
    conversation = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    for number in range(40):
        conversation.from_client(b"PUB a.%d 900\r\n%b\r\n" % (number, b"y" * 900))
    pieces: list[Record] = []
    for number, record in enumerate(conversation.records):
        if number % every == every - 1:
            continue
        if len(record.data) > 600:
            parts = fragments("10.0.0.1", "10.0.0.2", record.data[34:], 256, number=number)
            pieces += [Record(record.ts_ns, link(part)) for part in parts]
        else:
            pieces.append(record)
    return written(tmp_path, pieces)


def test_fragments_of_flows_whose_packets_are_read_again(tmp_path: Path) -> None:
    paths = [fragmented(tmp_path, 7)]
    whole = in_one(paths)
    for size in range(1500, 5500, 500):
        assert len(planned(paths, size)) > 1
        assert in_partitions(paths, size) == whole, size


def test_a_time_far_ahead_ends_only_the_flows_before_it(tmp_path: Path) -> None:
    one = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    ahead = [replace(record, ts_ns=record.ts_ns + 30 * HOUR_NS) for record in filler(0, 1)[:1]]
    other = Conversation(client=("10.0.0.7", 700), now_ns=one.now_ns).handshake().from_server(INFO)
    begun = len(other.records)
    other.from_client(CONNECT).close()
    parts = [one.records, ahead, other.records[:begun], filler(one.now_ns), other.records[begun:]]
    is_the_same([written(tmp_path, sum(parts, []))])


def test_fragments_on_both_sides_of_a_cut(tmp_path: Path) -> None:
    path = fragmented(tmp_path)
    surveys, _ = surveyed(planned([path], 4096))
    assert any(one.initial.fragments for one in surveys)
    is_the_same([path])


def test_partitions_with_subflows_are_surveyed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mptcp.pcap"
    path.write_bytes(pcap_bytes(crafted("crafted-mptcp", 150)))
    found = planned([str(path)], 5_000)
    times = Counter[object]()

    def counted(spec: Any, partition: Any, *rest: Any) -> Any:
        times[partition] += 1
        return stages.survey(spec, partition, *rest)

    monkeypatch.setattr("tests.support.partitioned.survey", counted)
    surveys, _ = surveyed(found)
    assert len(found) > 20 and surveys[-1].initial.subflows
    assert max(times.values()) == 2  # before, a partition was surveyed once for each one before it
    is_the_same([str(path)])


def test_overlapping_captures_give_the_rows_of_one_reading(tmp_path: Path) -> None:
    pcap = read_pcap((CAPTURES / "cluster-2.15.1.pcap").read_bytes())
    paths = []
    for number in range(2):
        path = tmp_path / f"tap{number}.pcap"
        path.write_bytes(pcap_bytes(pcap.with_records(pcap.records[number::2])))
        paths.append(str(path))
    is_the_same(paths, 8192)


def test_what_a_partition_has_to_know_of_others() -> None:
    found = planned([str(CAPTURES / "core-2.15.1.pcap")], 8192)
    surveys, _ = surveyed(found)
    known = chunk_contexts(found, surveys)
    assert [part.last for part in known] == [False] * (len(known) - 1) + [True]
    assert [part.latest_ns for part in known] == [one.latest_ns for one in surveys]
    assert known[-1].later_ns == EARLIEST_NS
    assert known[0].later_ns == surveys[-1].latest_ns
    assert not needs_resurvey(surveys)


def test_a_flow_is_visited_in_order_and_by_one_share() -> None:
    _, flows = surveyed(planned([str(CAPTURES / "core-2.15.1.pcap")], 4096))
    chunks = chunks_of(flows)
    assert chunks
    assert all(chunk.number < chunk.following for chunk in chunks)
    assert {share_of(chunk.flow, 2) for chunk in chunks} == {0, 1}


def test_most_of_a_long_clean_flow_is_not_read_again() -> None:
    found = planned([str(CAPTURES / "bulk-2.15.1.pcap")], 32768)
    surveys, flows = surveyed(found)
    chunks = chunks_of(flows)
    states = stitched(WORK, chunk_contexts(found, surveys), chunks)
    assert len(states) == len(chunks) > 5
    assert sum(state.read for state in states) < len(states) / 3
