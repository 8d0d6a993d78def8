"""Damaged captures through the kernel and without it, which must make the same rows in the same order:
`python -m tests.dissector.fuzzing.kernel [SECONDS] [--seed S] [--run R] [--keep FOLDER]`.

A run takes a sample, a hostile capture of `tests.bench`, or traffic of `tests.bench.generate`, and damages
it as `fuzzing.captures` does, at any packet; writes it as a file of any form, and may damage the file, too;
reads it in blocks of any size, with usual or tight limits, as a whole or a share of its flows; and compares
all rows of some tables, and the report. Where they differ, packets are removed as long as they differ, and
`--keep` stores what is left in a folder; `fuzzing/held` has those that a test reads again.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dissect.nats import CaptureError, Options
from dissect.nats.capture import CaptureReport, FileReport, reader
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.kernel import driver
from dissect.nats.kernel.driver import Driver
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.kernel.state import C_KEPT
from dissect.nats.output.arrow.records import frame_batches
from dissect.nats.pipeline import records, released
from dissect.nats.types import Share

from tests.bench import hostile_captures, hostile_layers
from tests.bench.generate import write
from tests.bench.recorder import Plan
from tests.dissector.fuzzing.captures import TIGHT
from tests.dissector.fuzzing.harms import HARMS, NAMES, SPOILS, sample
from tests.support.damage import Pcap, Record, pcap_bytes, read_pcap
from tests.support.pcapwriter import (
    Interface,
)
from tests.support.pcapwriter import Record as Written
from tests.support.pcapwriter import (
    enhanced_packet,
    interface_block,
    option,
    pcap_file,
    pcapng_file,
    section,
)

TABLES = (
    ("sessions",),
    ("flows",),
    ("subscriptions",),
    ("frames",),
    ("frames", "anomalies", "subscriptions", "sessions"),
    ("requests",),
    ("sessions", "requests"),
    ("sessions", "publishes", "deliveries", "pulls", "api"),
    ("frames", "sessions", "requests", "api", "consumers", "kv", "objects", "streams", "servers"),
    ("sessions", "streaming", "frames"),
    ("sessions", "requests", "services", "paths", "deliveries", "frames"),
    ("sessions", "flows", "subscriptions", "anomalies"),
)
BLOCKS = (1000, 3000, 30_000, reader.BLOCK)
PLANS = (
    Plan(packets=2000, clients=6),
    Plan(packets=2000, clients=6, repeating=True),
    Plan(packets=2000, clients=6, loss=0.001, reordered=0.001, duplicated=0.001),
    Plan(packets=2000, clients=6, jetstream=True),
)
FORMS = ("pcap", "big", "nano", "pcapng", "pcapng big", "pcapng options", "pcapng two", "gzip")
SHARES = Share(0, range(2)), Share(1, range(2)), Share(1, (0, 1, 2, 1, 0))
SHORT = Options(idle_seconds=60, gap_seconds=0.1)


# How far a damaged file is read, and which steps of its clock are seen, depends on the size of a block.
OF_BLOCKS = ("position", "least_ns", "back_ns")
READ = [each.name for each in fields(FileReport) if each.name not in OF_BLOCKS]


@dataclass(frozen=True, slots=True)
class Case:
    """A capture, and how it is read."""

    pcap: Pcap = field(repr=False)
    done: tuple[str, ...] = ()
    tables: tuple[str, ...] = TABLES[-1]
    block: int = reader.BLOCK
    options: Options = Options()
    form: str = "pcap"
    spoiled: int = 0  # how often the file is damaged
    reach: int = 20_000  # of the window in which columns are sorted
    live: bool = False
    share: Share | None = None


@dataclass(slots=True)
class Count:
    """How many packets were read, and how many of them the kernel has kept."""

    packets: int = 0
    kept: int = 0


# Hostile captures by name, and a part of the size at which their time is measured: some hundred packets.
HOSTILE = {
    case.__name__: (case, max(8, size // 5))
    for case, size in (hostile_captures.CASES | hostile_captures.TINY).items()
}
HOSTILE |= {case.__name__: (case, size // 20) for case, size in hostile_layers.CASES.items()}


@cache
def hostile(name: str) -> Pcap:
    case, size = HOSTILE[name]
    return read_pcap(pcap_file(case(size)))


@cache
def generated(number: int) -> Pcap:
    file = io.BytesIO()
    write(file, replace(PLANS[number], seed=number))
    return read_pcap(file.getvalue())


def case_of(seed: int, run: int) -> Case:
    """The same case for the same numbers, always."""
    rng = random.Random(f"{seed}/{run}")
    number = rng.randrange(2 * len(PLANS))
    name = rng.choice([*NAMES, *HOSTILE])
    if number < len(PLANS):
        pcap = generated(number)
    else:
        pcap = hostile(name) if name in HOSTILE else sample(name)
    packets = list(pcap.records)
    if rng.random() < 0.3:
        packets = packets[rng.randrange(len(packets)) :]
    done = [f"generated {number}" if number < len(PLANS) else name]
    for _ in range(rng.choice((0, 1, 2, 3, 10, 40))):
        harm = rng.choice(HARMS)
        if packets:
            packets = harm(packets, 0, pcap.linktype, rng)
            done.append(harm.__name__)
    options = rng.choice((Options(), Options(), SHORT, TIGHT))
    places = tuple(done), rng.choice(TABLES), rng.choice(BLOCKS), options
    form, spoiled = rng.choice(("pcap", *FORMS)), rng.choice((0, 0, 0, 1, 2))
    reach = rng.choice((7, 300, 20_000))
    live = rng.random() < 0.3
    share = rng.choice((None, None, None, *SHARES))
    return Case(pcap.with_records(packets), *places, form, spoiled, reach, live, share)


def file_of(case: Case) -> bytes:
    """The file of a case."""
    pcap, linktype = case.pcap, case.pcap.linktype
    records = written(pcap)
    order = ">" if "big" in case.form else "<"
    data = pcap_bytes(pcap)
    if case.form in ("big", "nano"):
        data = pcap_file(records, linktype, order, nanoseconds=case.form == "nano")
    elif case.form == "pcapng two":
        records = [replace(each, interface=at // 50 & 1) for at, each in enumerate(records)]
        data = pcapng_file(records, [Interface(linktype), Interface(linktype, tsresol=9)])
    elif case.form == "pcapng options":
        data = with_options(records, Interface(linktype))
    elif case.form.startswith("pcapng"):
        data = pcapng_file(records, [Interface(linktype)], order)
    rng = random.Random(f"{len(data)}/{case.spoiled}")
    for _ in range(case.spoiled):
        data = rng.choice(SPOILS)(data, rng.randrange(len(data) + 1), rng)
    return gzip.compress(data, 1) if case.form == "gzip" else data


def written(pcap: Pcap) -> list[Written]:
    """The packets of a pcap, as they are written to files of other forms."""
    return [Written(each.ts_ns, each.data, each.length) for each in pcap.records]


def with_options(records: Sequence[Written], interface: Interface) -> bytes:
    """A pcapng file whose packets have options; one in sixteen has a comment."""
    parts = [section(), interface_block(interface)]
    for number, record in enumerate(records):
        options = option(2, bytes(4)) + option(1, b"x") * (number & 15 == 7) + option(0, b"")
        parts.append(enhanced_packet(record, interface, options=options))
    return b"".join(parts)


def difference(case: Case, path: Path, count: Count) -> str:
    """How the rows with the kernel differ from those without it; empty if they are the same."""
    path.write_bytes(file_of(case))
    with kernel("off", case.block, Count()):
        plain = rows_of(case, path)
    with kernel("on", case.block, count):
        fast = rows_of(case, path)
    count.packets += len(case.pcap.records)
    if plain == fast:
        return ""
    differing = [(one, other) for one, other in zip(plain, fast) if one != other]
    one, other = differing[0] if differing else (f"{len(plain)} rows", f"{len(fast)} rows")
    return f"without:\n  {one}\nwith:\n  {other}"


def rows_of(case: Case, path: Path) -> list[str]:
    """All rows as text, which also shows the order of keys, then what the report counts."""
    report = CaptureReport()
    try:
        if case.share:
            some = released(
                [str(path)], case.tables, case.options, report, case.share, together=not case.live
            )
            rows = [repr((release, row)) for release, records in some for row in records]
        else:
            rows = list(
                map(repr, records([str(path)], case.tables, case.options, report, case.live))
            )
        if "frames" in case.tables:
            rows += columns_of(case, path)
    except CaptureError as error:
        return [str(error)]
    counts = report.protocols, report.tcp_bytes, report.no_tcp, report.udp_ports
    rows += map(repr, map(sorted, (each.items() for each in counts)))
    return rows + [str(getattr(file, name)) for file in report.files for name in READ]


def columns_of(case: Case, path: Path) -> list[str]:
    """The rows of frames as they are stored in columns, of every type."""
    source = released([str(path)], ["frames"], case.options, together=True, blocks=True)
    with closing(source):
        batches = [*frame_batches(source, reach=case.reach)]
    return [repr(row) for batch in batches for row in zip(*(each.to_pylist() for each in batch))]


@contextmanager
def kernel(switch: str, block: int, count: Count) -> Iterator[None]:
    """Turns the kernel on or off, and reads files in blocks of this size. Counts the packets it keeps."""
    finish = Driver.finish

    def counted(made: Driver) -> Iterator[ReleasedRows]:
        count.kept += int(made.arrays.control[C_KEPT])
        return finish(made)

    with (
        patch.dict(os.environ, {VARIABLE: switch}),
        patch.object(reader, "BLOCK", block),
        patch.object(driver, "_SHORT", 0),
        patch.object(Driver, "finish", counted),
    ):
        yield


def shrunk(case: Case, path: Path, seconds: float) -> Case:
    """The case with fewer packets, which still differs."""
    end = time.monotonic() + seconds
    packets: Sequence[Record] = case.pcap.records
    size = len(packets) // 2
    while size:
        at = 0
        while at < len(packets) and time.monotonic() < end:
            fewer = [*packets[:at], *packets[at + size :]]
            if fails(replace(case, pcap=case.pcap.with_records(fewer)), path):
                packets = fewer
            else:
                at += size
        size //= 2
    return replace(case, pcap=case.pcap.with_records(packets))


def fails(case: Case, path: Path) -> bool:
    try:
        return bool(difference(case, path, Count()))
    except Exception:  # whatever it is, it is a difference
        return True


def run(seconds: float, seed: int, first: int = 0) -> tuple[Count, int, Case | None, str]:
    """Tries cases, one at least, until the time is over or one differs: how many packets and runs, and
    that one."""
    end = time.monotonic() + seconds
    runs, count = first, Count()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "case"
        while True:
            case = case_of(seed, runs)
            try:
                found = difference(case, path, count)
            except Exception as error:  # whatever it is
                found = f"{type(error).__name__}: {error}"
            runs += 1
            if found:
                return count, runs, shrunk(case, path, 120), found
            if time.monotonic() >= end:
                return count, runs, None, ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.dissector.fuzzing.kernel", description=__doc__
    )
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="default: 60")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    parser.add_argument("--run", type=int, default=None, help="only this one")
    parser.add_argument(
        "--keep", type=Path, help="write what is left of a capture that differs there"
    )
    chosen = parser.parse_args(arguments)
    seed = random.randrange(2**32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    seconds, first = (chosen.seconds, 0) if chosen.run is None else (0, chosen.run)
    count, runs, case, found = run(seconds, seed, first)
    share = 100 * count.kept / max(1, count.packets)
    print(f"{runs - first} runs, {count.packets} packets, {share:.0f} % kept by the kernel")
    if case is None:
        return 0
    print(f"--seed {seed} --run {runs - 1}: {case}\n{found}")
    if chosen.keep:
        (chosen.keep / f"{seed}-{runs - 1}.pcap").write_bytes(pcap_bytes(case.pcap))
    return 1


if __name__ == "__main__":
    sys.exit(main())
