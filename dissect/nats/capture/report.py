"""Reports of what was read and what could not be read: one `FileReport` per capture file, all of them in one
`CaptureReport`.

The reader updates the reports for each block of a file, before it passes on the packets in it. They are
complete after the last packet. Another thread may read them at any time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..durations import CLOCK_STEP_NS

ALL, DUPLICATE = "all", "duplicate"
"""Keys of `CaptureReport.tcp_bytes`."""

# The share of duplicate bytes if each packet is there twice is a half.
_DOUBLED = 0.4


@dataclass(slots=True)
class InterfaceReport:
    """An interface that a pcapng file describes. A `snaplen` of 0 means no limit.

    Drops are packets that the capture program knows it missed. `interface_drops` (by the network card) and
    `system_drops` (by the kernel) are from its latest statistics, `packet_drops` from the packet blocks. None
    means unknown.
    """

    linktype: int
    snaplen: int
    name: str = ""
    packets: int = 0
    interface_drops: int | None = None
    system_drops: int | None = None
    packet_drops: int | None = None


@dataclass(slots=True)
class FileReport:
    """One capture file. `path` is the name under which it was opened, `capture` the file name in rows.

    - `format`: for example "pcap, microseconds" or "gzip pcapng".
    - `size`: bytes on disk, None if it is not a regular file; `position`: how many of them were read so far.
    - `finished`: the report will not change any more.
    - `first_ns`: time of the first packet; `last_ns`: latest time of any packet; None without packets.
    - `back_ns`: how far the time goes back within the file, at most, and `least_ns`: the earliest time of any
      packet then; 0 and None if it does not.
    - `linktypes`, `snaplens`: packets by the link type and by the snap length of their interface.
    - `cut_packets`: packets that were longer on the wire than in the file.
    - `skipped`: unusable packet records, by reason; `blocks`: records that are not packets, by kind.
    - `comments`: number of comments on files, interfaces and packets.
    - `broken`: why and where reading ended early, as one sentence; nothing after that position was read.
      `fault` has only the reason and the position.
    - `before`: the number of packets in the file before the first one read, if reading began in its middle.
    """

    path: str
    capture: str
    format: str = ""
    size: int | None = None
    position: int = 0
    finished: bool = False
    packets: int = 0
    captured_bytes: int = 0
    wire_bytes: int = 0
    cut_packets: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    least_ns: int | None = None
    back_ns: int = 0
    linktypes: Counter[int] = field(default_factory=Counter)
    snaplens: Counter[int] = field(default_factory=Counter)
    interfaces: list[InterfaceReport] = field(default_factory=list)
    comments: int = 0
    blocks: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    broken: str | None = None
    fault: tuple[str, int] | None = None
    before: int = 0

    def break_off(self, reason: str, position: int) -> None:
        """Notes that reading ended early at byte `position` of the file (of its contents, if it is
        compressed), in the packet after the last one that was counted."""
        self.fault = reason, position
        where = f"in packet {self.before + self.packets + 1}, at byte {position}"
        self.broken = f"{reason} {where}; everything before it was read"

    @property
    def damage(self) -> str | None:
        """One sentence that says what is wrong with the file; None if nothing is."""
        faults = [self.broken] if self.broken else []
        if self.skipped:
            reasons = ", ".join(f"{reason} ({n})" for reason, n in sorted(self.skipped.items()))
            faults.append(f"unusable records were left out: {reasons}")
        return "; ".join(faults) or None

    def saw(
        self, first_ns: int, latest_ns: int, least_ns: int | None = None, back_ns: int = 0
    ) -> None:
        """Notes the time of the first of some packets, the latest and the earliest time of all, and how far
        the time goes back between them."""
        least_ns = first_ns if least_ns is None else least_ns
        if self.first_ns is None:
            self.first_ns = first_ns
        if self.last_ns is not None and self.last_ns - least_ns > CLOCK_STEP_NS:
            back_ns = max(back_ns, self.last_ns - least_ns)
        if back_ns:
            self.back_ns = max(self.back_ns, back_ns)
            self.least_ns = min(least_ns, self.first_ns, self.least_ns or self.first_ns)
        if self.last_ns is None or latest_ns > self.last_ns:
            self.last_ns = latest_ns

    @property
    def earliest_ns(self) -> int | None:
        """The earliest time of any packet, but for packets that are slightly out of order."""
        return self.first_ns if self.least_ns is None else self.least_ns

    @property
    def dropped(self) -> int:
        """The packets that the capture program missed, by its own count."""
        return sum(
            max((each.interface_drops or 0) + (each.system_drops or 0), each.packet_drops or 0)
            for each in self.interfaces
        )


@dataclass(slots=True)
class CaptureReport:
    """The reports of all inputs of which reading has begun, in the order of their first packets. `size` is
    the number of bytes of all inputs on disk, begun or not; None if not all of them are regular files.
    `passed_over` lists files in folders that are not captures, and `unreadable` files in folders that could
    not be opened, each with the reason. `protocols` counts the TCP connections that are over, by protocol,
    and `tcp_bytes` the bytes of their payload: ALL of them, and those that are DUPLICATE. `no_tcp` counts
    packets without a TCP header that could be read, by reason, and `udp_ports` those of UDP, by the lower
    port; both once a timeline was read to its end.
    """

    files: list[FileReport] = field(default_factory=list)
    size: int | None = None
    passed_over: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    protocols: Counter[str] = field(default_factory=Counter)
    tcp_bytes: Counter[str] = field(default_factory=Counter)
    no_tcp: Counter[str] = field(default_factory=Counter)
    udp_ports: Counter[int] = field(default_factory=Counter)

    @property
    def doubled(self) -> str | None:
        """One sentence that says that the packets were captured twice; None if they were not."""
        share = self.tcp_bytes[DUPLICATE] / (self.tcp_bytes[ALL] or 1)
        if share < _DOUBLED:
            return None
        return (
            f"packets were captured more than once, as by a mirror of both ports: {share:.0%} of the bytes "
            "are duplicates, which `flows` counts apart from retransmissions"
        )

    @property
    def position(self) -> int:
        """The number of bytes of all inputs that were read so far."""
        return sum(file.position for file in self.files)

    @property
    def damaged(self) -> list[FileReport]:
        """The files that are cut short or damaged. If there are any, the exit status is 3."""
        return [file for file in self.files if file.damage is not None]


def check_report(report: object) -> None:
    """Raises TypeError unless this is a CaptureReport, or None for no report."""
    if report is not None and not isinstance(report, CaptureReport):
        raise TypeError(f"report must be a CaptureReport, not {type(report).__name__}")
