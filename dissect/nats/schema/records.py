"""The rows that users see: a class for each table, whose fields are the columns with their meanings.

Columns are declared here only, and every output format is made from these declarations, so a column is
the same everywhere. Times are int nanoseconds since the epoch (`_ns`), sizes are bytes. Wire text (subject,
reply, sid, queue, account) is UTF-8 with invalid bytes as `\\xNN`. An absent value is None, and so is an
empty list or map; writers leave it out. Each meaning must be clear by itself, because Parquet files and
Spark tables have it as the comment of the column.
"""

from __future__ import annotations

from dataclasses import Field, dataclass
from typing import Annotated, ClassVar

from .. import outcomes

Counts = dict[str, int]
Headers = dict[str, list[str]]
LATER = "added later"
"""In the declaration of a column that is never absent: tables that earlier versions wrote lack it. They may
lack any column that can be absent."""
Value = str | int | bool | list[str] | Counts | Headers | None


class Record:
    """A row of a table: a dataclass whose annotated fields are the columns."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def __getstate__(self) -> tuple[object, ...]:
        """Pickles the values without the names of the columns, which take three times as many bytes."""
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])

    def __setstate__(self, values: tuple[object, ...]) -> None:
        for name, value in zip(self.__dataclass_fields__, values):
            setattr(self, name, value)


@dataclass(slots=True, kw_only=True)
class FrameRecord(Record):
    """One protocol operation."""

    session: Annotated[str, "session id: 16 hex digits"]
    number: Annotated[int, "the number of the frame within its session: 1 and up, in time order"]
    ts_ns: Annotated[int, "time of the packet that completed the frame"]
    packet: Annotated[
        int, "number, within its file, of the packet with the first byte of the frame"
    ]
    capture: Annotated[str, "name of the file with the first byte of the frame"]
    sender: Annotated[
        str, "who sent the frame: originator (who opened the TCP connection) or responder"
    ]
    kind: Annotated[str, "kind of the connection: client, route, gateway, leafnode or unknown"]
    op: Annotated[str, "the operation, in upper case"]
    subject: Annotated[str | None, "subject"] = None
    reply: Annotated[str | None, "reply subject"] = None
    sid: Annotated[str | None, "subscription id"] = None
    queue: Annotated[str | None, "queue group of a subscription"] = None
    queues: Annotated[list[str] | None, "queue groups that a message between servers is for"] = None
    account: Annotated[
        str | None, "account that the frame names, or to which its route is dedicated"
    ] = None
    origin: Annotated[
        str | None, "cluster of the leafnode from which the message or subscription came"
    ] = None
    max_msgs: Annotated[
        int | None, "UNSUB: number of messages after which the subscription ends"
    ] = None
    weight: Annotated[int | None, "number of members of the queue group on the sending server"] = (
        None
    )
    header_bytes: Annotated[int | None, "size of the header block"] = None
    payload_bytes: Annotated[int | None, "size of the payload, without headers"] = None
    total_bytes: Annotated[int, "size of the whole frame on the wire"]
    offset: Annotated[int, "position of the frame's first byte in the byte stream of its sender"]
    captured_bytes: Annotated[
        int | None, "size of the captured part of the payload, if it was not captured whole"
    ] = None
    status: Annotated[int | None, "inline status of the headers, such as 503"] = None
    status_text: Annotated[str | None, "description of the inline status"] = None
    headers: Annotated[Headers | None, "names of headers, each with its values"] = None
    json: Annotated[str | None, "INFO and CONNECT: the JSON object, with secrets masked"] = None
    error: Annotated[str | None, "-ERR: the text of the error"] = None
    payload: Annotated[str | None, "the payload as text or in base64, if it was asked for"] = None
    payload_sha256: Annotated[str | None, "SHA-256 of the whole payload, if it was asked for"] = (
        None
    )
    anomalies: Annotated[list[str] | None, "anomalies of the frame"] = None


@dataclass(slots=True, kw_only=True)
class SessionRecord(Record):
    """One NATS connection."""

    session: Annotated[str, "session id: 16 hex digits"]
    capture: Annotated[str, "name of the file with the first packet of the session"]
    kind: Annotated[str, "client, route, gateway, leafnode or unknown"]
    transport: Annotated[str, "tcp, tls, websocket or websocket+tls"]
    compression: Annotated[str | None, "s2 or deflate, if the stream is compressed"] = None
    originator: Annotated[str, "ip:port of the side that opened the TCP connection"]
    responder: Annotated[str, "ip:port of the side that accepted the TCP connection"]
    first_ns: Annotated[int, "time of the first packet"]
    last_ns: Annotated[int, "time of the last packet"]
    start: Annotated[
        str, "handshake, or midstream if the beginning of the connection was not captured"
    ]
    end: Annotated[
        str,
        "how the connection ended: fin, rst, error (closed after an -ERR), open, idle or "
        "evicted",
    ]
    ended_by: Annotated[str | None, "who ended the connection: originator or responder"] = None
    proxied_for: Annotated[
        str | None, "ip:port for which a proxy opened the connection, or the ip in X-Forwarded-For"
    ] = None
    proxied_to: Annotated[
        str | None, "host:port to which a proxy was asked to connect (HTTP CONNECT, SOCKS)"
    ] = None
    proxy_auth: Annotated[
        str | None,
        "how the originator authenticated to that proxy: basic, bearer, digest, negotiate, ntlm, other, or "
        "password (SOCKS)",
    ] = None
    client_name: Annotated[str | None, "name of the client, by its CONNECT"] = None
    client_lang: Annotated[str | None, "programming language of the client library"] = None
    client_version: Annotated[
        str | None, "version of the originator's software: of the client library, or of the server"
    ] = None
    server_name: Annotated[str | None, "name of the responding server"] = None
    server_id: Annotated[str | None, "id of the responding server"] = None
    client_id: Annotated[
        int | None,
        "number of the connection on that server, by the INFO of clients and leafnodes; `cid` in its "
        "logs and in connz",
    ] = None
    same_as: Annotated[
        list[str] | None,
        "other sessions that show the same connection elsewhere, as before and after address translation "
        "or on both sides of a TCP proxy: those with its `server_id` and `client_id`, and overlapping times",
    ] = None
    copy_of: Annotated[
        str | None,
        "the first session of `same_as`, if that began before this one: rows without it show each "
        "connection once",
    ] = None
    server_version: Annotated[str | None, "version of the responding server"] = None
    cluster: Annotated[
        str | None, "cluster of the responding server; its gateway name, on a gateway connection"
    ] = None
    remote_name: Annotated[
        str | None,
        "name of the originating server, on connections between servers; its id, if a route or gateway has "
        "no INFO of it",
    ] = None
    remote_cluster: Annotated[
        str | None, "cluster of the originating server; its gateway name, on a gateway connection"
    ] = None
    account: Annotated[str | None, "account to which the connection is bound"] = None
    auth: Annotated[
        str | None, "how the originator authenticated: none, token, user_password, nkey or jwt"
    ] = None
    user: Annotated[str | None, "name of the user, or the public nkey"] = None
    user_name: Annotated[str | None, "name in the JWT of the user"] = None
    frames_originator: Annotated[
        Counts | None, "number of frames that the originator sent, by operation"
    ] = None
    frames_responder: Annotated[
        Counts | None, "number of frames that the responder sent, by operation"
    ] = None
    messages_originator: Annotated[int, "messages that the originator sent"] = 0
    messages_responder: Annotated[int, "messages that the responder sent"] = 0
    bytes_originator: Annotated[
        int, "bytes of headers and payloads in the messages of the originator"
    ] = 0
    bytes_responder: Annotated[
        int, "bytes of headers and payloads in the messages of the responder"
    ] = 0
    subscriptions: Annotated[int, "subscriptions that both sides opened"] = 0
    requests: Annotated[int | None, "messages of the client that have a reply subject"] = None
    replies: Annotated[
        int | None, "messages that came back on the reply subjects of these requests"
    ] = None
    no_responders: Annotated[
        int | None, "requests that the server answered with status 503, because nobody listened"
    ] = None
    rtt_ns: Annotated[int | None, "shortest time from a PING to its PONG"] = None
    unanswered_pings: Annotated[int | None, "PINGs that had no PONG at the end of the session"] = (
        None
    )
    lame_duck_ns: Annotated[int | None, "when a server announced that it shuts down"] = None
    connect_urls: Annotated[
        list[str] | None, "addresses that clients may connect to, by the latest INFO"
    ] = None
    errors: Annotated[list[str] | None, "texts of the first 64 -ERR, in order"] = None
    slow_consumer: Annotated[
        str | None,
        "error (the text of an -ERR says it), or stalled: one side (the client, on a connection of a "
        "client) read nothing for 200 ms or more, and the other one closed the connection then or within "
        "10 s, or the same side reset it without having read on, or it still read nothing, for 2 s or more, "
        "when the capture ended",
    ] = None
    stalled_ns: Annotated[
        int | None, "how long in all the receive window of the slow consumer was zero"
    ] = None
    missing_bytes: Annotated[int, "bytes that were sent but are not in the capture"] = 0
    skipped_bytes: Annotated[int, "bytes that were captured but not decoded as frames"] = 0
    opaque_bytes: Annotated[
        int | None,
        "skipped bytes that belong to a layer below NATS: TLS, and the headers of S2 and "
        "WebSocket",
    ] = None
    retransmitted_bytes: Annotated[int, "bytes that were sent again"] = 0
    duplicate_bytes: Annotated[
        int, "bytes of packets that were captured twice, on two paths or by a mirror", LATER
    ] = 0
    anomalies: Annotated[Counts | None, "number of anomalies, by name"] = None
    tls_version: Annotated[str | None, "version of TLS: 1.2 or 1.3"] = None
    tls_cipher: Annotated[str | None, "cipher suite of TLS, by its IANA name"] = None


@dataclass(slots=True, kw_only=True)
class SubscriptionRecord(Record):
    """One subscription of a session."""

    session: Annotated[str, "session id: 16 hex digits"]
    sid: Annotated[str | None, "subscription id, which subscriptions between servers lack"] = None
    subject: Annotated[str | None, "subject; absent if the SUB was not captured"] = None
    queue: Annotated[str | None, "queue group"] = None
    account: Annotated[str | None, "account, on connections between servers"] = None
    opened_ns: Annotated[
        int | None, "when the subscription was opened, unless that was before the capture"
    ] = None
    closed_ns: Annotated[int | None, "when the subscription ended"] = None
    close: Annotated[
        str | None,
        "how the subscription ended: unsub, auto (all messages were delivered), refused "
        "(-ERR) or session (the connection ended)",
    ] = None
    max_msgs: Annotated[
        int | None, "number of messages after which the subscription ends, if it is limited"
    ] = None
    delivered: Annotated[
        int,
        "messages that were delivered to the subscription; between servers, messages of the "
        "other side that match it and name its queue group",
    ] = 0
    delivered_bytes: Annotated[int, "bytes of headers and payloads in the delivered messages"] = 0
    sender: Annotated[str, "who subscribed: originator or responder"]
    origin: Annotated[str | None, "cluster of the leafnode for which a route subscribes"] = None
    weight: Annotated[
        int | None, "latest number of members of the queue group, on connections between servers"
    ] = None


@dataclass(slots=True, kw_only=True)
class RequestRecord(Record):
    """One request: a message of a client with a reply subject."""

    session: Annotated[str, "session id: 16 hex digits"]
    subject: Annotated[str, "subject of the request"]
    reply: Annotated[str, "reply subject"]
    sent_ns: Annotated[int, "when the request was sent"]
    replied_ns: Annotated[
        int | None, "when the first reply came, or the answer that nobody listens"
    ] = None
    latency_ns: Annotated[
        int | None,
        "time from the request to the first reply; null if there was none, or nobody listens",
    ] = None
    status: Annotated[
        int | None, "inline status of the first reply; 503 means that nobody listens"
    ] = None
    outcome: Annotated[
        str,
        "how the request ended, by its first reply: ok, no_responders, service_error (the "
        "headers of a service say so), api_error (JetStream refuses), no_reply, or refused "
        "(-ERR: no permission to publish)",
    ] = outcomes.NO_REPLY
    error_code: Annotated[
        int | None,
        "Nats-Service-Error-Code of the reply, or the err_code of JetStream, or else its code"
        " or status",
    ] = None
    request_bytes: Annotated[int, "bytes of headers and payload of the request"]
    reply_bytes: Annotated[int, "bytes of headers and payloads of all replies"] = 0
    responses: Annotated[
        int, "number of replies; the answer that nobody listens does not count"
    ] = 0


@dataclass(slots=True, kw_only=True)
class FlowRecord(Record):
    """One TCP connection, NATS or not."""

    session: Annotated[str, "session id: 16 hex digits"]
    community_id: Annotated[str, "Community ID v1 of the flow"]
    originator: Annotated[str, "ip:port of the side that opened the TCP connection"]
    responder: Annotated[str, "ip:port of the side that accepted the TCP connection"]
    first_ns: Annotated[int, "time of the first packet"]
    last_ns: Annotated[int, "time of the last packet"]
    packets_originator: Annotated[int, "packets that the originator sent"] = 0
    packets_responder: Annotated[int, "packets that the responder sent"] = 0
    bytes_originator: Annotated[int, "bytes of TCP payload that the originator sent"] = 0
    bytes_responder: Annotated[int, "bytes of TCP payload that the responder sent"] = 0
    start: Annotated[
        str, "handshake, or midstream if the beginning of the connection was not captured"
    ]
    end: Annotated[str, "how the connection ended: fin, rst, open, idle or evicted"]
    ended_by: Annotated[str | None, "who ended the connection: originator or responder"] = None
    retransmitted_originator: Annotated[int, "bytes that the originator sent again"] = 0
    retransmitted_responder: Annotated[int, "bytes that the responder sent again"] = 0
    duplicate_bytes: Annotated[
        int, "bytes of packets that were captured twice, on two paths or by a mirror", LATER
    ] = 0
    out_of_order_originator: Annotated[int, "packets of the originator that were out of order"] = 0
    out_of_order_responder: Annotated[int, "packets of the responder that were out of order"] = 0
    missing_originator: Annotated[
        int, "bytes that the originator sent but that are not in the capture"
    ] = 0
    missing_responder: Annotated[
        int, "bytes that the responder sent but that are not in the capture"
    ] = 0
    zero_windows_originator: Annotated[
        int, "packets in which the originator announced a receive window of zero"
    ] = 0
    zero_windows_responder: Annotated[
        int, "packets in which the responder announced a receive window of zero"
    ] = 0
    zero_window_ns_originator: Annotated[
        int, "how long the receive window of the originator was zero, in all"
    ] = 0
    zero_window_ns_responder: Annotated[
        int, "how long the receive window of the responder was zero, in all"
    ] = 0
    window_full_originator: Annotated[
        int, "packets of the originator that filled the responder's receive window"
    ] = 0
    window_full_responder: Annotated[
        int, "packets of the responder that filled the originator's receive window"
    ] = 0
    path: Annotated[
        str | None,
        "networks around the packets, outermost first (VLAN, VNI, GRE key, MPLS label), and the interface "
        "where two connections have the same endpoints at the same time",
    ] = None
    protocol: Annotated[str, "protocol of the connection: nats, tls, websocket or other"]
    tls_version: Annotated[str | None, "version of TLS that the server chose: 1.2 or 1.3"] = None
    tls_cipher: Annotated[str | None, "cipher suite that the server chose, by its IANA name"] = None
    tls_server_name: Annotated[str | None, "name of the server that the client asked for (SNI)"] = (
        None
    )
    tls_alpn: Annotated[
        list[str] | None, "application protocols that the client offered (ALPN)"
    ] = None
    tls_subject: Annotated[
        str | None,
        "subject of the server's certificate; certificates are visible in TLS 1.2, or with "
        "the secrets of the connection, and need the extra `tls`",
    ] = None
    tls_issuer: Annotated[str | None, "issuer of the server's certificate"] = None
    tls_not_before_ns: Annotated[int | None, "when the server's certificate begins to be valid"] = (
        None
    )
    tls_not_after_ns: Annotated[
        int | None, "when the server's certificate expires, at the latest in the year 2262"
    ] = None
    tls_client_subject: Annotated[str | None, "subject of the client's certificate"] = None
    tls_alerts: Annotated[
        list[str] | None, "TLS alerts of both sides, without those that only end the connection"
    ] = None
    websocket_path: Annotated[
        str | None, "path of the WebSocket request, with the values of its query masked"
    ] = None
    websocket_host: Annotated[str | None, "host that the WebSocket request names"] = None
    websocket_origin: Annotated[
        str | None, "origin of the WebSocket request, as browsers send it"
    ] = None
    websocket_cookies: Annotated[
        str | None, "names of the cookies in the WebSocket request, with their values masked"
    ] = None
    websocket_protocol: Annotated[str | None, "WebSocket subprotocol that the server chose"] = None
    websocket_extensions: Annotated[
        str | None, "WebSocket extensions that both sides agreed on, such as permessage-deflate"
    ] = None
    ja3: Annotated[str | None, "JA3 fingerprint of the TLS client"] = None
    ja4: Annotated[str | None, "JA4 fingerprint of the TLS client"] = None


@dataclass(slots=True, kw_only=True)
class AnomalyRecord(Record):
    """One oddity: what, where, how many bytes."""

    session: Annotated[str, "session id: 16 hex digits"]
    ts_ns: Annotated[int, "time of the packet that showed the anomaly"]
    packet: Annotated[int, "number of that packet within its file"]
    sender: Annotated[str, "whose bytes or packets are concerned: originator or responder"]
    anomaly: Annotated[str, "name of the anomaly, from a closed list"]
    offset: Annotated[int, "position of the first concerned byte in the byte stream of its sender"]
    bytes: Annotated[int, "number of concerned bytes"]
    text: Annotated[str | None, "details of the anomaly"] = None


def lost_bytes(row: SessionRecord) -> int:
    """Bytes that were not captured or not understood."""
    return row.missing_bytes + row.skipped_bytes - (row.opaque_bytes or 0)


def text_of(data: bytes) -> str:
    """Wire bytes as text: UTF-8, with invalid bytes as `\\xNN`."""
    return data.decode("utf-8", "backslashreplace")


UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""The replacements of characters that may affect a terminal, by their codes."""
# Line ends that are not control characters, and marks that change the direction of the text after them.
UNPRINTABLE |= {
    code: f"\\u{code:04x}"
    for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
# Surrogates, which Python uses for bytes of file names and arguments that are not UTF-8.
UNPRINTABLE |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}


JSON_ESCAPES = {code: f"\\u{code:04x}" for code in UNPRINTABLE if code >= 32}
"""The same in JSON, whose encoder itself escapes characters below 32."""


def printable_json(text: str) -> str:
    """JSON that cannot affect a terminal, and that a table in text or CSV shows as it is: what a JSON encoder
    leaves of control characters becomes `\\uNNNN`, which is the same JSON."""
    return text if text.isprintable() else text.translate(JSON_ESCAPES)


def printable(text: str) -> str:
    """Text that cannot affect a terminal: control characters become `\\xNN` or `\\uNNNN`."""
    return text if text.isprintable() else text.translate(UNPRINTABLE)
