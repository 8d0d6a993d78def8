"""Blocks of frames from the kernel -> Arrow arrays, in the order in which packets release the rows.

No object is made for a row, except for headers that the kernel has not split. Needs numpy, as the kernel
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, cast

from ...engine.connections import ReleaseKey
from ...engine.frame_rows import HeaderCells, header_cells
from ...engine.session_tables import ReleasedRows
from ...kernel import state
from ...kernel.frame_block import FrameBlock, NumpyArray
from ...kernel.handover import OPERATIONS
from ...schema.declaration import Column, Type
from ...schema.records import FrameRecord, Value
from .records import arrays_of
from .types import array, arrow_type, pyarrow, times, wire_texts

if TYPE_CHECKING:
    import pyarrow as pa

_AFTER_FLOWS = ReleaseKey(0).first_ns


class RowKeys(NamedTuple):
    """The sort keys of rows, as arrays, and the number of rows up to the end of each release."""

    times_ns: NumpyArray
    sessions: NumpyArray
    numbers: NumpyArray
    ends: NumpyArray


def arrays_of_block(block: FrameBlock, columns: Sequence[Column]) -> tuple[list[pa.Array], RowKeys]:
    """These columns of all frames of a block."""
    np, made = _numpy(), _BlockColumns(block)
    arrays = [made.array(column) for column in columns]
    numbers = block.numbers
    sessions = np.array([int(each.session, 16) for each in block.senders], np.uint64)
    sessions = sessions[numbers[state.R_LABEL]]
    places = RowKeys(numbers[state.R_TIME], sessions, numbers[state.R_NUMBER], None)
    ordinals, groups = numbers[state.R_ORDINAL], np.zeros(len(sessions), np.int64)
    if block.releases:
        others, of_others, keys, sizes = _of_releases(block.releases, columns)
        of_flows = [0 if key.first_ns == _AFTER_FLOWS else at for at, key in enumerate(keys, 1)]
        ordinals = np.concatenate([ordinals, np.repeat([key.packet for key in keys], sizes)])
        groups = np.concatenate([groups, np.repeat(of_flows, sizes)])
        order = np.argsort(ordinals, kind="stable")
        ordinals, groups = ordinals[order], groups[order]
        keys_of = zip(places[:3], of_others[:3])
        times_ns, sessions, firsts = [np.concatenate(pair)[order] for pair in keys_of]
        places = RowKeys(times_ns, sessions, firsts, None)
        indices = pyarrow().array(order)
        concat = pyarrow().concat_arrays
        arrays = [concat(pair).take(indices) for pair in zip(arrays, others)]
    changes = (ordinals[1:] != ordinals[:-1]) | (groups[1:] != groups[:-1])
    ends = np.append(np.flatnonzero(changes) + 1, len(ordinals))
    return arrays, places._replace(ends=ends)


def arrays_of_releases(
    releases: Sequence[ReleasedRows], columns: Sequence[Column]
) -> tuple[list[pa.Array], RowKeys]:
    """These columns of the frames that Python has released; there is at least one."""
    arrays, keys, _, sizes = _of_releases(releases, columns)
    return arrays, keys._replace(ends=_numpy().cumsum(sizes))


def _of_releases(
    releases: Sequence[ReleasedRows], columns: Sequence[Column]
) -> tuple[list[pa.Array], RowKeys, list[ReleaseKey], list[int]]:
    """The columns of Python's frames, their keys without ends, and the key and size of each release."""
    rows = cast("list[FrameRecord]", [row for _, records in releases for row in records])
    sizes = [len(records) for _, records in releases]
    return arrays_of(rows, columns), keys_of(rows), [release for release, _ in releases], sizes


def keys_of(rows: Sequence[FrameRecord]) -> RowKeys:
    """The sort keys of rows, without the ends of releases."""
    np = _numpy()
    codes = {name: int(name, 16) for name in {row.session for row in rows}}
    return RowKeys(
        np.array([row.ts_ns for row in rows], np.int64),
        np.array([codes[row.session] for row in rows], np.uint64),
        np.array([row.number for row in rows], np.int64),
        None,
    )


def _numpy() -> ModuleType:
    return import_module("numpy")


