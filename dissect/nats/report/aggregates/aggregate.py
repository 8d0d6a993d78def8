"""Everything that a report shows, from one pass over the rows. Its size does not grow with their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...application.jetstream.kv import KvRecord
from ...application.jetstream.objects import ObjectRecord
from ...application.servers import ServerRecord
from ...application.services import ServiceRecord
from ...application.streaming.records import StreamingRecord
from ...schema.anomalies import Anomaly
from ...schema.records import AnomalyRecord, FrameRecord, Record, SessionRecord
from ...tables import TABLE_OF
from ..bounded.collections import Largest
from .connections import Connections
from .jetstream import JetStream
from .ladders import Ladders
from .requests import Requests
from .subjects import Subjects
from .topology import Topology
from .traffic import Traffic

TABLES = (
    "sessions flows frames requests anomalies servers streams consumers publishes deliveries pulls api"
    " kv objects services streaming paths"
).split()
"""The tables that a report reads."""

LIMITS = frozenset({Anomaly.LIMIT.value, Anomaly.EVICTED.value, Anomaly.FORGOTTEN.value})
"""Anomalies caused by a limit of the dissection."""

_ROWS = 200


class Aggregate:
    """All parts of a report. Call `add` with the rows of all tables, in any order, and then `finish`."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.traffic = Traffic()
        self.subjects = Subjects()
        self.connections = Connections()
        self.topology = Topology()
        self.requests = Requests()
        self.jetstream = JetStream()
        self.ladders = Ladders()
        self.anomalies: Counter[str] = Counter()
        self.anomaly_bytes: Counter[str] = Counter()
        self.odd: Largest[AnomalyRecord] = Largest(_ROWS)
        self.services: Largest[ServiceRecord] = Largest(_ROWS)
        self.servers: Largest[ServerRecord] = Largest(_ROWS)
        self.stores: Counter[tuple[str, str, str, str]] = Counter()
        self.streaming: Counter[str] = Counter()
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._parts = (
            self.traffic,
            self.subjects,
            self.connections,
            self.topology,
            self.requests,
            self.jetstream,
            self.ladders,
        )
        self._adders = {
            name: [part.add for part in self._parts if name in part.tables] for name in TABLES
        }

    def add_all(self, rows: Iterable[Record]) -> None:
        """Adds rows of any tables."""
        for row in rows:
            self.add(row)

    def add(self, row: Record) -> None:
        """Adds a row."""
        table = TABLE_OF[type(row)].name
        self.rows[table] += 1
        for add in self._adders[table]:
            add(row)
        if not isinstance(row, FrameRecord):
            self._add_rare(row)

    def finish(self) -> None:
        """Must be called after the last row."""
        self.ladders.finish()

    def _add_rare(self, row: Record) -> None:
        if isinstance(row, SessionRecord):
            first_ns, last_ns = self.first_ns, self.last_ns
            self.first_ns = row.first_ns if first_ns is None else min(first_ns, row.first_ns)
            self.last_ns = row.last_ns if last_ns is None else max(last_ns, row.last_ns)
        elif isinstance(row, AnomalyRecord):
            self.anomalies[row.anomaly] += 1
            self.anomaly_bytes[row.anomaly] += row.bytes
            self.odd.add((row.bytes, -row.ts_ns, row.session), row)
        elif isinstance(row, ServiceRecord):
            self.services.add((row.errors, row.requests, row.session, row.number), row)
        elif isinstance(row, ServerRecord):
            self.servers.add((row.connections, row.server_name or "", row.server_id or ""), row)
        elif isinstance(row, KvRecord):
            self._count_store("key-value bucket", row)
        elif isinstance(row, ObjectRecord):
            self._count_store("object store", row)
        elif isinstance(row, StreamingRecord):
            self.streaming[row.op] += 1

    def _count_store(self, kind: str, row: KvRecord | ObjectRecord) -> None:
        op = f"{row.op}, failed" if row.error else row.op
        key = kind, row.bucket, row.account or "", op
        if key in self.stores or len(self.stores) < _ROWS:
            self.stores[key] += 1
        else:
            self.stores[kind, "(others)", "", op] += 1
