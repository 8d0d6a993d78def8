"""The rows that users see: one class a table, its fields the columns, each with its type and meaning.

This is the one declaration of columns: text, JSON lines, CSV and every later format are made from it, so
that a column is the same everywhere. Times are int nanoseconds since the epoch (`_ns`), sizes are bytes.
Wire text (subject, reply, sid, queue, account) is UTF-8 with invalid bytes as `\\xNN`. What is absent is
None, also a list or map without anything in it; writers leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Annotated, NamedTuple, get_args, get_type_hints

Counts = dict[str, int]
Headers = dict[str, list[str]]
Value = str | int | bool | list[str] | Counts | Headers | None


class Record:
    """A row of a table: a dataclass whose annotated fields are the columns."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True)
class FrameRecord(Record):
    """One protocol operation."""

    session: Annotated[str, "session id: 16 hex digits"]
    number: Annotated[int, "1 and up within the session, in time order"]
    ts_ns: Annotated[int, "time of the packet that completed the frame"]
    packet: Annotated[int, "number, in its file, of the packet with the frame's first byte"]
    capture: Annotated[str, "name of the file with the frame's first byte"]
    sender: Annotated[str, "originator (who opened the TCP connection) or responder"]
    kind: Annotated[str, "client, route, gateway, leafnode or unknown"]
    op: Annotated[str, "the operation, in upper case"]
    subject: Annotated[str | None, "subject"] = None
    reply: Annotated[str | None, "reply subject"] = None
    sid: Annotated[str | None, "subscription id"] = None
    queue: Annotated[str | None, "queue group of a subscription"] = None
    queues: Annotated[list[str] | None, "queue groups a message between servers is for"] = None
    account: Annotated[
        str | None, "account named in the frame, or that its route is dedicated to"
    ] = None
    origin: Annotated[str | None, "cluster of the leafnode where it came from"] = None
    max_msgs: Annotated[int | None, "UNSUB: messages in all before the subscription ends"] = None
    weight: Annotated[int | None, "members of the queue group on the sending server"] = None
    header_bytes: Annotated[int | None, "size of the header block"] = None
    payload_bytes: Annotated[int | None, "size of the payload, without headers"] = None
    total_bytes: Annotated[int, "size of the whole frame on the wire"]
    offset: Annotated[int, "of the frame's first byte in its sender's stream"]
    captured_bytes: Annotated[int | None, "of the payload, where that is not all of it"] = None
    status: Annotated[int | None, "inline status of the headers"] = None
    status_text: Annotated[str | None, "its description"] = None
    headers: Annotated[Headers | None, "header name to its values"] = None
    json: Annotated[str | None, "INFO and CONNECT: the JSON object, secrets masked"] = None
    error: Annotated[str | None, "-ERR: its text"] = None
    payload: Annotated[str | None, "the payload, when asked for: as text or in base64"] = None
    payload_sha256: Annotated[str | None, "SHA-256 of the whole payload, when asked for"] = None
    anomalies: Annotated[list[str] | None, "what is odd about the frame"] = None


