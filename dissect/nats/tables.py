"""All tables. Each is declared in exactly one place: here, or in a module of `application`.

Text output shows the essentials of a row in few words: times in UTC, `>` for the originator (the side that
opened the TCP connection) and `<` for the responder.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from operator import attrgetter
from pkgutil import walk_packages

from . import application, outcomes
from .number_formats import duration_text, moment_text, size_text
from .schema.declaration import ARROWS, ApplicationLayer, Table, TextColumn, Unchanged
from .schema.records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
    lost_bytes,
)

# Commands that are not tables.
_COMMANDS = frozenset(
    {"archive", "audit", "follow", "info", "report", "slice", "spark", "split", "sql", "top"}
)
_NAME_SHOWN = 24
_ANSWERS = {
    outcomes.NO_RESPONDERS: f"{outcomes.NO_RESPONDERS_STATUS} nobody",
    outcomes.NO_REPLY: "none",
    outcomes.REFUSED: outcomes.REFUSED,
}
_ADDRESS = 21  # an IPv4 address with its port


def _size(size: int) -> str:
    """A size; empty for 0."""
    return size_text(size) if size else ""


def _moment(ts_ns: int | None) -> str:
    return "" if ts_ns is None else moment_text(ts_ns)


def _duration(duration_ns: int | None) -> str:
    return "" if duration_ns is None else duration_text(duration_ns)


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _clock(cell: str) -> str:
    """A time without its date."""
    return cell[11:]


def _arrows(cell: str) -> str:
    return cell.replace(" by originator", " >").replace(" by responder", " <")


_SESSION = TextColumn("session", 16, attrgetter("session"), shorter=lambda cell: cell[:8])
_BEGAN = TextColumn("began", 23, lambda row: moment_text(row.first_ns), shorter=_clock, rank=7)
_ORIGINATOR = TextColumn("originator", _ADDRESS, attrgetter("originator"))
_RESPONDER = TextColumn("responder", _ADDRESS, attrgetter("responder"))


def _session_kind(row: SessionRecord) -> str:
    transport = row.transport if row.transport != "tcp" else ""
    return "+".join(filter(None, [row.kind, transport, row.compression]))


def _session_user(row: SessionRecord) -> str:
    user = row.user or ""
    return user if len(user) <= _NAME_SHOWN else f"{user[:_NAME_SHOWN - 3]}..."


def _session_end(row: SessionRecord) -> str:
    end = row.end if not row.ended_by else f"{row.end} by {row.ended_by}"
    slow = ", slow consumer" if row.slow_consumer else ""
    return end + slow + ("" if row.start == "handshake" else ", midstream")


_SESSIONS = (
    _SESSION,
    _BEGAN,
    _ORIGINATOR,
    _RESPONDER,
    TextColumn("kind", 8, _session_kind, rank=1),
    TextColumn(
        "name", _NAME_SHOWN, lambda row: row.client_name or row.remote_name or "", may_cut=True
    ),
    TextColumn("user", 12, _session_user, may_cut=True, rank=6),
    TextColumn("sent", 8, lambda row: str(row.messages_originator), right=True),
    TextColumn("received", 8, lambda row: str(row.messages_responder), right=True, short="recv"),
    TextColumn(
        "bytes",
        7,
        lambda row: _size(row.bytes_originator + row.bytes_responder),
        right=True,
        rank=8,
    ),
    TextColumn("lost", 7, lambda row: _size(lost_bytes(row)), right=True, rank=3, alarm=True),
    TextColumn("hidden", 7, lambda row: _size(row.opaque_bytes or 0), right=True, rank=4),
    TextColumn("end", 17, _session_end, shorter=_arrows, may_cut=True, rank=5),
    TextColumn("errors", 20, lambda row: "; ".join(row.errors or ()), may_cut=True, alarm=True),
)


def _lasted(row: SubscriptionRecord) -> str:
    if row.opened_ns is None or row.closed_ns is None:
        return ""
    return duration_text(row.closed_ns - row.opened_ns)


_SUBSCRIPTIONS = (
    _SESSION,
    TextColumn("opened", 23, lambda row: _moment(row.opened_ns), shorter=_clock, rank=4),
    TextColumn("sid", 4, lambda row: row.sid or "", right=True, rank=2),
    TextColumn(
        "subject", 30, lambda row: "?" if row.subject is None else row.subject, may_cut=True
    ),
    TextColumn("queue", 12, lambda row: row.queue or "", may_cut=True),
    TextColumn("account", 8, lambda row: row.account or "", may_cut=True, rank=3),
    TextColumn("delivered", 9, lambda row: str(row.delivered), right=True, short="msgs"),
    TextColumn("bytes", 7, lambda row: _size(row.delivered_bytes), right=True),
    TextColumn("max", 5, lambda row: _number(row.max_msgs), right=True, rank=1),
    TextColumn("lasted", 8, _lasted, right=True, rank=5),
    TextColumn("closed", 7, lambda row: row.close or "open", rank=6),
)


def _answer(row: RequestRecord) -> str:
    if row.outcome in (outcomes.SERVICE_ERROR, outcomes.API_ERROR):
        return f"error {row.error_code or ''}".rstrip()
    return _ANSWERS.get(row.outcome) or str(row.status or "ok")


_REQUESTS = (
    _SESSION,
    TextColumn("sent", 23, lambda row: moment_text(row.sent_ns), shorter=_clock),
    TextColumn("subject", 30, attrgetter("subject"), may_cut=True),
    TextColumn("reply", 30, attrgetter("reply"), may_cut=True, rank=3),
    TextColumn("latency", 8, lambda row: _duration(row.latency_ns), right=True),
    TextColumn("answer", 10, _answer),
    TextColumn("request", 7, lambda row: size_text(row.request_bytes), right=True, rank=2),
    TextColumn("response", 8, lambda row: _size(row.reply_bytes), right=True, rank=1),
    TextColumn(
        "replies",
        7,
        lambda row: str(row.responses) if row.responses > 1 else "",
        right=True,
        rank=4,
    ),
)

_ANOMALIES = (
    _SESSION,
    TextColumn("time", 23, lambda row: moment_text(row.ts_ns), shorter=_clock),
    TextColumn("packet", 8, lambda row: str(row.packet), right=True, rank=1),
    TextColumn("by", 2, lambda row: ARROWS[row.sender]),
    TextColumn("anomaly", 17, attrgetter("anomaly")),
    TextColumn("offset", 12, lambda row: str(row.offset), right=True, rank=2),
    TextColumn("bytes", 9, lambda row: str(row.bytes), right=True),
    TextColumn("text", 30, lambda row: row.text or "", may_cut=True),
)


def _retransmitted(row: FlowRecord) -> str:
    return _size(row.retransmitted_originator + row.retransmitted_responder)


def _stopped(row: FlowRecord) -> str:
    """How long each side stopped the other with a zero window."""
    ways = (">", row.zero_window_ns_originator), ("<", row.zero_window_ns_responder)
    return " ".join(f"{way} {duration_text(time_ns)}" for way, time_ns in ways if time_ns)


def _disordered(row: FlowRecord) -> str:
    return _number(row.out_of_order_originator + row.out_of_order_responder or None)


_FLOWS = (
    _SESSION,
    _BEGAN,
    TextColumn(
        "lasted", 8, lambda row: duration_text(row.last_ns - row.first_ns), right=True, rank=3
    ),
    _ORIGINATOR,
    _RESPONDER,
    TextColumn("path", 8, lambda row: row.path or "", rank=2, may_cut=True),
    TextColumn("protocol", 9, attrgetter("protocol")),
    TextColumn(
        "packets",
        13,
        lambda row: f"{row.packets_originator} / {row.packets_responder}",
        right=True,
        rank=6,
    ),
    TextColumn("sent", 7, lambda row: size_text(row.bytes_originator), right=True),
    TextColumn("received", 8, lambda row: size_text(row.bytes_responder), right=True, short="recv"),
    TextColumn("repeated", 8, _retransmitted, right=True, rank=2),
    TextColumn("duplicate", 9, lambda row: _size(row.duplicate_bytes), right=True, rank=2),
    TextColumn("stopped", 10, _stopped, rank=4, may_cut=True),
    TextColumn("disordered", 10, _disordered, right=True, rank=1),
    TextColumn(
        "lost",
        7,
        lambda row: _size(row.missing_originator + row.missing_responder),
        right=True,
        alarm=True,
    ),
    TextColumn(
        "end",
        17,
        lambda row: row.end if row.start == "handshake" else f"{row.end}, midstream",
        shorter=_arrows,
        may_cut=True,
        rank=5,
    ),
)

_FROM_SESSIONS = (
    Table(
        name="frames",
        singular="frame",
        summary="List protocol operations, in time order.",
        row=FrameRecord,
        time="ts_ns",
        position=attrgetter("ts_ns", "session", "number"),
        window=20_000,  # frames come nearly in order, and their rows are the largest
    ),
    Table(
        name="sessions",
        singular="session",
        summary="List NATS connections.",
        row=SessionRecord,
        time="first_ns",
        position=attrgetter("first_ns", "session"),
        window=0,  # they come in order (`engine.same_sessions`)
        text=_SESSIONS,
        at_end=True,
    ),
    Table(
        name="subscriptions",
        singular="subscription",
        summary="List subscriptions: opened, closed, messages delivered.",
        row=SubscriptionRecord,
        time="opened_ns",
        position=lambda row: (
            row.opened_ns or 0,
            row.session,
            row.account or "",
            row.subject or "",
            row.queue or "",
            row.sid or "",
        ),
        text=_SUBSCRIPTIONS,
    ),
    Table(
        name="requests",
        singular="request",
        summary="List requests: reply or none, latency.",
        row=RequestRecord,
        time="sent_ns",
        position=attrgetter("sent_ns", "session", "reply", "subject"),
        text=_REQUESTS,
        payloads=True,  # JetStream reports errors in the payload
    ),
    Table(
        name="flows",
        singular="flow",
        summary="List TCP connections, NATS or not.",
        row=FlowRecord,
        time="first_ns",
        position=attrgetter("first_ns", "session"),
        text=_FLOWS,
        at_end=True,
    ),
    Table(
        name="anomalies",
        singular="anomaly",
        summary="List oddities: kind, place, number of bytes.",
        row=AnomalyRecord,
        time="ts_ns",
        position=attrgetter("ts_ns", "session", "packet", "sender", "offset", "anomaly"),
        text=_ANOMALIES,
    ),
)


def _declared() -> dict[str, Table]:
    """Every table by its name: first those of the engine, then those of the application layers."""
    found = list(_FROM_SESSIONS)
    modules = walk_packages(application.__path__, f"{application.__name__}.")
    for module in sorted(modules, key=lambda item: item.name):
        layer = import_module(module.name)
        found += [value for value in vars(layer).values() if isinstance(value, Table)]
    tables: dict[str, Table] = {}
    for table in found:
        if table.name in tables or table.name in _COMMANDS:
            raise ValueError(f"table {table.name!r}: the name is taken")
        tables[table.name] = table
    return tables


TABLES = _declared()
"""Every table by its name, in the order of the manual."""

FROM_ENGINE = tuple(name for name, table in TABLES.items() if table.layer is None)
"""The names of the tables that the engine makes itself. One saved state of a flow serves all of them."""

TABLE_OF = {table.row: table for table in TABLES.values()}
"""The table of each class of records."""

_FRAMES_FOR = "frames for "


def frames_for(*tables: str) -> str:
    """The name of an internal table of Spark jobs: the frames that the layers of these tables read."""
    return f"{_FRAMES_FOR}{' '.join(tables)}"


def _read_by(name: str) -> list[Table]:
    """The tables with the layers that read an internal table; or the table of this name."""
    return [TABLES[table] for table in name.removeprefix(_FRAMES_FOR).split(" ")]


def layers_of(names: Collection[str]) -> tuple[ApplicationLayer, ...]:
    """The application layers that make these tables, each once."""
    found = []
    for name in names:
        layers = [table.layer for table in _read_by(name) if table.layer]
        if layers and name not in TABLES:
            ops = frozenset[str]().union(*(layer.ops for layer in layers))
            layers = [ApplicationLayer(ops, Unchanged)]
        found += [layer for layer in layers if layer not in found]
    return tuple(found)


def needs_payloads(names: Collection[str]) -> bool:
    """Whether any of these tables is made from payloads."""
    return any(table.payloads for name in names for table in _read_by(name))
