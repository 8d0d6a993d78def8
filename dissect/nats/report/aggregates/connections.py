"""Connections: sessions and flows, the busiest endpoints, slow consumers, and connections that were not
decoded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...schema.records import FlowRecord, Record, SessionRecord, lost_bytes
from ..bounded.collections import OTHERS, Keyed, Largest

SESSIONS = 1000
"""The most sessions that have a row on the page."""
TALKERS = 300
SLOW = 50
_NAMES = 300


@dataclass(slots=True)
class Talker:
    """The connections of one name: of a client, or of a server that connects to others."""

    sessions: int = 0
    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    errors: int = 0

    @property
    def weight(self) -> int:
        """The bytes of both directions, plus one per session."""
        return self.sent_bytes + self.received_bytes + self.sessions

    def merge(self, other: Talker) -> None:
        """Adds the connections of another one."""
        self.sessions += other.sessions
        self.sent += other.sent
        self.sent_bytes += other.sent_bytes
        self.received += other.received
        self.received_bytes += other.received_bytes
        self.errors += other.errors


def others(key: str) -> str:
    """The name under which rare names are merged."""
    return OTHERS


def host(endpoint: str) -> str:
    """An endpoint's address without its port."""
    return endpoint.rpartition(":")[0]


def who(row: SessionRecord) -> str:
    """The name of the originator, or else its address."""
    return row.client_name or row.remote_name or host(row.originator)


def server_of(row: SessionRecord) -> str:
    """The name of the responder, or else its endpoint."""
    return row.server_name or row.server_id or row.responder


def trouble(row: SessionRecord) -> int:
    """The weight of a session's problems; 0 if there are none."""
    return (
        8 * bool(row.slow_consumer)
        + 4 * (bool(row.errors) or row.end == "error")
        + 2 * bool(row.no_responders or row.unanswered_pings)
        + bool(lost_bytes(row) or row.lame_duck_ns)
    )


class Connections:
    """All sessions and flows."""

    tables = ("sessions", "flows")

    def __init__(self) -> None:
        self.sessions: Largest[SessionRecord] = Largest(SESSIONS)
        self.slow: Largest[SessionRecord] = Largest(SLOW)
        self.stopped: Largest[FlowRecord] = Largest(SLOW)
        self.talkers: Keyed[str, Talker] = Keyed(Talker, others, TALKERS)
        self.kinds: Counter[str] = Counter()
        self.transports: Counter[str] = Counter()
        self.auth: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.versions: Counter[str] = Counter()
        self.protocols: Counter[str] = Counter()
        self.sums: Counter[str] = Counter()

    def add(self, row: Record) -> None:
        """Adds a row; only sessions and flows count."""
        if isinstance(row, SessionRecord):
            self._add_session(row)
        elif isinstance(row, FlowRecord):
            self._add_flow(row)

    def merge(self, other: Connections) -> None:
        """Adds the connections of another part."""
        self.sessions.merge(other.sessions)
        self.slow.merge(other.slow)
        self.stopped.merge(other.stopped)
        self.talkers.merge(other.talkers)
        for name in "kinds transports auth ends errors versions protocols sums".split():
            getattr(self, name).update(getattr(other, name))

    def _add_session(self, row: SessionRecord) -> None:
        size = row.bytes_originator + row.bytes_responder
        place = (-row.first_ns, row.session)
        self.sessions.add((trouble(row), size, *place), row)
        if row.slow_consumer:
            self.slow.add((size, *place), row)
        self.kinds[row.kind] += 1
        self.transports["+".join(filter(None, (row.transport, row.compression)))] += 1
        self.ends[row.end] += 1
        if row.kind == "client":
            self.auth[row.auth or "not seen"] += 1
            self._count(
                self.versions, " ".join(filter(None, (row.client_lang, row.client_version)))
            )
        for error in row.errors or ():
            self._count(self.errors, error)
        talker = self.talkers[who(row)]
        talker.sessions += 1
        talker.sent += row.messages_originator
        talker.sent_bytes += row.bytes_originator
        talker.received += row.messages_responder
        talker.received_bytes += row.bytes_responder
        talker.errors += len(row.errors or ())
        self._sum(row)

    def _sum(self, row: SessionRecord) -> None:
        sums = self.sums
        for name in ("missing_bytes", "skipped_bytes", "retransmitted_bytes", "subscriptions"):
            sums[name] += getattr(row, name)
        sums["opaque_bytes"] += row.opaque_bytes or 0
        sums["unanswered_pings"] += row.unanswered_pings or 0
        sums["no_responders"] += row.no_responders or 0
        sums["midstream"] += row.start == "midstream"
        sums["unknown"] += row.kind == "unknown"
        sums["lame_duck"] += row.lame_duck_ns is not None
        sums["tls"] += row.transport.endswith("tls")
        sums["undecrypted"] += row.transport.endswith("tls") and not row.frames_originator

    def _add_flow(self, row: FlowRecord) -> None:
        self.protocols[row.protocol] += 1
        stopped_ns = max(row.zero_window_ns_originator, row.zero_window_ns_responder)
        if stopped_ns:
            self.stopped.add((stopped_ns, -row.first_ns, row.session), row)

    def _count(self, counts: Counter[str], name: str) -> None:
        counts[name if name in counts or len(counts) < _NAMES else OTHERS] += 1
