"""For each rule of the package about connections, logins and transports: what it finds, and what it does not.

A case is a sample capture or incident by its name, made-up connections, or rows. What is not found resembles
what is.
"""

from __future__ import annotations

from itertools import accumulate

from dissect.nats.schema.records import AnomalyRecord, FlowRecord, Record

from tests.support.audit import SESSION, frame
from tests.support.audit import session as row
from tests.support.nats_session import Step, call, pub, session, status
from tests.support.pcapwriter import Conversation

Case = str | list[Conversation] | list[Record]

PUBLIC = "203.0.113.7"
REFUSED = "<-ERR 'Authorization Violation'"
USER = {"user": "bob", "pass": "s3cret"}


def refusals(users: list[str], apart: float) -> list[Conversation]:
    """Logins that are refused, one after the other."""
    return [
        session(REFUSED, connect={"user": user, "pass": "guess"}, at=number * apart)
        for number, user in enumerate(users)
    ]


def alert(text: str, anomaly: str = "tls_alert") -> list[Record]:
    """A TLS alert on a connection, or another oddity of it."""
    odd = AnomalyRecord(
        session=SESSION,
        ts_ns=1,
        packet=1,
        sender="originator",
        anomaly=anomaly,
        offset=0,
        bytes=2,
        text=text,
    )
    return [row(transport="tls"), odd]


def flows(**columns: object) -> list[Record]:
    """A connection with TLS."""
    values: dict[str, object] = {
        "session": SESSION,
        "community_id": "1:a",
        "originator": "10.0.0.7:50000",
        "responder": "10.0.0.1:4222",
        "first_ns": 1,
        "last_ns": 2,
        "start": "handshake",
        "end": "fin",
        "protocol": "tls",
    }
    return [FlowRecord(**(values | columns))]  # type: ignore[arg-type]  # columns of any type


def clients(
    number: int, apart: float, client: str = "10.0.0.1", **connect: object
) -> list[Conversation]:
    """Connections, one after the other; `*` in the address becomes the number of each."""
    return [
        session(connect=connect, client=client.replace("*", str(each)), at=each * apart)
        for each in range(1, number + 1)
    ]


def leafnode(*apart_ns: int) -> list[Record]:
    """CONNECTs of leafnodes of one account, each so long after the one before."""
    names = {"server_name": "hub", "remote_name": "spoke", "account": "SHOP"}
    times = enumerate(accumulate(apart_ns), 1)
    frames = [frame(number, ts_ns=at, kind="leafnode", op="CONNECT") for number, at in times]
    return [row(kind="leafnode", **names), *frames]


def violations(number: int, apart: float) -> list[Conversation]:
    """A connection that is refused different subjects."""
    steps: list[Step] = []
    for each in range(number):
        steps += [apart, f"<-ERR 'Permissions Violation for Subscription to \"secret.{each}\"'"]
    return [session(*steps)]


def unserved(subjects: list[str], apart: float = 0.1) -> list[Conversation]:
    """A connection whose requests find no responder."""
    steps: list[Step] = []
    for number, subject in enumerate(subjects):
        inbox = f"_INBOX.app.r{number}"
        steps += [apart, pub(subject, b"", inbox), status(inbox, 503)]
    return [session(*steps)]


def authorized(**headers: str) -> list[Conversation]:
    return [session(pub("a", b"x", headers={k.replace("_", "-"): v for k, v in headers.items()}))]


VARIABLES = {"known_clusters": ["east", "west"]}
"""Values of the placeholders."""

