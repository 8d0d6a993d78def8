"""A layer that is added by a file gives the same frames as plain TCP, however its captures are read."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands import command_options
from dissect.nats.options import Payload
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FlowRecord, FrameRecord, Record, SessionRecord
from dissect.nats.types import Direction

from tests.dissector.partition.advancing import check, even
from tests.support import xor_layer
from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import pcap_file
from tests.support.segments import packet_events, segments
from tests.support.sums import kept
from tests.support.xor_conversation import GREETING, Harm, capture, lossy, records_of

OPTIONS = xor_layer.XorOptions(payload=Payload.TEXT)
HARMS: tuple[Harm, ...] = (list, lossy)


@pytest.fixture(autouse=True, scope="module")
def _tracker() -> None:
    """multiprocessing keeps one process and its pipe until the end of the program."""
    resource_tracker.ensure_running()


def values_of(rows: Sequence[Record], port: int) -> list[tuple[object, ...]]:
    sessions = [row for row in rows if isinstance(row, SessionRecord)]
    name = next(row.session for row in sessions if row.originator.endswith(f":{port}"))
    frames = [row for row in rows if isinstance(row, FrameRecord) and row.session == name]
    return [(f.sender, f.op, f.subject, f.reply, f.payload, f.payload_bytes) for f in frames]


@pytest.mark.parametrize("harm", HARMS)
def test_the_frames_are_those_of_plain_tcp(tmp_path: Path, harm: Harm) -> None:
    rows = list(
        records([capture(tmp_path / "a.pcap", harm)], ["frames", "sessions", "flows"], OPTIONS)
    )
    plain = values_of(rows, 40002)
    assert len(plain) == 305 if harm is list else 250 < len(plain) < 305
    assert values_of(rows, 40001) == values_of(rows, 40003) == plain
    sessions = {row.transport for row in rows if isinstance(row, SessionRecord)}
    assert sessions == {"tcp", "xor"}
    assert {row.protocol for row in rows if isinstance(row, FlowRecord)} == {"nats", "xor"}


@pytest.mark.parametrize("harm", HARMS)
def test_the_command_prints_the_same_rows_with_several_processes(
    tmp_path: Path, harm: Harm, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = capture(tmp_path / "a.pcap", harm)
    monkeypatch.setattr(command_options, "Options", xor_layer.XorOptions)
    printed = {}
    for table in ("sessions", "frames"):
        command = (table, path, "--format", "jsonl", "--jobs")
        one, two = (CliRunner().invoke(cli, [*command, jobs]) for jobs in ("1", "2"))
        assert (one.exit_code, two.exit_code) == (0, 0)
        assert one.stdout == two.stdout
        printed[table] = one.stdout
    assert printed["sessions"].count('"transport":"xor"') == 2
    expected = [row for row in records([path], ["frames"], OPTIONS)]
    assert printed["frames"].count("\n") == len(expected) > 750


@pytest.mark.parametrize("harm", HARMS)
@kept()
def test_the_bytes_of_every_layer_add_up(tmp_path: Path, harm: Harm) -> None:
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


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("size", [7_000, 40_000])
def test_the_stages_of_spark_give_the_same_rows(tmp_path: Path, size: int, harm: Harm) -> None:
    path = capture(tmp_path / "a.pcap", harm)
    assert in_partitions([path], size, options=OPTIONS) == in_one([path], options=OPTIONS)


def test_no_summary_of_its_packets_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(records_of(40001, True)))
    every = list(segments([str(path)]))
    outcome = check(every, even(len(every), 6))
    assert outcome.refused and not outcome.advanced
