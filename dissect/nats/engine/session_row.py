"""Makes the row of a session. Each of its columns is set in this module, except `same_as` and `copy_of`,
which need the rows of all sessions (`same_sessions`):

flow, framing    `session_row`    addresses, times, start and end, lost bytes
layers           `add_facts`      the layers between TCP and NATS
INFO, CONNECT    `add_peers`      client and server
frames           `_add_frames`    counts, requests, round trips, errors
"""

from __future__ import annotations

from collections.abc import Mapping

from natsync.protocol import ConnectOptions, Kind, closes

from ..schema.records import Record, SessionRecord, Value
from ..secrets.redact import Secrets
from ..sessions import Session
from ..sessions.identity import Identity, UserToken, auth_of
from ..tcp.flow import End, Flow
from ..tcp.window import stalled_side
from ..types import Direction
from .connections import Connection
from .frame_rows import kind_name

_RESPONDER = Direction.RESPONDER
_TOO_LARGE = 1 << 63  # for a column

# Names that peers choose. They may be any text, even a URL with a password.
_PEER_NAMES = (
    "client_name client_lang client_version server_name server_version cluster remote_name"
    " remote_cluster account user user_name"
).split()


def session_row(connection: Connection, session: Session) -> SessionRecord:
    """Finishes the session, and makes its row from the present state."""
    flow, framing = connection.flow, connection.framing
    facts = framing.facts
    session.finish(flow.last_ns if flow.end in (End.FIN, End.RST) else None, facts.handshake)
    counts = [framing.byte_counts(direction) for direction in Direction]
    record = SessionRecord(
        session=flow.id,
        capture=connection.capture,
        kind=kind_name(facts.kind),
        transport=facts.transport,
        compression=facts.compression,
        originator=flow.originator,
        responder=flow.responder,
        first_ns=flow.first_ns,
        last_ns=flow.latest_ns,
        start=start_of(connection),
        end=flow.end.value,
        ended_by=flow.ended_by.value if flow.ended_by else None,
        account=facts.account or None,
        missing_bytes=sum(count.missing for count in counts),
        skipped_bytes=sum(count.skipped for count in counts),
        opaque_bytes=sum(count.opaque for count in counts) or None,
    )
    add_facts(record, framing.stack.facts)
    add_session(record, session, facts.kind)
    set_late_columns(record, flow)
    return record


def start_of(connection: Connection) -> str:
    """Whether the beginning of a connection was captured: the opening of TCP and, if it carries NATS, the
    first INFO."""
    is_whole = not connection.is_nats or connection.framing.facts.handshake
    return "handshake" if is_whole and not connection.flow.midstream else "midstream"


def set_late_columns(record: SessionRecord, flow: Flow) -> None:
    """Sets the columns that late packets may still change after the last byte of the connection."""
    record.last_ns = flow.latest_ns
    record.retransmitted_bytes = sum(side.stream.retransmitted_bytes for side in flow.sides)
    record.duplicate_bytes = sum(side.stream.duplicate_bytes for side in flow.sides)
    _set_slow_consumer(record, flow)


def add_facts(record: Record, facts: Mapping[str, Value]) -> None:
    """Sets the columns for which the layers between TCP and NATS have values."""
    names = record.__slots__
    for name in facts.keys() & set(names):
        setattr(record, name, facts[name])


def add_session(record: SessionRecord, session: Session, kind: Kind | None) -> None:
    """Sets the columns that come from NATS frames."""
    add_peers(record, session.identity, kind)
    _mask_peers(record, session.secrets)
    _add_frames(record, session, kind)


def add_peers(record: SessionRecord, identity: Identity, kind: Kind | None) -> None:
    """Sets the columns about the peers, as INFO and CONNECT describe them."""
    server = identity.infos.get(Direction.RESPONDER)
    if server:
        record.server_name = server.server_name or None
        record.server_id = server.server_id or None
        record.client_id = server.client_id if 0 < server.client_id < _TOO_LARGE else None
        record.server_version = server.version or None
        record.cluster = server.gateway or server.cluster or None
    record.account = identity.account or record.account
    record.lame_duck_ns = identity.lame_duck_ns
    record.connect_urls = list(identity.urls) or None
    remote = identity.infos.get(Direction.ORIGINATOR)
    if remote:
        record.remote_name = remote.server_name or None
        record.remote_cluster = remote.gateway or remote.cluster or None
        record.client_version = remote.version or None
    if identity.connect:
        _add_connect(record, identity.connect, identity.token, kind)


def _add_connect(
    record: SessionRecord, options: ConnectOptions, token: UserToken, kind: Kind | None
) -> None:
    record.auth = auth_of(options)
    record.user = options.user or options.nkey or token.subject or None
    record.user_name = token.name or None
    record.client_version = options.version or record.client_version
    record.account = record.account or token.account or None
    if kind in (Kind.CLIENT, None):
        record.client_name = options.name or None
        record.client_lang = options.lang or None
        return
    record.remote_name = record.remote_name or options.name or None
    record.remote_cluster = record.remote_cluster or options.gateway or options.cluster or None


def _mask_peers(record: SessionRecord, secrets: Secrets) -> None:
    """Masks secrets in the names that peers chose."""
    for name in _PEER_NAMES:
        value = getattr(record, name)
        if value:
            setattr(record, name, secrets.masked(value))
    record.connect_urls = [secrets.masked_url(url) for url in record.connect_urls or ()] or None


def _add_frames(record: SessionRecord, session: Session, kind: Kind | None) -> None:
    """Sets the columns that count frames. If the session ended with an -ERR that closes a connection, that is
    its end."""
    originator, responder = sides = session.originator, session.responder
    record.frames_originator = originator.op_counts()
    record.frames_responder = responder.op_counts()
    record.messages_originator = originator.messages
    record.messages_responder = responder.messages
    record.bytes_originator = originator.bytes
    record.bytes_responder = responder.bytes
    record.subscriptions = sum(side.subscriptions.opened + side.interest.opened for side in sides)
    if kind is Kind.CLIENT:
        record.requests = session.requests.sent
        record.replies = session.requests.replies
        record.no_responders = session.requests.no_responders
    pings = originator.pings, responder.pings
    record.rtt_ns = min((each.rtt_ns for each in pings if each.rtt_ns is not None), default=None)
    record.unanswered_pings = sum(max(0, each.unanswered) for each in pings) or None
    record.errors = session.errors or None
    record.anomalies = dict(sorted(session.anomalies.items())) or None
    for side in (responder, originator):
        if side.last_error and closes(side.last_error.text, kind) and record.end != "open":
            record.end, record.ended_by = "error", side.direction.value


def _set_slow_consumer(record: SessionRecord, flow: Flow) -> None:
    """Sets the evidence of a slow consumer: `error` if an -ERR says so, `stalled` if the receiver had stopped
    the sender; None without evidence. nats-server closes the connection of a slow consumer when its write
    deadline has passed or too many bytes are pending, usually without an -ERR, because that could not be
    sent either (server/client.go, `flushOutbound`)."""
    record.slow_consumer = record.stalled_ns = None
    if any(text.lower().startswith("slow consumer") for text in record.errors or ()):
        record.slow_consumer = "error"
    slow = stalled_side(flow)
    if slow is None or (slow.direction is _RESPONDER and record.kind == "client"):
        return
    if record.slow_consumer is None and record.end == "error":
        return
    record.slow_consumer = record.slow_consumer or "stalled"
    record.stalled_ns = slow.zero_window_ns
