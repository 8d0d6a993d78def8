"""Damaged captures into the dissector:
`python -m tests.dissector.fuzzing.captures [SECONDS] [--seed S] [--run R]`.

A run takes a sample capture and damages it from some packet on: bits, lengths, sequence numbers, flags,
times, payloads; packets dropped, doubled, swapped, taken from another capture; bytes of the file, its end, a
piece of another file; as pcap, pcapng or gzip. Then all six tables and a command are made of it, and the
laws must hold: nothing but CaptureError is raised; time and memory are bounded; frames of one sender do not
overlap; per direction span = framed + skipped + missing + unfinished; tables agree; what was good before
the damage is still reported; and captures that are cut into partitions, as Spark does, give the same rows.

A failure is printed with the seed and the number of its run, which make it again.
"""

from __future__ import annotations

import argparse
import gzip
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from dissect.nats import CaptureError, Options, tables
from dissect.nats.cli import cli
from dissect.nats.options import Payload
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FrameRecord, Record, SessionRecord
from dissect.nats.tcp.limits import FlowLimits, Limits
from dissect.nats.types import Direction

from tests.dissector.fuzzing.harms import HARMS, NAMES, SPOILS, sample
from tests.support import damage
from tests.support.damage import Pcap, pcap_bytes
from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Interface
from tests.support.pcapwriter import Record as Written
from tests.support.pcapwriter import pcapng_file
from tests.support.segments import packet_events, segments
from tests.support.sums import closed, kept

# CPU seconds and growth of memory that no capture of this size may need.
SECONDS = 10.0
GROWTH_BYTES = 200 << 20
_CUT_BYTES = 100_000  # larger captures are not cut: that takes long
TABLES = tuple(tables.TABLES)
FORMATS = ("text", "jsonl", "csv")


class TightOptions(Options):
    """Options with tight limits, also those that a user cannot set."""

    @property
    def stream_limits(self) -> Limits:
        """Limits that most captures hit."""
        return Limits(held_bytes=4096, held_segments=8, patience_packets=2, start_segments=2)

    @property
    def flow_limits(self) -> FlowLimits:
        """Limits that most captures hit."""
        return FlowLimits(max_flows=3, idle_ns=10**9, linger_ns=10**6)


TIGHT = TightOptions()
Frame = tuple[str, str, int, str, str | None, int]


@dataclass(frozen=True, slots=True)
class Case:
    """One input. Its first `intact` packets are those of the sample `name`, in the same order."""

    name: str
    data: bytes = field(repr=False)
    intact: int
    done: tuple[str, ...]
    options: Options = Options()
    command: tuple[str, ...] = ("frames",)
    partition_bytes: int | None = None

    def __str__(self) -> str:
        tight = ", tight limits" if self.options.flow_limits == TIGHT.flow_limits else ""
        done = ", ".join(self.done)
        return f"{self.name} with {done} from packet {self.intact + 1}{tight}, {self.command}"


def check(case: Case, folder: Path) -> None:
    """Raises AssertionError, or whatever the dissector should not raise, if a law does not hold."""
    path = folder / "case"
    path.write_bytes(case.data)
    cpu, memory = time.process_time(), peak()
    try:
        rows = list(records([str(path)], TABLES, case.options))
        check_sums(str(path), case.options)
    except CaptureError:
        assert case.intact == 0, "a capture with good packets is refused"
        rows = []
    check_command(case, path)
    cpu, memory = time.process_time() - cpu, peak() - memory
    assert cpu < SECONDS, f"took {cpu:.1f} seconds"
    assert memory < GROWTH_BYTES, f"took {memory >> 20} MB"
    check_rows(rows)
    if case.partition_bytes and rows:
        check_partitions(str(path), case.partition_bytes)
    if case.options.flow_limits != TIGHT.flow_limits:
        gone = good_frames(case.name, case.intact) - reported(rows)
        assert not gone, f"frames before the damage are not reported: {sorted(gone)[:3]}"


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@kept()
def check_sums(path: str, options: Options) -> None:
    for _, group in packet_events(segments([path]), options):
        for connection, _ in group:
            if not (connection.over and connection.is_nats):
                continue
            for way in Direction:
                closed(connection.framing, way, connection.flow.side(way).stream)


