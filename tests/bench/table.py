"""The figures of the kernel in one run: `python -m tests.bench.table [--quick] [--rounds N] [ROW...]`.

Each row is a command, what it took (CPU and wall time, peak memory of its largest process), and how its CPU
time compares with that of a peer in the same run: tshark, Python alone, a smaller capture, or a Spark job
that only counts the packets. A row named by the beginning of its title runs alone. Hardly a subject, reply or
size occurs twice in the captures; beside them is one of telemetry, which repeats. What stops the kernel is in
captures of one connection: a PING in every ten packets, and a repeated packet after each one. The captures
take 4 GB of disk, a quarter with `--quick`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.children import Taken, alternating, taken
from tests.bench.generate import write_file
from tests.bench.in_spark import Figures, in_spark
from tests.bench.recorder import Plan
from tests.bench.rounds import machine
from tests.support.conversations import CONNECT, INFO
from tests.support.packets import ACK, PSH
from tests.support.paths import ROOT
from tests.support.pcapwriter import Conversation, Record, pcap_file
from tests.support.spark import lack

MB = 1_000_000
DISSECT = (sys.executable, "-m", "dissect.nats")
PYTHON = ("env", "NATS_DISSECT_KERNEL=off", *DISSECT)
PACKETS, QUICK = 1_000_000, 250_000  # fewer are Python's
_CHUNKS = 6
_OFTEN = 10
_SMALL = 20_000
_PUB = b"PUB a.b.%d 200\r\n" + b"x" * 200 + b"\r\n"


@dataclass(frozen=True, slots=True)
class Row:
    """A command over a capture of `times` as many packets, and its peer. `wanted` is how often the peer's CPU
    time is that of the command, at least; with `most`, the other way round, at most."""

    title: str
    command: Sequence[str]
    peer: Sequence[str]
    wanted: float
    kind: str = "unique"
    times: int = 1
    most: bool = False
    peer_times: int | None = None


def _conversations() -> list[str]:
    return [shutil.which("tshark") or "", "-q", "-z", "conv,tcp", "-r"]


def _beside_python(title: str, wanted: float, kind: str = "unique", most: bool = False) -> Row:
    command = title.split(",")[0].split()
    return Row(title, [*DISSECT, *command], [*PYTHON, *command], wanted, kind, most=most)


def rows_in(folder: Path) -> Iterator[Row]:
    """All rows but Spark's. Files are written to the folder."""
    sessions = ["sessions", "--jobs", "1"]
    frames = ["frames", "--jobs", "1", "--format", "parquet", "-o", str(folder / "table.parquet")]
    for kind, rest in (("unique", ""), ("repeating", ", repeating")):
        for command in (sessions, frames):
            title = f"{' '.join(command[:5])}{rest}, beside tshark"
            wanted = 4.5 if command is sessions else 3.5
            yield Row(title, [*DISSECT, *command], _conversations(), wanted, kind)
    yield Row(
        "sessions --jobs 1, four times the packets, beside tshark",
        *([*DISSECT, *sessions], _conversations(), 8, "unique", 4),
    )
    for command in (sessions, frames):
        full = [*DISSECT, *command]
        title = f"{' '.join(command[:5])}, four times the packets, beside once"
        yield Row(title, full, full, 4.2, times=4, most=True, peer_times=1)
    for text in ("frames --format jsonl", "requests --format jsonl", "subscriptions"):
        yield _beside_python(f"{text} --jobs 1, beside Python", 2.5)
    for full in (["audit", "--fail-on", "never"], ["report", "-o", str(folder / "page.html")]):
        title = f"{full[0]}, beside Python"
        yield Row(title, [*DISSECT, *full], [*PYTHON, *full], 1 / 0.6)
    yield _beside_python("sessions --jobs 1, a PING in ten packets, beside Python", 1, "pings")
    yield _beside_python(
        "sessions --jobs 1, stopped as often as possible, beside Python", 1.2, "stops", most=True
    )