@dataclass(slots=True, kw_only=True)
class SessionRecord(Record):
    """One NATS connection."""

    session: Annotated[str, "session id: 16 hex digits"]
    capture: Annotated[str, "name of the file with its first byte"]
    kind: Annotated[str, "client, route, gateway, leafnode or unknown"]
    transport: Annotated[str, "tcp, tls, websocket or websocket+tls"]
    compression: Annotated[str | None, "s2 or deflate, where the stream is compressed"] = None
    originator: Annotated[str, "ip:port of who opened the TCP connection"]
    responder: Annotated[str, "ip:port of who accepted it"]
    first_ns: Annotated[int, "time of the first packet"]
    last_ns: Annotated[int, "time of the last packet"]
    start: Annotated[str, "handshake, or midstream where its beginning was not captured"]
    end: Annotated[str, "fin, rst, error (closed after an -ERR), open, idle or evicted"]
    ended_by: Annotated[str | None, "originator or responder"] = None
    proxied_for: Annotated[
        str | None, "ip:port for which a proxy opened it, or the ip of X-Forwarded-For"
    ] = None
    client_name: Annotated[str | None, "what the client calls itself"] = None
    client_lang: Annotated[str | None, "its language"] = None
    client_version: Annotated[str | None, "version of the originator's software"] = None
    server_name: Annotated[str | None, "name of the responder's server"] = None
    server_id: Annotated[str | None, "its id"] = None
    server_version: Annotated[str | None, "its version"] = None
    cluster: Annotated[str | None, "its cluster; on a gateway, its gateway name"] = None
    remote_name: Annotated[str | None, "name of the originator's server, on server links"] = None
    remote_cluster: Annotated[str | None, "its cluster; on a gateway, its gateway name"] = None
    account: Annotated[str | None, "account that the connection is bound to"] = None
    auth: Annotated[str | None, "none, token, user_password, nkey or jwt"] = None
    user: Annotated[str | None, "user, or public nkey"] = None
    user_name: Annotated[str | None, "name in the user's JWT"] = None
    frames_originator: Annotated[Counts | None, "op to count, sent by the originator"] = None
    frames_responder: Annotated[Counts | None, "op to count, sent by the responder"] = None
    messages_originator: Annotated[int, "messages the originator sent"] = 0
    messages_responder: Annotated[int, "messages the responder sent"] = 0
    bytes_originator: Annotated[int, "headers and payloads of the originator's messages"] = 0
    bytes_responder: Annotated[int, "headers and payloads of the responder's messages"] = 0
    subscriptions: Annotated[int, "subscriptions opened, both sides together"] = 0
    requests: Annotated[int | None, "messages of the client that ask for a reply"] = None
    replies: Annotated[int | None, "messages that came back on those reply subjects"] = None
    no_responders: Annotated[int | None, "requests answered 503: nobody listens"] = None
    rtt_ns: Annotated[int | None, "smallest time from a PING to its PONG"] = None
    unanswered_pings: Annotated[int | None, "PINGs without a PONG at the end, if any"] = None
    lame_duck_ns: Annotated[int | None, "when a server said that it shuts down"] = None
    connect_urls: Annotated[list[str] | None, "servers to connect to, by the latest INFO"] = None
    errors: Annotated[list[str] | None, "texts of -ERR, in order, the first 64"] = None
    slow_consumer: Annotated[
        str | None,
        "error (an -ERR says so), or stalled: a side read nothing for 200 ms or more, and the other one"
        " (of a client, the server) closed the connection then or within 10 s",
    ] = None
    missing_bytes: Annotated[int, "sent, but not in the capture"] = 0
    skipped_bytes: Annotated[int, "captured, but not decoded"] = 0
    opaque_bytes: Annotated[
        int | None,
        "those of them that belong to a layer below NATS: TLS, and the heads of S2 and WebSocket",
    ] = None
    retransmitted_bytes: Annotated[int, "sent again"] = 0
    anomalies: Annotated[Counts | None, "oddity to count"] = None
    tls_version: Annotated[str | None, "version of TLS: 1.2, 1.3"] = None
    tls_cipher: Annotated[str | None, "cipher suite of TLS, by its IANA name"] = None


@dataclass(slots=True, kw_only=True)
class SubscriptionRecord(Record):
    """One subscription of a session."""

    session: Annotated[str, "session id: 16 hex digits"]
    sid: Annotated[str | None, "subscription id; server links have none"] = None
    subject: Annotated[str | None, "subject, unknown where the SUB was not captured"] = None
    queue: Annotated[str | None, "queue group"] = None
    account: Annotated[str | None, "account, on server links"] = None
    opened_ns: Annotated[int | None, "when, unless it began before the capture"] = None
    closed_ns: Annotated[int | None, "when, if it ended"] = None
    close: Annotated[
        str | None, "unsub, auto (all messages delivered), refused (-ERR) or session (its end)"
    ] = None
    max_msgs: Annotated[int | None, "messages in all, where limited"] = None
    delivered: Annotated[
        int, "messages; on server links those of the other side that match, and name the queue"
    ] = 0
    delivered_bytes: Annotated[int, "their headers and payloads"] = 0
    sender: Annotated[str, "who subscribed: originator or responder"]
    origin: Annotated[str | None, "cluster of the leafnode it is for, on routes"] = None
    weight: Annotated[int | None, "members of the queue group, as last said, on server links"] = (
        None
    )