CASES: dict[str, tuple[Case, Case]] = {
    # credentials
    "password-in-clear": ("auth-2.15.1", [row(auth="user_password", transport="tls")]),
    "token-in-clear": ("auth-2.15.1", [row(auth="token", transport="websocket+tls")]),
    "jwt-in-clear": (
        [session(connect={"jwt": "e30.e30.e30", "sig": "AAAA"})],
        [row(auth="jwt", transport="tls")],
    ),
    "server-password-in-clear": (
        "leafnode-2.15.1",
        [row(kind="route", auth="user_password", transport="tls"), row(auth="user_password")],
    ),
    "proxy-credentials-in-clear": ([row(proxy_auth="basic")], [row(proxy_auth="ntlm"), row()]),
    "credentials-from-public-address": (
        [session(connect=USER, client=PUBLIC)],
        [session(connect=USER), session(client=PUBLIC)],
    ),
    "authorization-header-in-clear": (
        authorized(Authorization="Bearer e30"),
        authorized(Accept="text/plain"),
    ),
    # transport
    "tls-offered-but-not-used": (
        [session(info={"tls_available": True})],
        [session(info={"tls_available": False}), session()],
    ),
    "tls-required-but-not-used": ([session(info={"tls_required": True})], "tls-2.15.1"),
    "client-in-clear-from-public-address": ([session(client=PUBLIC)], [session()]),
    "server-link-without-tls": ("gateway-2.15.1", [row(kind="route", transport="tls")]),
    "websocket-without-tls": ("websocket-2.15.1", [row(transport="websocket+tls")]),
    "tls-certificate-refused": (alert("certificate expired"), alert("handshake failure")),
    "tls-handshake-failed": (alert("protocol version"), alert("certificate expired")),
    "tls-certificate-expired": (alert("expired", "tls_certificate"), alert("certificate expired")),
    "tls-old-version": (alert("TLS 1.0", "tls_old_version"), alert("protocol version")),
    "tls-weak-cipher": (
        flows(tls_cipher="TLS_RSA_WITH_AES_128_CBC_SHA")
        + flows(tls_cipher="TLS_ECDHE_RSA_WITH_RC4_128_SHA"),
        flows(tls_cipher="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
        + flows(tls_cipher="TLS_AES_128_GCM_SHA256"),
    ),
    "tls-self-signed-certificate": (
        flows(tls_subject="CN=demo", tls_issuer="CN=demo"),
        flows(tls_subject="CN=demo", tls_issuer="CN=authority") + flows(),
    ),
    "uncompressed-slow-link": (
        [row(kind="leafnode", rtt_ns=25_000_000, bytes_responder=2_000_000)],
        [
            row(kind="leafnode", rtt_ns=25_000_000, bytes_responder=2_000_000, compression="s2"),
            row(kind="route", rtt_ns=200_000, bytes_responder=2_000_000),
            row(kind="gateway", rtt_ns=25_000_000, bytes_responder=2_000_000),
        ],
    ),
    # access
    "anonymous-client": (
        "core-2.15.1",
        [session(connect=USER), session(REFUSED)],
    ),
    "anonymous-client-from-public-address": (
        [session(pub("a"), client=PUBLIC)],
        [session(client=PUBLIC), session(pub("a")), session(pub("a"), connect=USER, client=PUBLIC)],
    ),
    "server-link-without-credentials": ("cluster-2.9.10", "leafnode-2.15.1"),
    "anonymous-leafnode": ([row(kind="leafnode", auth="none")], "leafnode-2.15.1"),
    "authentication-failure": (refusals(["bob"], 1), [session(connect=USER)]),
    "repeated-authentication-failures": (
        refusals(["bob", "bob", "bob"], 10),
        refusals(["bob", "bob", "bob"], 200),
    ),
    "password-spraying": (
        refusals(["ann", "bob", "joe"], 10),
        refusals(["bob", "ann", "bob", "ann"], 10),
    ),
    "credentials-expired": (
        [session("<-ERR 'User Authentication Expired'")],
        refusals(["bob"], 1),
    ),
    "expired-credentials-retried": (
        "expired",
        [session("<-ERR 'User Authentication Expired'", connect=USER)],
    ),
    "authentication-timeout": (
        [session("<-ERR 'Authentication Timeout'")],
        refusals(["bob"], 1),
    ),
    "user-from-many-addresses": (
        clients(10, 60, "10.0.1.*", **USER),
        clients(9, 60, "10.0.1.*", **USER) + clients(3, 60, "10.0.1.1", **USER),
    ),
    "permission-violation": ("auth-2.15.1", refusals(["bob"], 1)),
    "permission-probing": (violations(5, 10), violations(4, 1) + violations(6, 120)),
    "subscribes-to-everything": (
        [session(">SUB > 2"), session(">SUB *.> 2")],
        [session(">SUB orders.> 2"), session(">SUB *.new 2")],
    ),
    "subscribes-to-inboxes": (
        [session(">SUB _INBOX.> 2"), session(">SUB _INBOX.*.* 2")],
        [session(">SUB _INBOX.Qx7Y2mZkP1aB3cD4eF5gH6.* 2"), session(">SUB _INBOX.abc 2")],
    ),
    "subscribes-to-system": (
        [session(">SUB $SYS.ACCOUNT.*.CONNECT 2")],
        [session(">SUB SYS.a 2")],
    ),
    "subscribes-to-storage": (
        [session(">SUB $KV.> 2")],
        [session(">SUB $KV.config.> 2"), session(">SUB $JS.EVENT.ADVISORY.> 2")],
    ),
    "server-controlled-over-nats": (
        [session(pub("$SYS.REQ.SERVER.NABC.RELOAD", b"", "_INBOX.app.1"))],
        [session(pub("$SYS.REQ.SERVER.NABC.VARZ", b"", "_INBOX.app.1"), pub("a.RELOAD"))],
    ),
    "account-claims-changed": (
        [session(pub("$SYS.REQ.CLAIMS.UPDATE", b"e30", "_INBOX.app.1"))],
        [session(pub("$SYS.REQ.CLAIMS.LIST", b"", "_INBOX.app.1"))],
    ),
    "subjects-guessed": (
        unserved([f"guess.{number}" for number in range(10)]),
        unserved(["absent"] * 20) + unserved([f"slow.{number}" for number in range(12)], 30),
    ),
    "unknown-cluster": (
        [row(kind="gateway", cluster="east", remote_cluster="rogue")],
        [
            row(kind="gateway", cluster="east", remote_cluster="WEST"),
            row(kind="client", cluster="rogue"),
            row(kind="leafnode", cluster="east"),
        ],
    ),
    "client-on-server-port": (
        [session("<-ERR 'Attempted To Connect To Route Port'")],
        refusals(["bob"], 1),
    ),
    # legacy
    "server-with-advisories": ("core-2.9.10", "core-2.15.1"),
    "client-leaks-tls-key": (
        [session(connect={"lang": "nats.js", "version": "2.0.0-205"})],
        [session(connect={"lang": "nats.js", "version": "2.0.0-209"}), session()],
    ),
    "client-without-headers": (
        [session(connect={"headers": False})],
        [session()],
    ),
    "nats-streaming-in-use": ("streaming-2.15.1", "stores-2.15.1"),
    # operations
    "verbose-client": ([session(connect={"verbose": True})], [session()]),
    "pedantic-client": ([session(connect={"pedantic": True})], [session()]),
    "connection-churn": (clients(30, 1), clients(29, 1) + clients(20, 10, "10.0.0.2")),
    "reconnect-storm": (
        clients(50, 0.1, "10.0.1.*"),
        clients(48, 0.1, "10.0.1.*") + clients(60, 0.1, "10.0.0.2"),
    ),
    "lame-duck": ([session('<INFO {"ldm":true}')], [session('<INFO {"connect_urls":["a:4222"]}')]),
    "interest-lost": ("flapping", "left"),
    "interest-missing": ("interest", "left"),
    "leafnode-loop": ("loop", "leafnode-2.15.1"),
    "answered-by-several-groups": ("twice", "cluster-2.15.1"),
    "service-left": ("left", "flapping"),
    "service-left-unanswered": ("left", "core-2.15.1"),
    "link-flapping": ("flapping", "cluster-2.15.1"),
    "leafnode-flapping": (leafnode(*[10**9] * 4), leafnode(*[21 * 10**9] * 9)),
    "slow-consumer": ("stalled", "bulk-2.15.1"),
    "stale-connection": ([session("<-ERR 'Stale Connection'")], refusals(["bob"], 1)),
    "connection-limit": (
        [session("<-ERR 'maximum connections exceeded'")],
        [session("<-ERR 'maximum subscriptions exceeded'")],
    ),
    "subscription-limit": (
        [session("<-ERR 'maximum subscriptions exceeded'")],
        [session("<-ERR 'maximum connections exceeded'")],
    ),
    "payload-too-large": (
        [session(pub("a", b"x" * 101), info={"max_payload": 100})],
        [session(pub("a", b"x" * 100), info={"max_payload": 100})],
    ),
    "payload-near-limit": (
        [session(pub("a", b"x" * 1_000_000))],
        [session(pub("a", b"x" * 900_000))],
    ),
    "payload-limit-raised": (
        [session(info={"max_payload": 64 << 20})],
        [session(info={"max_payload": 8 << 20})],
    ),
    "protocol-violation": (
        [session("<-ERR 'Unknown Protocol Operation'")],
        refusals(["bob"], 1),
    ),
    "not-served": (
        [session(pub("$JS.API.INFO", b"", "_INBOX.app.1"), status("_INBOX.app.1", 503))],
        [session(call("STREAM.CREATE.ORDERS", {"error": {"code": 503, "err_code": 10023}}))],
    ),
}