def write_stops(path: Path, packets: int, stop: Callable[[Conversation], object]) -> None:
    """A connection whose client publishes; after every ten packets, `stop` adds one."""
    conversation = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    for number in range(packets // (_OFTEN + 1)):
        for at in range(_OFTEN):
            conversation.packet(conversation.client, PSH | ACK, _PUB % (_OFTEN * number + at))
        stop(conversation)
    path.write_bytes(pcap_file(conversation.records))


def _ping(conversation: Conversation) -> None:
    conversation.packet(conversation.client, PSH | ACK, b"PING\r\n")


def write_repetitions(path: Path, packets: int) -> None:
    """A connection of which every second packet is one that was seen before."""
    conversation = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    begun = len(conversation.records)
    for number in range(packets // 2):
        conversation.packet(conversation.client, PSH | ACK, _PUB % number)
    twice: list[Record] = [each for each in conversation.records[begun:] for _ in range(2)]
    path.write_bytes(pcap_file([*conversation.records[:begun], *twice]))


class Table:
    """The captures, and the rows that are printed."""

    def __init__(self, folder: Path, packets: int, rounds: int) -> None:
        self._folder = folder
        self._packets = packets
        self._rounds = rounds

    def capture(self, kind: str, times: int = 1) -> str:
        """The path of a capture, which is made when it is first needed."""
        path = self._folder / f"{kind}-{times}.pcap"
        packets = times * self._packets
        if not path.exists() and kind == "pings":
            write_stops(path, packets, _ping)
        elif not path.exists() and kind == "stops":
            write_repetitions(path, packets)
        elif not path.exists():
            write_file(path, Plan(packets, repeating=kind == "repeating"))
        return str(path)

    def compile(self) -> None:
        """Has the kernel compiled, which is done once on a machine."""
        path = self._folder / "small.pcap"
        write_file(path, Plan(_SMALL))
        taken(["env", "NATS_DISSECT_KERNEL=on", *DISSECT, "frames", "--jobs", "1", str(path)], ROOT)

    def show(self, row: Row) -> None:
        """Runs a row and its peer."""
        path = self.capture(row.kind, row.times)
        beside = self.capture(row.kind, row.peer_times or row.times)
        has_peer = bool(row.peer[0])
        commands = [[*row.command, path], *([[*row.peer, beside]] if has_peer else [])]
        ours, *others = alternating(commands, ROOT, self._rounds)
        self._print(row.title, ours)
        if not others:
            print("    no tshark here")
            return
        (peer,) = others
        ratio = ours.cpu / peer.cpu if row.most else peer.cpu / ours.cpu
        bound = f"at most {row.wanted:.1f}" if row.most else f"at least {row.wanted:.1f}"
        self._print("    the peer", peer, f"{ratio:.2f} x ({bound} wanted)")

    def show_spark(self) -> None:
        """Frames and sessions on two cores, beside a job that only counts the packets; wall time."""
        if lacking := lack():
            print(f"Spark: {lacking[0]}")
            return
        path = self.capture("unique")
        size = Path(path).stat().st_size // _CHUNKS + 1
        for whole in (True, False):
            run = in_spark("local[2]", size, self._rounds, self._folder, [path], whole)
            scan, job = (_median(run, what) for what in ("scan", "job"))
            how = "whole flows" if whole else "chunks"
            print(
                f"Spark, frames and sessions, {how}: {job:.1f} s, packets alone {scan:.1f} s:"
                f" {job / scan:.2f} x (at most 4.0 wanted), {run[-1].peak_bytes / MB:.0f} MB"
            )

    def _print(self, title: str, it: Taken, rest: str = "") -> None:
        print(f"{title:72}{it.cpu:8.2f}{it.wall:8.2f}{it.peak_bytes / MB:7.0f}  {rest}", flush=True)


def _median(run: Sequence[Figures], what: str) -> float:
    return median(each.seconds for each in run if each.what == what)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the rows that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.table", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} packets, not {PACKETS:,}")
    parser.add_argument("--rounds", type=int, default=1, help="the median of so many")
    parser.add_argument("row", nargs="*", help="the beginning of a title; all without it")
    chosen = parser.parse_args(arguments)
    packets = QUICK if chosen.quick else PACKETS
    wanted = tuple(chosen.row) or ("",)
    with tempfile.TemporaryDirectory(prefix="nats-table-") as name:
        table = Table(Path(name), packets, chosen.rounds)
        table.compile()
        print(f"{packets:,} packets, {machine()}, load {os.getloadavg()[0]:.1f}")
        print(f"{'':72}{'CPU s':>8}{'wall s':>8}{'peak MB':>8}")
        for row in rows_in(Path(name)):
            if row.title.startswith(wanted):
                table.show(row)
        if "Spark".startswith(wanted):
            table.show_spark()
        print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