@dataclass(slots=True, kw_only=True)
class RequestRecord(Record):
    """One request: a message of a client with a reply subject."""

    session: Annotated[str, "session id: 16 hex digits"]
    subject: Annotated[str, "subject of the request"]
    reply: Annotated[str, "reply subject"]
    sent_ns: Annotated[int, "when the request was sent"]
    replied_ns: Annotated[int | None, "when the first reply came, or that nobody listens"] = None
    latency_ns: Annotated[int | None, "from one to the other"] = None
    status: Annotated[int | None, "its inline status; 503: nobody listens"] = None
    outcome: Annotated[
        str,
        "ok, no_responders, service_error (the headers of a service say so), api_error (JetStream refuses),"
        " no_reply or refused (-ERR: no permission to publish); by the first reply",
    ] = "no_reply"
    error_code: Annotated[
        int | None, "Nats-Service-Error-Code, or JetStream's err_code, else its code or status"
    ] = None
    request_bytes: Annotated[int, "headers and payload of the request"]
    reply_bytes: Annotated[int, "headers and payloads of all replies"] = 0
    responses: Annotated[int, "replies; that nobody listens is none"] = 0


@dataclass(slots=True, kw_only=True)
class FlowRecord(Record):
    """One TCP connection, NATS or not."""

    session: Annotated[str, "session id: 16 hex digits"]
    community_id: Annotated[str, "Community ID v1"]
    originator: Annotated[str, "ip:port of who opened the TCP connection"]
    responder: Annotated[str, "ip:port of who accepted it"]
    first_ns: Annotated[int, "time of the first packet"]
    last_ns: Annotated[int, "time of the last packet"]
    packets_originator: Annotated[int, "packets the originator sent"] = 0
    packets_responder: Annotated[int, "packets the responder sent"] = 0
    bytes_originator: Annotated[int, "TCP payload the originator sent"] = 0
    bytes_responder: Annotated[int, "TCP payload the responder sent"] = 0
    start: Annotated[str, "handshake or midstream"]
    end: Annotated[str, "fin, rst, open, idle or evicted"]
    ended_by: Annotated[str | None, "originator or responder"] = None
    retransmitted_originator: Annotated[int, "bytes sent again"] = 0
    retransmitted_responder: Annotated[int, "bytes sent again"] = 0
    out_of_order_originator: Annotated[int, "packets"] = 0
    out_of_order_responder: Annotated[int, "packets"] = 0
    missing_originator: Annotated[int, "bytes sent, but not in the capture"] = 0
    missing_responder: Annotated[int, "bytes sent, but not in the capture"] = 0
    zero_windows_originator: Annotated[int, "packets of the originator that said: send nothing"] = 0
    zero_windows_responder: Annotated[int, "packets of the responder that said: send nothing"] = 0
    zero_window_ns_originator: Annotated[
        int, "how long the originator stopped the responder that way, in all"
    ] = 0
    zero_window_ns_responder: Annotated[
        int, "how long the responder stopped the originator that way, in all"
    ] = 0
    window_full_originator: Annotated[
        int, "packets of the originator that filled the responder's receive window"
    ] = 0
    window_full_responder: Annotated[
        int, "packets of the responder that filled the originator's receive window"
    ] = 0
    protocol: Annotated[str, "nats, tls, websocket or other"]
    tls_version: Annotated[str | None, "version of TLS that the server chose: 1.2, 1.3"] = None
    tls_cipher: Annotated[str | None, "cipher suite that it chose, by its IANA name"] = None
    tls_server_name: Annotated[str | None, "server that the client asks for (SNI)"] = None
    tls_alpn: Annotated[list[str] | None, "application protocols that the client offers"] = None
    tls_subject: Annotated[
        str | None,
        "subject of the server's certificate; certificates show in TLS 1.2, or with the secrets of the"
        " connection, and need the extra `tls`",
    ] = None
    tls_issuer: Annotated[str | None, "its issuer"] = None
    tls_not_before_ns: Annotated[int | None, "when it begins to be valid"] = None
    tls_not_after_ns: Annotated[int | None, "when it expires, in the year 2262 at the latest"] = (
        None
    )
    tls_client_subject: Annotated[str | None, "subject of the client's certificate"] = None
    tls_alerts: Annotated[list[str] | None, "alerts of both sides, but for the end"] = None
    websocket_path: Annotated[
        str | None, "path of the WebSocket request, values of its query masked"
    ] = None
    websocket_host: Annotated[str | None, "host that it names"] = None
    websocket_origin: Annotated[str | None, "origin, as browsers send it"] = None
    websocket_cookies: Annotated[str | None, "names of the cookies, values masked"] = None
    websocket_protocol: Annotated[str | None, "subprotocol that the server chose"] = None
    websocket_extensions: Annotated[
        str | None, "extensions that both agreed on, such as permessage-deflate"
    ] = None
    ja3: Annotated[str | None, "JA3 fingerprint of the client's TLS"] = None
    ja4: Annotated[str | None, "JA4 fingerprint of the client's TLS"] = None


