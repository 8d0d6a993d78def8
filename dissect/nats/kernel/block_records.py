"""Blocks of frames -> records, by release, for formats that render row by row.

A record for each row takes less time than a frame and its record: its values come from lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from operator import attrgetter

from ..engine.connections import ReleaseKey
from ..engine.frame_rows import add_headers
from ..engine.session_tables import ReleasedRows
from ..schema.records import FrameRecord, Headers, Record
from . import state
from .frame_block import FrameBlock
from .handover import OPERATIONS

_NUMBERS = (
    state.R_LABEL,
    state.R_NUMBER,
    state.R_TIME,
    state.R_PACKET,
    state.R_CAPTURE,
    state.R_OP,
    state.R_HEADERS,
    state.R_SIZE,
    state.R_TOTAL,
    state.R_OFFSET,
    state.R_FIELDS,
)
_TEXTS = (
    state.T_SUBJECT,
    state.T_REPLY,
    state.T_SID,
    state.T_ACCOUNT,
    state.T_ORIGIN,
    state.T_QUEUES,
)
_OPS = [str(kind.op) for kind in OPERATIONS]
_number = attrgetter("number")
_new = object.__new__


def releases_of(block: FrameBlock) -> Iterator[ReleasedRows]:
    """The releases of a block, whose own are records, with those of Python between them."""
    ordinals = block.numbers[state.R_ORDINAL].tolist()
    others = iter(block.releases)
    other = next(others, None)
    records: list[Record] = []
    for ordinal, following, record in zip(ordinals, [*ordinals[1:], -1], _records(block)):
        records.append(record)
        if following == ordinal:
            continue
        while other and other.release.packet < ordinal:
            yield other
            other = next(others, None)
        beside: list[Record] = []
        while other and other.release.packet == ordinal:
            beside += other.records
            other = next(others, None)
        yield ReleasedRows(ReleaseKey(ordinal), _joined(records, beside) if beside else records)
        records = []
    if other:
        yield from chain([other], others)


def _joined(own: list[Record], others: list[Record]) -> list[Record]:
    """The records of a packet: all frames in order, where Python has its own, or at the beginning."""
    at = next((at for at, one in enumerate(others) if isinstance(one, FrameRecord)), 0)
    frames = [*own, *(one for one in others if isinstance(one, FrameRecord))]
    rest = [one for one in others[at:] if not isinstance(one, FrameRecord)]
    return [*others[:at], *sorted(frames, key=_number), *rest]


def _records(block: FrameBlock) -> Iterator[FrameRecord]:
    """The records of the rows that the kernel has made."""
    senders, captures, headers = block.senders, block.captures, _headers(block)
    numbers = zip(*(block.numbers[column].tolist() for column in _NUMBERS))
    texts = zip(*(_cells(block, text) for text in _TEXTS))
    for some, (subject, reply, sid, account, origin, queues) in zip(numbers, texts):
        label, number, ts_ns, packet, capture, op, header_bytes, size, total, offset, fields = some
        row = _new(FrameRecord)
        row.session, row.sender, row.kind, dedicated, secrets = senders[label]
        row.number, row.ts_ns, row.packet, row.capture = number, ts_ns, packet, captures[capture]
        row.op, row.subject, row.reply, row.sid = _OPS[op], subject, reply, sid
        row.account, row.origin = account or dedicated or None, origin
        row.queues = queues.split(" ") if queues else None
        row.header_bytes, row.payload_bytes = header_bytes or None, size
        row.total_bytes, row.offset = total, offset
        row.queue = row.max_msgs = row.weight = row.captured_bytes = None
        row.status = row.status_text = row.headers = row.json = row.error = None
        row.payload = row.payload_sha256 = row.anomalies = None
        if fields:
            found = next(headers)
            if isinstance(found, bytes):
                add_headers(row, found, secrets)
            else:
                row.headers = found
        yield row


def _headers(block: FrameBlock) -> Iterator[Headers | bytes]:
    """The headers of the rows that have any, as a map or as bytes that are yet to be read."""
    fields = zip(block.texts_of(state.T_NAME), block.texts_of(state.T_VALUE))
    masked = block.masked_headers()
    ends, data = block.texts[state.T_BLOCK]
    counts = block.numbers[state.R_FIELDS]
    rows = counts.nonzero()[0]
    for row, count in zip(rows.tolist(), counts[rows].tolist()):
        if count < 0:
            yield data[ends[row] : ends[row + 1]].tobytes()
        else:
            headers: Headers = {name: [value] for name, value in islice(fields, count)}
            yield masked.get(row) or headers


def _cells(block: FrameBlock, text: int) -> Iterable[str | None]:
    """Texts of the rows; an empty one is absent."""
    if not len(block.texts[text][1]):
        return repeat(None)
    return [cell or None for cell in block.texts_of(text)]
