"""A report of the bytes that were read and those that were not: one `FileReport` per capture file, all
of them in a `CaptureReport`.

The reader updates them while it passes packets on, a block of the file at a time; they are complete after
the last packet. Another thread may read them at any time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class InterfaceReport:
    """An interface that a pcapng file describes. `snaplen` 0 is no limit.

    The drops are packets that this file should have and the capture program knew it missed: as its
    last statistics say in `interface_drops` (by the network card) and `system_drops` (by the kernel),
    and as the packets themselves say in `packet_drops`. None: unknown.
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
    """One capture file. `path` is how it was reached, `capture` the file name that rows carry.

    `format` is what it is: "pcap, microseconds", "gzip pcapng". `size` are its bytes on disk, None where
    it is not a file; `position` is how many of them were taken so far. `finished`: nothing here will change.
    `first_ns` is the time of the first packet, `last_ns` the latest of all; None without packets.
    `linktypes` and `snaplens` count packets by what the file says of their interface. `cut_packets` are
    those of which less was captured than was on the wire. `skipped` counts, by reason, records that are
    no usable packet; `blocks` those that are no packets at all, by what they are; `comments` are those
    of files, interfaces and packets. `broken` is one sentence that says why reading ended early and where,
    if it did: everything before that place was read, nothing after it; `fault` is the reason and the
    place alone. `before` are the packets of the file that come before those counted here, where
    reading began in its middle.
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
        """Note that reading ended at a byte of the file (the unpacked one, if it is compressed), in
        the packet after the last one that was counted."""
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

    def saw(self, first_ns: int, latest_ns: int) -> None:
        """Note packets between whose times all of them are; `first_ns` is the first one's."""
        if self.first_ns is None:
            self.first_ns = first_ns
        if self.last_ns is None or latest_ns > self.last_ns:
            self.last_ns = latest_ns

    @property
    def dropped(self) -> int:
        """The packets that the capture program itself says it missed."""
        return sum(
            max((each.interface_drops or 0) + (each.system_drops or 0), each.packet_drops or 0)
            for each in self.interfaces
        )


@dataclass(slots=True)
class CaptureReport:
    """All inputs that were begun, in the order of their first packets. `size` are the bytes of all inputs on
    disk, also of those that were not begun; None where not all of them are files. `passed_over` are
    the files of folders that are not captures, `unreadable` those that nobody could look into; each with
    the reason. `protocols` counts the TCP connections that are over, by what they carry."""

    files: list[FileReport] = field(default_factory=list)
    size: int | None = None
    passed_over: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    protocols: Counter[str] = field(default_factory=Counter)

    @property
    def position(self) -> int:
        """How many bytes of all inputs were taken so far."""
        return sum(file.position for file in self.files)

    @property
    def damaged(self) -> list[FileReport]:
        """The files that were cut short or are damaged: the reason for exit status 3."""
        return [file for file in self.files if file.damage is not None]
