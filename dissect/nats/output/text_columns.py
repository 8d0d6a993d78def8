"""Records -> the cells of the tables for people: what matters of a row, in few words.

Times are UTC. `>` is what the originator did, who opened the TCP connection, `<` the responder.
"""

from __future__ import annotations

from collections.abc import Callable

from ..records import AnomalyRecord, FlowRecord, RequestRecord, SessionRecord, SubscriptionRecord
from .number_formats import duration_text, moment_text, size_text
from .text_table import Field

ARROWS = {"originator": ">", "responder": "<"}

_NAME_SHOWN = 24
_NO_RESPONDERS = 503
_ADDRESS = 21  # an IPv4 address with its port


def _ends(cell: str) -> str:
    return cell.replace(" by originator", " >").replace(" by responder", " <")


_SESSION = Field("session", 16, shorter=lambda cell: cell[:8])
_BEGAN = Field("began", 23, shorter=lambda cell: cell[11:])
_ORIGINATOR = Field("originator", _ADDRESS)
_RESPONDER = Field("responder", _ADDRESS)
_END = Field("end", 17, shorter=_ends, gives=True, rank=5)

_SESSIONS = (
    _SESSION,
    _BEGAN._replace(rank=7),
    _ORIGINATOR,
    _RESPONDER,
    Field("kind", 8, rank=1),
    Field("name", _NAME_SHOWN, gives=True),
    Field("user", 12, gives=True, rank=6),
    Field("sent", 8, right=True),
    Field("received", 8, right=True, short="recv"),
    Field("bytes", 7, right=True, rank=8),
    Field("lost", 7, right=True, rank=3, alarm=True),
    Field("hidden", 7, right=True, rank=4),
    _END,
    Field("errors", 20, gives=True, alarm=True),
)

_SUBSCRIPTIONS = (
    _SESSION,
    Field("opened", 23, shorter=lambda cell: cell[11:], rank=4),
    Field("sid", 4, right=True, rank=2),
    Field("subject", 30, gives=True),
    Field("queue", 12, gives=True),
    Field("account", 8, gives=True, rank=3),
    Field("delivered", 9, right=True, short="msgs"),
    Field("bytes", 7, right=True),
    Field("max", 5, right=True, rank=1),
    Field("lasted", 8, right=True, rank=5),
    Field("closed", 7, rank=6),
)

_REQUESTS = (
    _SESSION,
    Field("sent", 23, shorter=lambda cell: cell[11:]),
    Field("subject", 30, gives=True),
    Field("reply", 30, gives=True, rank=3),
    Field("latency", 8, right=True),
    Field("answer", 10),
    Field("request", 7, right=True, rank=2),
    Field("response", 8, right=True, rank=1),
    Field("replies", 7, right=True, rank=4),
)

_ANOMALIES = (
    _SESSION,
    Field("time", 23, shorter=lambda cell: cell[11:]),
    Field("packet", 8, right=True, rank=1),
    Field("by", 2),
    Field("anomaly", 17),
    Field("offset", 12, right=True, rank=2),
    Field("bytes", 9, right=True),
    Field("text", 30, gives=True),
)

_FLOWS = (
    _SESSION,
    _BEGAN._replace(rank=7),
    Field("lasted", 8, right=True, rank=3),
    _ORIGINATOR,
    _RESPONDER,
    Field("protocol", 9),
    Field("packets", 13, right=True, rank=6),
    Field("sent", 7, right=True),
    Field("received", 8, right=True, short="recv"),
    Field("repeated", 8, right=True, rank=2),
    Field("disordered", 10, right=True, rank=1),
    Field("lost", 7, right=True, alarm=True),
    _END,
)


def _session(row: SessionRecord) -> tuple[str, ...]:
    layers = [row.transport if row.transport != "tcp" else "", row.compression or ""]
    hidden = row.opaque_bytes or 0
    user = row.user or ""
    end = row.end if not row.ended_by else f"{row.end} by {row.ended_by}"
    return (
        row.session,
        moment_text(row.first_ns),
        row.originator,
        row.responder,
        "+".join(filter(None, [row.kind, *layers])),
        row.client_name or row.remote_name or "",
        user if len(user) <= _NAME_SHOWN else f"{user[:_NAME_SHOWN - 3]}...",
        str(row.messages_originator),
        str(row.messages_responder),
        _size(row.bytes_originator + row.bytes_responder),
        _size(row.missing_bytes + row.skipped_bytes - hidden),
        _size(hidden),
        end if row.start == "handshake" else f"{end}, midstream",
        "; ".join(row.errors or ()),
    )


def _subscription(row: SubscriptionRecord) -> tuple[str, ...]:
    opened_ns, closed_ns = row.opened_ns, row.closed_ns
    lasted = None if opened_ns is None or closed_ns is None else closed_ns - opened_ns
    return (
        row.session,
        _moment(row.opened_ns),
        row.sid or "",
        "?" if row.subject is None else row.subject,
        row.queue or "",
        row.account or "",
        str(row.delivered),
        _size(row.delivered_bytes),
        _number(row.max_msgs),
        _duration(lasted),
        row.close or "open",
    )


def _request(row: RequestRecord) -> tuple[str, ...]:
    status = "none" if row.replied_ns is None else str(row.status or "ok")
    return (
        row.session,
        moment_text(row.sent_ns),
        row.subject,
        row.reply,
        _duration(row.latency_ns),
        status if row.status != _NO_RESPONDERS else "503 nobody",
        size_text(row.request_bytes),
        _size(row.reply_bytes),
        str(row.responses) if row.responses > 1 else "",
    )


def _anomaly(row: AnomalyRecord) -> tuple[str, ...]:
    return (
        row.session,
        moment_text(row.ts_ns),
        str(row.packet),
        ARROWS[row.sender],
        row.anomaly,
        str(row.offset),
        str(row.bytes),
        row.text or "",
    )


def _flow(row: FlowRecord) -> tuple[str, ...]:
    end = row.end
    return (
        row.session,
        moment_text(row.first_ns),
        duration_text(row.last_ns - row.first_ns),
        row.originator,
        row.responder,
        row.protocol,
        f"{row.packets_originator} / {row.packets_responder}",
        size_text(row.bytes_originator),
        size_text(row.bytes_responder),
        _size(row.retransmitted_originator + row.retransmitted_responder),
        _number(row.out_of_order_originator + row.out_of_order_responder or None),
        _size(row.missing_originator + row.missing_responder),
        end if row.start == "handshake" else f"{end}, midstream",
    )


def _size(size: int) -> str:
    """Nothing is shown for none."""
    return size_text(size) if size else ""


def _moment(ts_ns: int | None) -> str:
    return "" if ts_ns is None else moment_text(ts_ns)


def _duration(duration_ns: int | None) -> str:
    return "" if duration_ns is None else duration_text(duration_ns)


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


GRIDS: dict[str, tuple[tuple[Field, ...], Callable[..., tuple[str, ...]]]] = {
    "sessions": (_SESSIONS, _session),
    "subscriptions": (_SUBSCRIPTIONS, _subscription),
    "requests": (_REQUESTS, _request),
    "anomalies": (_ANOMALIES, _anomaly),
    "flows": (_FLOWS, _flow),
}
"""Of each table: its columns for people, and what makes the cells of a row."""