def check_rows(rows: Sequence[Record]) -> None:
    """Frames do not overlap, and sessions count them. What is in a capture twice, with the same times, has
    the same session twice."""
    ends: dict[tuple[str, str], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    frames = [row for row in rows if isinstance(row, FrameRecord)]
    sessions = [row for row in rows if isinstance(row, SessionRecord)]
    known = Counter(row.session for row in sessions)
    for row in sorted(frames, key=lambda row: row.offset):
        stream = row.session, row.sender
        assert row.offset >= ends.get(stream, 0) or known[row.session] > 1, "frames overlap"
        ends[stream] = row.offset + row.total_bytes
        counts[row.session, row.op] += 1
    for each in sessions:
        for op, count in (Counter(each.frames_originator) + Counter(each.frames_responder)).items():
            counts[each.session, op] -= count
    assert not any(counts.values()), "tables do not agree"


def check_partitions(path: str, size: int) -> None:
    """Rows do not depend on where a capture is cut."""
    whole, parts = in_one([path]), in_partitions([path], size)
    assert parts == whole, f"partitions of {size} bytes differ"


def check_command(case: Case, path: Path) -> None:
    done = CliRunner().invoke(cli, [*case.command, str(path)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 2, 3), f"exit status {done.exit_code}"
    assert "Traceback" not in done.output


def reported(rows: Sequence[Record]) -> set[Frame]:
    return {
        (row.session, row.op, row.offset, row.sender, row.subject, row.ts_ns)
        for row in rows
        if isinstance(row, FrameRecord)
    }


@cache
def good_frames(name: str, count: int) -> set[Frame]:
    """Frames that the first packets of a sample complete, whatever follows: of sessions that they prove."""
    pcap = sample(name)
    first, whole = (
        _frames_of(pcap_bytes(pcap.with_records(some)))
        for some in (pcap.records[:count], pcap.records)
    )
    proved = {session for session, op, *_ in first if op == "INFO"}
    return {frame for frame in first & whole if frame[0] in proved}


def _frames_of(data: bytes) -> set[Frame]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return reported(list(records([file.name], ["frames"])))


def case_of(seed: int, run: int) -> Case:
    """The same case for the same numbers, always."""
    rng = random.Random(f"{seed}/{run}")
    name = rng.choice(NAMES)
    pcap = sample(name)
    intact = len(pcap.records) * rng.randrange(8) // 8
    packets = list(pcap.records)
    done = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 10))):
        harm = rng.choice(HARMS)
        if len(packets) > intact:
            packets = harm(packets, intact, pcap.linktype, rng)
            done.append(harm.__name__)
    data, starts = _filed(pcap.with_records(packets), rng, done)
    for _ in range(rng.choice((0, 0, 1, 2))):
        spoil = rng.choice(SPOILS)
        at = rng.randrange(len(data) + 1)
        data = spoil(data, at, rng)
        done.append(spoil.__name__)
        while intact and (not starts or starts[intact] > at):
            intact -= 1
    if not data.startswith(b"\x1f\x8b") and rng.random() < 0.1:
        data = _gzipped(data)
        done.append("gzip")
    command = [rng.choice([table for table in TABLES if table in cli.commands])]
    command += ["--format", rng.choice(FORMATS)]
    payload = rng.choice(list(Payload))
    options = replace(TIGHT if rng.random() < 0.2 else Options(), payload=payload)
    size = rng.choice((1000, 5000)) if rng.random() < 0.2 and len(data) < _CUT_BYTES else None
    return Case(name, data, intact, tuple(done), options, tuple(command), size)


def _filed(pcap: Pcap, rng: random.Random, done: list[str]) -> tuple[bytes, list[int]]:
    """The file, and where its packets start; nowhere if it is packed, for one bit may spoil all."""
    form = rng.choice(("pcap", "pcap", "pcap", "pcapng", "gzip"))
    done.append(form)
    data = pcap_bytes(pcap)
    if form == "gzip":
        return _gzipped(data), []
    at, starts = damage.FILE_HEADER, []
    for record in pcap.records:
        starts.append(at)
        at += damage.RECORD_HEADER + len(record.data)
    if form == "pcap":
        return data, [*starts, at]
    written = [Written(record.ts_ns, record.data, record.length) for record in pcap.records]
    data = pcapng_file(written, [Interface(pcap.linktype, tsresol=9)])
    ends = [len(data)]
    for record in reversed(pcap.records):
        ends.append(ends[-1] - 32 - len(record.data) - -len(record.data) % 4)
    return data, ends[::-1]


def _gzipped(data: bytes) -> bytes:
    """The header holds no time: a case depends on its numbers alone."""
    return gzip.compress(data, 1, mtime=0)


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that breaks a law, and the numbers that make it again."""

    seed: int
    run: int
    case: Case
    error: Exception

    def __str__(self) -> str:
        again = f"--seed {self.seed} --run {self.run}"
        return f"{type(self.error).__name__}: {self.error}\n  {again}: {self.case}"


def run(seconds: float, seed: int, first: int = 0) -> tuple[int, Failure | None]:
    """Tries cases, one at least, until the time is over or one breaks a law: how many, and that one."""
    end = time.monotonic() + seconds
    runs = first
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while True:
            case = case_of(seed, runs)
            runs += 1
            try:
                check(case, Path(folder))
            except Exception as error:  # whatever it is: only CaptureError may leave the dissector
                return runs - first, Failure(seed, runs - 1, case, error)
            if time.monotonic() >= end:
                return runs - first, None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.dissector.fuzzing.captures", description=__doc__
    )
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="default: 60")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    parser.add_argument("--run", type=int, default=None, help="only this one")
    parser.add_argument("--keep", type=Path, help="write the capture of a failure there")
    chosen = parser.parse_args(arguments)
    seed = random.randrange(2**32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}, {len(NAMES)} captures to damage", flush=True)
    if chosen.run is None:
        runs, failure = run(chosen.seconds, seed)
    else:
        runs, failure = run(0, seed, chosen.run)
    print(f"{runs} runs")
    if failure:
        print(failure)
        if chosen.keep:
            chosen.keep.write_bytes(failure.case.data)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
