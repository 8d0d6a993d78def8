"""A layer that is added by a file gives the same frames as plain TCP, however its captures are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats import Options
from dissect.nats.cli import cli
from dissect.nats.engine.connections import packet_events
from dissect.nats.options import Payload
from dissect.nats.parallel.pool import sharded
from dissect.nats.parallel.worker import TableJob
from dissect.nats.pipeline import records, segments
from dissect.nats.schema.records import FlowRecord, FrameRecord, Record, SessionRecord
from dissect.nats.types import Direction

from tests.dissector.advancing import check, even
from tests.support import xor_layer
from tests.support.conversations import CONNECT, INFO
from tests.support.partitioned import in_one, in_stretches
from tests.support.pcapwriter import Record as Packet
from tests.support.pcapwriter import Talk, pcap_file
from tests.support.sums import kept

KEY = b"\x11\x82\x33\xc4\x55\xa6\x77\x98"
GREETING = xor_layer.GREETING + KEY
OPTIONS = Options(payload=Payload.TEXT)


@pytest.fixture(autouse=True, scope="module")
def _tracker() -> None:
    """multiprocessing keeps one process and its pipe until the end of the program."""
    resource_tracker.ensure_running()


def conversation(port: int, layered: bool) -> list[Packet]:
    """A client that asks and is answered, 150 times; plain, or XORed after the greeting."""
    talk = Talk(("10.0.0.1", port), ("10.0.0.2", 4222), now_ns=1_700_000_000_000_000_000 + port)
    talk.handshake()
    sent = {talk.client: 0, talk.server: len(GREETING)}

    def say(sender: tuple[str, int], data: bytes) -> None:
        wire = xor_layer.xored(data, KEY, sent[sender]) if layered else data
        sent[sender] += len(data)
        talk.say(sender, wire, size=300)

    if layered:
        talk.from_server(GREETING)
    say(talk.server, INFO)
    say(talk.client, CONNECT + b"SUB a.* 1\r\nPING\r\n")
    say(talk.server, b"PONG\r\n")
    for number in range(150):
        body = b"%d" % number * (number % 40)
        say(talk.client, b"PUB a.%d in.%d %d\r\n%s\r\n" % (number, number, len(body), body))
        say(talk.server, b"MSG a.%d 1 in.%d %d\r\n%s\r\n" % (number, number, len(body), body))
    talk.close()
    return talk.records


def capture(path: Path, harm: Callable[[list[Packet]], Sequence[Packet]] = list) -> str:
    """A plain conversation and two that are layered, packet by packet in turn."""
    some = [conversation(40001, True), conversation(40002, False), conversation(40003, True)]
    every = sorted((packet for packets in some for packet in packets), key=lambda p: p.ts_ns)
    path.write_bytes(pcap_file(harm(every)))
    return str(path)


def lossy(packets: list[Packet]) -> list[Packet]:
    """Every twentieth packet lost after the handshakes, and many swapped."""
    dice = random.Random(11)
    kept = packets[:60] + [packet for packet in packets[60:] if dice.random() > 0.05]
    for at in range(12, len(kept) - 1, 9):
        kept[at], kept[at + 1] = kept[at + 1], kept[at]
    return kept


def said(rows: Sequence[Record], port: int) -> list[tuple[object, ...]]:
    sessions = [row for row in rows if isinstance(row, SessionRecord)]
    name = next(row.session for row in sessions if row.originator.endswith(f":{port}"))
    frames = [row for row in rows if isinstance(row, FrameRecord) and row.session == name]
    return [(f.sender, f.op, f.subject, f.reply, f.payload, f.payload_bytes) for f in frames]


def renderer() -> Callable[[Record], str]:
    """Unpickled in a worker, it brings this module, and so the layer, along."""
    assert xor_layer.LAYER.name == "xor"
    return repr


def test_the_frames_are_those_of_plain_tcp(tmp_path: Path) -> None:
    rows = list(records([capture(tmp_path / "a.pcap")], ["frames", "sessions", "flows"], OPTIONS))
    plain = said(rows, 40002)
    assert len(plain) > 300
    assert said(rows, 40001) == said(rows, 40003) == plain
    sessions = {row.transport for row in rows if isinstance(row, SessionRecord)}
    assert sessions == {"tcp", "xor"}
    assert {row.protocol for row in rows if isinstance(row, FlowRecord)} == {"nats", "xor"}
    done = CliRunner().invoke(cli, ["sessions", "--format", "jsonl", str(tmp_path / "a.pcap")])
    assert done.exit_code == 0 and done.output.count('"transport":"xor"') == 2


@pytest.mark.parametrize("harm", [list, lossy])
@kept()
def test_the_bytes_of_every_layer_add_up(
    tmp_path: Path, harm: Callable[[list[Packet]], Sequence[Packet]]
) -> None:
    path = capture(tmp_path / "a.pcap", harm)
    layered = 0
    for _, group in packet_events(segments([path]), OPTIONS):
        for connection, _ in group:
            framing = connection.framing
            if not connection.over:
                continue
            for way in Direction:
                sent = connection.flow.side(way).stream.offset
                assert framing.byte_counts(way).span == sent
                for counts in framing.stack.byte_counts(way).values():
                    layered += 1
                    assert counts.span == sent
                    head = len(GREETING) if way is Direction.RESPONDER else 0
                    assert counts.overhead == head
                    assert framing.stream(way).counts.span == sent - head
    assert layered == 4


@pytest.mark.parametrize("harm", [list, lossy])
def test_several_processes_give_the_same_rows(
    tmp_path: Path, harm: Callable[[list[Packet]], Sequence[Packet]]
) -> None:
    path = capture(tmp_path / "a.pcap", harm)
    expected = [repr(row) for row in records([path], ["frames"], OPTIONS)]
    work = TableJob(paths=(path,), table="frames", options=OPTIONS, renderer=renderer)
    with closing(sharded(work, 2)) as rows:
        assert list(rows) == expected
    assert len(expected) > 800


@pytest.mark.parametrize("harm", [list, lossy])
@pytest.mark.parametrize("size", [7_000, 40_000])
def test_the_stages_of_spark_give_the_same_rows(
    tmp_path: Path, size: int, harm: Callable[[list[Packet]], Sequence[Packet]]
) -> None:
    path = capture(tmp_path / "a.pcap", harm)
    assert in_stretches([path], size, options=OPTIONS) == in_one([path], options=OPTIONS)


def test_no_summary_of_its_packets_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(conversation(40001, True)))
    every = list(segments([str(path)]))
    outcome = check(every, even(len(every), 6))
    assert outcome.refused and not outcome.leaps
