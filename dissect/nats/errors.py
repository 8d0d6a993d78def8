"""What the dissector raises: `CaptureError`, and nothing else. Everything else that is strange is data."""

from __future__ import annotations


class CaptureError(Exception):
    """An input that cannot be read as a capture at all.

    `path` is the input as the user named it, `reason` one lower-case sentence without a full stop,
    `remedy` what the user can do about it, or nothing. The text is one line.
    """

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        self.path = path
        self.reason = reason
        self.remedy = remedy
        super().__init__(path, reason, remedy)

    def __str__(self) -> str:
        text = f"{self.path}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")
        return " ".join(text.split())