class _BlockColumns:
    """The columns of the rows of a block that the kernel has made."""

    def __init__(self, block: FrameBlock) -> None:
        self._np = _numpy()
        self._block = block
        self._numbers = block.numbers
        self._size = len(block.numbers[0])

    def array(self, column: Column) -> pa.Array:
        """One column."""
        name = column.name
        if name in _NUMBERS:
            return pyarrow().array(self._numbers[_NUMBERS[name]])
        if name in _TEXTS:
            return self._texts(_TEXTS[name])
        if name in _LABELS:
            cells = [getattr(each, name) for each in self._block.senders]
            return self._coded(cells, state.R_LABEL)
        if name in _NEVER:
            return pyarrow().nulls(self._size, arrow_type(column.type))
        return _OTHERS[name](self)

    def _coded(self, cells: Sequence[str], codes: int) -> pa.Array:
        return array(Type.TEXT, cells).take(pyarrow().array(self._numbers[codes]))

    def _time(self) -> pa.Array:
        return times(pyarrow().array(self._numbers[state.R_TIME]))

    def _capture(self) -> pa.Array:
        return self._coded(self._block.captures, state.R_CAPTURE)

    def _op(self) -> pa.Array:
        return self._coded([kind.op for kind in OPERATIONS], state.R_OP)

    def _account(self) -> pa.Array:
        named = self._texts(state.T_ACCOUNT)
        dedicated = [each.account or None for each in self._block.senders]
        if not any(dedicated):
            return named
        cells = array(Type.TEXT, dedicated).take(pyarrow().array(self._numbers[state.R_LABEL]))
        return import_module("pyarrow.compute").coalesce(named, cells)

    def _queues(self) -> pa.Array:
        arrow, type_ = pyarrow(), arrow_type(Type.TEXTS)
        texts = self._texts(state.T_QUEUES)
        if texts.null_count == len(texts):
            return arrow.nulls(len(texts), type_)
        lists = import_module("pyarrow.compute").split_pattern(texts, " ")
        buffers = lists.buffers()[:2]
        return arrow.Array.from_buffers(type_, len(lists), buffers, children=[lists.values])

    def _header_bytes(self) -> pa.Array:
        sizes = self._numbers[state.R_HEADERS]
        return pyarrow().array(sizes, mask=sizes == 0)

    def _status(self) -> pa.Array:
        return self._scattered(Type.INTEGER, [row.status for row in self._read])

    def _status_text(self) -> pa.Array:
        return self._scattered(Type.TEXT, [row.status_text for row in self._read])

    def _headers(self) -> pa.Array:
        split, masked = self._split_headers(), self._block.masked_headers()
        found = {**dict(zip(self._to_read.tolist(), (row.headers for row in self._read))), **masked}
        if not found:
            return split
        places = self._np.arange(self._size)
        places[list(found)] = self._size + self._np.arange(len(found))
        parts = [split, array(Type.HEADERS, list(found.values()))]
        return pyarrow().concat_arrays(parts).take(pyarrow().array(places))

    def _split_headers(self) -> pa.Array:
        """The headers that the kernel has split."""
        np, arrow = self._np, pyarrow()
        type_ = arrow_type(Type.HEADERS)
        fields = np.maximum(self._numbers[state.R_FIELDS], 0)
        names = self._texts(state.T_NAME, is_absent=False)
        if not len(names):
            return arrow.nulls(self._size, type_)
        single = arrow.py_buffer(np.arange(len(names) + 1, dtype=np.int32))
        values = self._texts(state.T_VALUE, is_absent=False)
        lists = arrow.Array.from_buffers(
            type_.item_type, len(names), [None, single], children=[values]
        )
        pairs = arrow.StructArray.from_arrays(
            [names, lists], fields=[type_.key_field, type_.item_field]
        )
        ends = arrow.py_buffer(np.concatenate([[0], np.cumsum(fields)]).astype(np.int32))
        buffers = [_validity(fields > 0), ends]
        return arrow.Array.from_buffers(type_, self._size, buffers, children=[pairs])

    @cached_property
    def _to_read(self) -> NumpyArray:
        """The rows whose headers are yet to be read."""
        return self._np.flatnonzero(self._numbers[state.R_FIELDS] < 0)

    @cached_property
    def _read(self) -> list[HeaderCells]:
        """The columns of these rows that come from headers."""
        ends, data = self._block.texts[state.T_BLOCK]
        read = []
        for at in self._to_read.tolist():
            secrets = self._block.senders[self._numbers[state.R_LABEL][at]].secrets
            read.append(header_cells(data[ends[at] : ends[at + 1]].tobytes(), secrets))
        return read

    def _scattered(self, type_: Type, cells: Sequence[Value]) -> pa.Array:
        """Cells of the rows whose headers were read here."""
        if not cells:
            return pyarrow().nulls(self._size, arrow_type(type_))
        places = self._np.full(self._size, -1)
        places[self._to_read] = self._np.arange(len(cells))
        return array(type_, cells).take(pyarrow().array(places, mask=places < 0))

    def _texts(self, text: int, is_absent: bool = True) -> pa.Array:
        """Texts of the wire; an empty one `is_absent`, or not."""
        arrow = pyarrow()
        ends, data = self._block.texts[text]
        count = len(ends) - 1
        sizes = ends[1:] - ends[:-1]
        if is_absent and not len(data):
            return arrow.nulls(count, arrow.string())
        present = _validity(sizes > 0) if is_absent else None
        buffers = [present, arrow.py_buffer(ends), arrow.py_buffer(data)]
        found = arrow.Array.from_buffers(arrow.binary(), count, buffers)
        try:
            return found.cast(arrow.string())
        except arrow.ArrowInvalid:  # some are not UTF-8
            return wire_texts(found.to_pylist())


def _validity(present: NumpyArray) -> pa.Buffer:
    return pyarrow().py_buffer(_numpy().packbits(present, bitorder="little"))


_NUMBERS = {
    "number": state.R_NUMBER,
    "ts_ns": state.R_TIME,
    "packet": state.R_PACKET,
    "payload_bytes": state.R_SIZE,
    "total_bytes": state.R_TOTAL,
    "offset": state.R_OFFSET,
}
_TEXTS = {
    "subject": state.T_SUBJECT,
    "reply": state.T_REPLY,
    "sid": state.T_SID,
    "origin": state.T_ORIGIN,
}
_LABELS = frozenset({"session", "sender", "kind"})
_OTHERS: dict[str, Callable[[_BlockColumns], pa.Array]] = {
    "time": _BlockColumns._time,
    "capture": _BlockColumns._capture,
    "op": _BlockColumns._op,
    "account": _BlockColumns._account,
    "queues": _BlockColumns._queues,
    "header_bytes": _BlockColumns._header_bytes,
    "status": _BlockColumns._status,
    "status_text": _BlockColumns._status_text,
    "headers": _BlockColumns._headers,
}
# Frames that have one of these are Python's.
_NEVER = frozenset(
    "queue max_msgs weight captured_bytes json error payload payload_sha256 anomalies".split()
)
