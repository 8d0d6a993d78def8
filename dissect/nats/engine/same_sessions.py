"""Sets the columns `same_as` and `copy_of` of sessions, for which the rows of all sessions are needed.

The rows of a timeline wait until its end: in memory, or in sorted temporary files if there are many
(`application.item_store`). Two stages make them complete, with the same functions here and in Spark:

PAIRS    by `server_id` and `client_id`: rows that may show the same connection
ORDERED  by time: all rows
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import cast

from ..application.item_store import ItemStore
from ..schema.declaration import Group, LastStage, LayerItem, Work
from ..schema.records import Record, SessionRecord
from ..sessions.same import PLACES, Sighting, copy_of, same_sessions
from ..types import NEVER_NS
from .connections import ReleaseKey
from .session_tables import ReleasedRows

_PAIRS, _ORDERED = range(2)
_HELD = 1 << 13  # rows in memory, 1 kB each as items
_TOGETHER = 512  # rows that are released at once
_KNOWN = 1 << 16  # connections that are remembered while packets arrive
# Times may exceed 64 bits, because pcapng has 64 bits for seconds.
_LATEST_NS = (1 << 63) - 1


def with_same_sessions(source: Iterable[ReleasedRows]) -> Iterator[ReleasedRows]:
    """The same rows, but for those of sessions, which come at the end, complete and in order."""
    with closing(ItemStore(_HELD)) as store:
        yield from without_sessions(source, store.add)
        sessions = store.rows(session_stages)
        while some := [*islice(sessions, _TOGETHER)]:
            yield ReleasedRows(ReleaseKey(NEVER_NS), some)


def without_sessions(
    source: Iterable[ReleasedRows], add: Callable[[LayerItem], None]
) -> Iterator[ReleasedRows]:
    """The same rows, but for those of sessions, of which `add` gets the items for `session_stages`."""
    for rows in source:
        others = [record for record in rows.records if record.__class__ is not SessionRecord]
        if len(others) == len(rows.records):
            yield rows
            continue
        for record in rows.records:
            if isinstance(record, SessionRecord):
                add(_item_of(record))
        if others:
            yield ReleasedRows(rows.release, others)


def with_known_sessions(source: Iterable[ReleasedRows]) -> Iterator[ReleasedRows]:
    """The same rows, at once. Of two sessions that show the same connection, only the one whose row comes
    later names the other."""
    known: dict[bytes, list[Sighting]] = {}
    for rows in source:
        for record in rows.records:
            if isinstance(record, SessionRecord) and (key := _pair(record)):
                seen = known.setdefault(key, [])
                if len(seen) <= PLACES:
                    seen.append(_sighting(record))
                _name(record, same_sessions(seen))
                if len(known) > _KNOWN:
                    del known[next(iter(known))]
        yield rows


def _item_of(record: SessionRecord) -> LayerItem:
    key = _pair(record)
    return _item(_PAIRS, key, record) if key else _item(_ORDERED, _order_key(record), record)


def session_stages(work: Work) -> LastStage:
    """Runs the stages on the items of all sessions of a timeline."""
    work.run(_PAIRS, _match)
    return LastStage(_ORDERED, _records)


def _match(groups: Iterator[Group]) -> Iterator[LayerItem]:
    for group in groups:
        some = [*islice(group, PLACES + 1)]
        rows = [*map(_record_in, some)]
        same = same_sessions([*map(_sighting, rows)])
        for row in chain(rows, map(_record_in, group)):
            _name(row, same)
            yield _item(_ORDERED, _order_key(row), row)


def _records(groups: Iterator[Group]) -> Iterator[Record]:
    for group in groups:
        yield from map(_record_in, group)


def _pair(record: SessionRecord) -> bytes:
    """What sessions that show the same connection have in common; empty if nothing proves that they do."""
    if not record.server_id or not record.client_id:
        return b""
    return f"{record.client_id} {record.server_id}".encode("utf-8", "surrogatepass")


def _sighting(record: SessionRecord) -> Sighting:
    return Sighting(record.first_ns, record.session, record.last_ns)


def _name(record: SessionRecord, same: Mapping[str, Sequence[Sighting]]) -> None:
    """Sets the columns of a session."""
    if others := same.get(record.session):
        record.same_as = [other.session for other in others]
        record.copy_of = copy_of(_sighting(record), others)


def _order_key(record: SessionRecord) -> bytes:
    at = min(record.first_ns, _LATEST_NS) + _LATEST_NS + 1
    return at.to_bytes(8, "big") + record.session.encode()


def _item(stage: int, key: bytes, record: SessionRecord) -> LayerItem:
    ts_ns = min(record.first_ns, _LATEST_NS)
    return LayerItem(stage, key, ts_ns, record.session, 0, (pickle.dumps(record, 5),))


def _record_in(item: LayerItem) -> SessionRecord:
    (packed,) = item.body
    return cast("SessionRecord", pickle.loads(cast(bytes, packed)))
