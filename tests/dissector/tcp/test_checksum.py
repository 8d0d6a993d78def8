"""Segments that were damaged on the wire: a true copy wins. Checksums left to network cards mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.capture import CaptureReport
from dissect.nats.options import Options, Payload
from dissect.nats.packet.tcp import PacketParser
from dissect.nats.parallel.pool import shared_records
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, FlowRecord, FrameRecord
from dissect.nats.tcp.checksum import is_partial, is_right, is_wrong
from dissect.nats.types import Packet, Segment

from tests.support.partitioned import in_one, in_partitions, ordered
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import (
    ETHERNET,
    Conversation,
    Record,
    ip,
    link,
    pcap_file,
    tcp,
    with_checksum,
)

PUB = b"PUB a 9\r\nhello_yes\r\n"
INFO = b'INFO {"server_id":"NS","client_id":7} \r\n'
CONNECT = b'CONNECT {"lang":"go"}\r\n'
Made = Callable[[Record], Record]


def damaged(record: Record) -> Record:
    """The record with another byte in its payload, as a cable makes it."""
    return replace(record, data=record.data.replace(b"hello_yes", b"hfllo_yes"))


def conversation(six: bool = False) -> Conversation:
    hosts = ("fe80::1", "fe80::2") if six else ("10.0.0.1", "10.0.0.2")
    made = Conversation((hosts[0], 40000), (hosts[1], 4222)).handshake()
    return made.from_server(INFO).from_client(CONNECT)


def sent_twice(
    first: Made = damaged,
    second: Made = lambda record: record,
    made: Made = with_checksum,
    six: bool = False,
    between: Sequence[bytes] = (),
    sizes: Sequence[int] = (len(PUB),),
    closes: bool = True,
) -> list[Record]:
    """The client sends PUB, then `between`, then PUB again, in segments of `sizes`."""
    talk = conversation(six)
    client, server = talk.client, talk.server
    begin = talk.next[client]
    talk.packet(client, 24, PUB)
    for data in between:
        talk.packet(client, 24, data)
    end = talk.next[client]
    talk.next[client] = begin
    talk.packet(server, 16)  # asks again
    at, marks = 0, [len(talk.records)]
    for size in sizes:
        talk.packet(client, 24, PUB[at : at + size])
        at += size
    talk.next[client] = end
    talk.from_server(b"PING\r\n")
    if closes:
        talk.close()
    found = [made(record) for record in talk.records]
    copies = [at for at, record in enumerate(found) if record.data.endswith(PUB)]
    place = copies[0]
    found[place] = first(found[place])
    for at in range(marks[0], marks[0] + len(sizes)):
        found[at] = second(found[at])
    return found


def rows(
    folder: Path, found: Sequence[Record], snaplen: int = 0
) -> tuple[list[str], list[tuple[object, ...]], FlowRecord]:
    """The payloads of PUBs, the anomalies, and the flow; the same in partitions and in two processes."""
    path = folder / "a.pcap"
    if snaplen:
        found = [replace(one, data=one.data[:snaplen], wire_bytes=len(one.data)) for one in found]
    path.write_bytes(pcap_file(found))
    options = Options(payload=Payload.TEXT)
    some = list(records([str(path)], ("frames", "anomalies", "flows"), options))
    whole = in_one([str(path)])
    for size in (200, 400, 900):
        assert in_partitions([str(path)], size) == whole
    pubs = [str(row.payload) for row in some if isinstance(row, FrameRecord) and row.op == "PUB"]
    odd = [(row.anomaly, row.bytes, row.packet) for row in some if isinstance(row, AnomalyRecord)]
    (flow,) = (row for row in some if isinstance(row, FlowRecord))
    return pubs, odd, flow


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("between", [[], [b"PING\r\n"], [b"PING\r\n"] * 30])
def test_a_true_copy_wins_over_a_damaged_one(
    six: bool, between: Sequence[bytes], tmp_path: Path
) -> None:
    pubs, odd, flow = rows(tmp_path, sent_twice(six=six, between=between))
    assert pubs == ["hello_yes"]
    assert [(name, size) for name, size, _ in odd] == [("overlap_differs", len(PUB))]
    assert (flow.retransmitted_originator, flow.missing_originator) == (len(PUB), 0)


def test_a_true_copy_in_pieces_wins(tmp_path: Path) -> None:
    pubs, odd, flow = rows(tmp_path, sent_twice(sizes=(8, 5, 7), between=[b"PING\r\n"]))
    assert pubs == ["hello_yes"]
    assert [name for name, _, _ in odd] == ["overlap_differs"]
    assert flow.retransmitted_originator == len(PUB)


def test_the_first_copy_wins_where_the_second_is_damaged(tmp_path: Path) -> None:
    pubs, odd, _ = rows(tmp_path, sent_twice(first=lambda one: one, second=damaged))
    assert pubs == ["hello_yes"] and [name for name, _, _ in odd] == ["overlap_differs"]


def test_the_first_copy_wins_where_both_checksums_are_right(tmp_path: Path) -> None:
    """A sender, or somebody in between, has changed its mind."""
    pubs, odd, _ = rows(tmp_path, sent_twice(first=lambda one: with_checksum(damaged(one))))
    assert pubs == ["hfllo_yes"] and [name for name, _, _ in odd] == ["overlap_differs"]


@pytest.mark.parametrize("closes", [True, False])
def test_damaged_bytes_are_used_where_no_true_copy_comes(closes: bool, tmp_path: Path) -> None:
    pubs, odd, flow = rows(tmp_path, sent_twice(second=damaged, closes=closes))
    assert pubs == ["hfllo_yes"] and flow.missing_originator == 0
    assert [(name, size) for name, size, _ in odd] == [("bad_checksum", len(PUB))]


def test_without_a_second_copy_an_acknowledgement_ends_the_wait(tmp_path: Path) -> None:
    talk = conversation()
    talk.from_client(PUB)
    for _ in range(20):
        talk.from_client(PUB)
    found = [with_checksum(record) for record in talk.records]
    place = next(at for at, record in enumerate(found) if record.data.endswith(PUB))
    found[place] = damaged(found[place])
    pubs, odd, _ = rows(tmp_path, found)
    assert pubs == ["hfllo_yes"] + ["hello_yes"] * 20
    assert odd == [("bad_checksum", len(PUB), place + 1)]


UNTRUSTED: dict[str, Made] = {
    "no checksum": lambda record: record,
    "left to the card": lambda record: with_checksum(record, partial=True),
    "always wrong": lambda record: Record(
        record.ts_ns, record.data[:50] + b"\x12\x34" + record.data[52:]
    ),
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_checksums_that_are_never_right_mean_nothing(name: str, tmp_path: Path) -> None:
    pubs, odd, flow = rows(tmp_path, sent_twice(made=UNTRUSTED[name]))
    assert pubs == ["hfllo_yes"] and [name for name, _, _ in odd] == ["overlap_differs"]
    clean = sent_twice(first=lambda one: one, made=UNTRUSTED[name])
    assert rows(tmp_path, clean)[:2] == (["hello_yes"], [])


@pytest.mark.parametrize("partial", [True, False])
def test_segments_that_the_card_has_joined_are_not_damaged(partial: bool, tmp_path: Path) -> None:
    """The handshake has its checksums from the other machine, and joined segments have one of their own."""
    talk = conversation()
    for _ in range(3):
        talk.from_client(PUB * 100, size=60_000)
    joined = [
        with_checksum(record, partial=partial and b"PUB" in record.data) for record in talk.records
    ]
    if not partial:  # all other forms wait for the acknowledgement, and are used then
        joined = [
            (
                replace(one, data=one.data[:50] + b"\x12\x34" + one.data[52:])
                if b"PUB" in one.data
                else one
            )
            for one in joined
        ]
    pubs, odd, _ = rows(tmp_path, joined)
    assert pubs == ["hello_yes"] * 300
    assert [name for name, _, _ in odd] == ([] if partial else ["bad_checksum"])


def test_segments_that_the_snap_length_has_cut_are_not_judged(tmp_path: Path) -> None:
    _, odd, flow = rows(tmp_path, sent_twice(), snaplen=70)
    assert {name for name, _, _ in odd} <= {"truncated", "overlap_differs", "skipped", "unfinished"}


def test_a_damaged_sequence_number_places_no_bytes(tmp_path: Path) -> None:
    found = sent_twice(first=lambda one: replace(one, data=one.data[:38] + b"\x77" + one.data[39:]))
    pubs, odd, flow = rows(tmp_path, found)
    assert pubs == ["hello_yes"] and flow.missing_originator == 0
    assert [(name, size) for name, size, _ in odd] == [("bad_checksum", 0)]


@pytest.mark.usefixtures("worker_processes")
def test_two_processes_make_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(sent_twice()))
    tables = ("frames", "anomalies", "flows", "sessions")
    shared = shared_records([str(path)], tables, Options(), 2, CaptureReport())
    assert ordered(shared) == in_one([str(path)], tables)


def segment_of(record: Record) -> Segment:
    found = PacketParser().segment_of(Packet(0, 1, "", ETHERNET, record.data, record.length))
    assert found is not None
    return found


@given(
    st.binary(max_size=70),
    st.sampled_from([b"", b"\1" * 4, b"\1" * 12, b"\1" * 40]),
    st.booleans(),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 600),
)
def test_a_checksum_is_right_until_any_byte_changes(
    payload: bytes, options: bytes, six: bool, seq: int, place: int
) -> None:
    hosts = ("fe80::1", "fe80::2") if six else ("10.0.0.1", "10.0.0.2")
    packet = link(ip(*hosts, tcp((40000, 4222), seq, 7, 24, payload, options)))
    record = with_checksum(Record(0, packet))
    segment = segment_of(record)
    assert is_right(segment) and not is_wrong(segment)
    start = len(packet) - len(payload) - 20 - len(options)
    at = start + 4 + place % (len(packet) - start - 4)
    if at - start in (12, 13):  # the size of the header, and flags
        return
    changed = bytes((packet[at] ^ 1,))
    other = segment_of(replace(record, data=record.data[:at] + changed + record.data[at + 1 :]))
    is_checksum = at - start in (16, 17)
    assert is_checksum or is_wrong(other) and not is_right(other)
    cut = segment_of(replace(record, data=record.data[:-1], wire_bytes=len(record.data)))
    assert not is_right(cut) and not is_wrong(cut)
    left = segment_of(with_checksum(record, partial=True))
    assert is_partial(left) and is_partial(segment_of(Record(0, packet)))


def test_captures_of_a_machine_itself_and_of_a_cable_have_no_such_anomaly() -> None:
    paths = [str(path) for path in sorted(CAPTURES.glob("*.pcap*"))]
    for path in paths:
        for row in records([path], ("anomalies",)):
            assert isinstance(row, AnomalyRecord) and row.anomaly != "bad_checksum"