@dataclass(slots=True, kw_only=True)
class AnomalyRecord(Record):
    """One oddity: what, where, how many bytes."""

    session: Annotated[str, "session id: 16 hex digits"]
    ts_ns: Annotated[int, "time of the packet where it showed"]
    packet: Annotated[int, "number of that packet in its file"]
    sender: Annotated[str, "originator or responder"]
    anomaly: Annotated[str, "its name, from a closed list"]
    offset: Annotated[int, "of its first byte in the sender's stream"]
    bytes: Annotated[int, "how many bytes it is about"]
    text: Annotated[str | None, "what else there is to say"] = None


class Type(Enum):
    """The type of the values in a column."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    TIME = "time"
    TEXTS = "list of texts"
    COUNTS = "map of text to integer"
    HEADERS = "map of text to list of texts"


class Column(NamedTuple):
    """One column of a table. `optional`: it may be absent. `field` is the record's field that holds the
    value: the column's own, but for `time`, which says the table's time column as a time."""

    name: str
    type: Type
    meaning: str
    optional: bool
    field: str


_TYPES = {
    str: Type.TEXT,
    int: Type.INTEGER,
    bool: Type.BOOLEAN,
    list[str]: Type.TEXTS,
    Counts: Type.COUNTS,
    Headers: Type.HEADERS,
}


@cache
def columns_of(record: type[Record], time: str) -> tuple[Column, ...]:
    """The columns of a class of records, with `time` beside the column of that name."""
    hints = get_type_hints(record, include_extras=True)
    found = []
    for name in [item.name for item in fields(record)]:  # type: ignore[arg-type]  # a dataclass
        annotation, meaning = get_args(hints[name])
        some = [part for part in get_args(annotation) if part in _TYPES]
        optional = type(None) in get_args(annotation)
        plain = some[0] if optional and some else annotation
        if plain not in _TYPES:
            raise TypeError(f"{record.__name__}.{name}: no column can be of type {annotation}")
        type_ = _TYPES[plain]
        found.append(Column(name, type_, meaning, optional, name))
        if name == time:
            found.append(Column("time", Type.TIME, f"`{time}` as a time in UTC", optional, name))
    return tuple(found)


def text_of(data: bytes) -> str:
    """Wire bytes as text: UTF-8, with invalid bytes as `\\xNN`."""
    return data.decode("utf-8", "backslashreplace")


UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""Characters that may do something to a terminal, by their codes, and how to write each of them."""
# Line ends that are not control characters, and marks that turn the direction of the text after them.
UNPRINTABLE |= {
    code: f"\\u{code:04x}"
    for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
# Bytes of file names and arguments that are not UTF-8, as Python has them.
UNPRINTABLE |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}


def printable(text: str) -> str:
    """Text that does nothing to a terminal: control characters as `\\xNN` or `\\uNNNN`."""
    return text if text.isprintable() else text.translate(UNPRINTABLE)
