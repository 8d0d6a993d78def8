"""The codec's errors: `Error`, the root of every natsync exception, and `ProtocolError`.

A `ProtocolError` says where in its stream the bytes stop being NATS, why, and shows a few of them.
It never carries a whole payload, nor anything of a CONNECT or INFO beyond the name of the operation.
"""

from __future__ import annotations

__all__ = ["Error", "ProtocolError"]

_SNIPPET_BYTES = 32


class Error(Exception):
    """The root of every exception natsync raises on purpose."""


class ProtocolError(Error):
    """Bytes that are not a NATS frame, or a frame that the NATS grammar cannot carry.

    `offset` is the position of the first wrong byte in the sender's stream (None when the error is about a
    value, not a stream), `reason` one lower-case sentence, `snippet` up to 32 of the bytes concerned.
    """

    def __init__(self, reason: str, offset: int | None = None, snippet: bytes = b"") -> None:
        self.reason = reason
        self.offset = offset
        self.snippet = bytes(snippet[:_SNIPPET_BYTES])
        super().__init__(reason, offset, self.snippet)

    def __str__(self) -> str:
        shown = f": {self.snippet!r}" if self.snippet else ""
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.reason}{place}{shown}"
