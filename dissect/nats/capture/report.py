"""What was read and what was not: one `FileReport` a capture file, all of them in a `CaptureReport`.

The reader fills them in while it yields packets; they are complete when the last packet was taken.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class FileReport:
    """One capture file. `path` is how it was reached, `capture` the file name that rows carry.

    `first_ns` is the time of the first packet, `last_ns` the latest of all; None without packets.
    `linktypes` counts packets. `skipped` counts, by reason, records that are no usable packet.
    `damage` is one sentence that says what is wrong with the file and where, if anything is: everything
    before that place was read, nothing behind it.
    """

    path: str
    capture: str
    format: str = ""
    packets: int = 0
    captured_bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    linktypes: Counter[int] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    damage: str | None = None

    def break_off(self, reason: str, position: int) -> None:
        """Note that reading ended at a byte of the file (the unpacked one, if it is compressed), in
        the packet after the last one that was counted."""
        where = f"in packet {self.packets + 1}, at byte {position}"
        self.damage = f"{reason} {where}; everything before it was read"


@dataclass(slots=True)
class CaptureReport:
    """All inputs, in the order of their first packets. `passed_over` are the files of folders that
    are no captures, `unreadable` those that nobody could look into; each with the reason."""

    files: list[FileReport] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def damaged(self) -> list[FileReport]:
        """The files that were cut short or are damaged: the reason for exit status 3."""
        return [file for file in self.files if file.damage is not None]
