"""A session as a conversation to read: the frames of both sides with their times, and the anomalies between
them.

    0.000812  > PUB orders.new reply _INBOX.1 [12+5]
                Priority: high

                two teapots

`>` marks the originator, which opened the TCP connection, `<` the responder; times are seconds since its
first packet. A line `= ACK ORDERS/worker 42` says what a frame means above NATS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...application.decoded_line import decoded
from ...number_formats import duration_text, time_text
from ...output.terminal import painted
from ...output.text.lines import frame_marks, frame_words
from ...schema.declaration import ARROWS
from ...schema.records import AnomalyRecord, FrameRecord, SessionRecord, printable
from .detail import Heading, TimelineEntry

_SHOWN = 1024  # characters of a payload
_INDENT = " " * 14

_COLOURS = {"originator": "cyan", "responder": "green"}
_GONE = {"lost": "missing", "truncated": "cut off by the snap length", "skipped": "not decoded"}


class Conversation:
    """Formats the entries of one session as text, in order. With `full`, payloads are not cut."""

    def __init__(self, colour: bool, full: bool) -> None:
        self._colour = colour
        self._full = full
        self._first_ns = 0

    def text(self, entry: TimelineEntry) -> str:
        """The lines of an entry."""
        if isinstance(entry, Heading):
            self._first_ns = entry.first_ns
            line = f"{entry.kind} session {entry.session}: {entry.originator} > {entry.responder}"
            return f"{self._painted(line, 'bold')}\nbegan {time_text(entry.first_ns)}\n\n"
        if isinstance(entry, AnomalyRecord):
            return self._oddity(entry)
        if isinstance(entry, SessionRecord):
            return f"\n{self._time(entry.last_ns)}  {_end(entry)}\n"
        return self._frame(entry)

    def _frame(self, frame: FrameRecord) -> str:
        words = " ".join(map(printable, (*frame_words(frame), *frame_marks(frame))))
        line = f"{ARROWS[frame.sender]} {frame.op} {words}".rstrip()
        style = "bold red" if frame.error or frame.anomalies else _COLOURS[frame.sender]
        body = "".join(f"{_INDENT}{part}".rstrip() + "\n" for part in self._body(frame))
        return f"{self._time(frame.ts_ns)}  {self._painted(line, style)}\n{body}"

    def _body(self, frame: FrameRecord) -> Iterator[str]:
        """The lines below a frame: what it says above NATS, JSON, headers, payload."""
        if meaning := decoded(frame):
            yield printable(f"= {meaning}")
        if frame.json is not None:
            yield from map(printable, _pretty(frame.json))
        for name, values in (frame.headers or {}).items():
            for value in values:
                yield printable(f"{name}: {value}")
        if frame.payload_sha256:
            yield f"sha256 {frame.payload_sha256}"
        if frame.payload:
            if frame.headers:
                yield ""
            yield from self._payload(frame.payload)

    def _payload(self, payload: str) -> Iterator[str]:
        shown = payload if self._full else payload[:_SHOWN]
        yield from map(printable, shown.removesuffix("\n").split("\n"))
        if len(shown) < len(payload):
            yield f"... {len(payload) - len(shown)} characters more; --full shows them"

    def _oddity(self, odd: AnomalyRecord) -> str:
        what = _GONE.get(odd.anomaly, odd.anomaly)
        text = f": {printable(odd.text)}" if odd.text else ""
        size = f"{odd.bytes} bytes " if odd.bytes else ""
        line = f"{ARROWS[odd.sender]} ... {size}{what}{text}"
        return f"{self._time(odd.ts_ns)}  {self._painted(line, 'yellow')}\n"

    def _time(self, ts_ns: int) -> str:
        sign, passed_ns = ("-" if ts_ns < self._first_ns else ""), abs(ts_ns - self._first_ns)
        return f"{sign}{passed_ns // 10**9}.{passed_ns // 1000 % 10**6:06}".rjust(12)

    def _painted(self, text: str, style: str) -> str:
        return painted(text, style if self._colour else "")


def _end(row: SessionRecord) -> str:
    end = {"open": "still open", "error": "closed after an error"}.get(row.end, row.end)
    by = f" by {row.ended_by}" if row.ended_by else ""
    return f"{end}{by}, after {duration_text(row.last_ns - row.first_ns)}"


def _pretty(text: str) -> list[str]:
    """JSON on several lines; unchanged if it is invalid."""
    try:
        value = json.loads(text)
        return json.dumps(value, ensure_ascii=False, indent=2).split("\n")
    except (ValueError, RecursionError):
        return [text]
