"""The subjects of JetStream: API requests under any prefix or domain, ack replies in both forms, and the
purpose of every subject that NATS reserves.

An API subject is `$JS.API.`, `$JS.DOMAIN.API.` or an imported prefix, then the call, then its stream and
consumer (nats-server: server/jetstream_api.go). A delivered message's reply describes the delivery (ADR-15):

    $JS.ACK.STREAM.CONSUMER.DELIVERED.STREAM_SEQ.CONSUMER_SEQ.STORED_NS.PENDING
    $JS.ACK.DOMAIN.ACCOUNT_HASH.STREAM.CONSUMER.DELIVERED.STREAM_SEQ.CONSUMER_SEQ.STORED_NS.PENDING[...]

Between servers, `@` and the message's subject follow the reply, and `_GR_.CLUSTER.SERVER.` may precede it
(server/client.go: processMsgResults; server/gateway.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

ACK = "$JS.ACK."
NEXT = "CONSUMER.MSG.NEXT"
ADVISORY = "$JS.EVENT."
_GATEWAY_REPLY = "_GR_."
_GATEWAY_REPLY_LENGTH = 19  # `_GR_.`, two hashes of 6 characters, two dots
_LONGEST_NUMBER = 20  # digits of 64 bits

ConsumerKey = tuple[str | None, str, str]
"""Account, stream and consumer; the account is known only on connections between servers."""


class ApiSubject(NamedTuple):
    """The parts of an API request's subject; a part that it does not have is empty. `rest` follows the names:
    the filter of a consumer, or the subject of a direct get. `certain` is False under a prefix that is not
    JetStream's own, where only the answer proves the request."""

    api: str
    domain: str
    stream: str
    consumer: str
    rest: str
    certain: bool


class AckSubject(NamedTuple):
    """The facts about a delivery in its ack reply. `key` is the reply without the parts that servers add on
    links; `subject` is the subject of the message, which the reply contains only on links."""

    key: str
    domain: str
    stream: str
    consumer: str
    delivered: int
    stream_seq: int
    consumer_seq: int
    stored_ns: int
    pending: int
    subject: str


# The calls, by the names that follow: of a stream, of a stream and a consumer, or none.
_OF_STREAM = (
    "STREAM.CREATE STREAM.UPDATE STREAM.INFO STREAM.DELETE STREAM.PURGE STREAM.MSG.GET"
    " STREAM.MSG.DELETE STREAM.SNAPSHOT STREAM.RESTORE STREAM.LEADER.STEPDOWN STREAM.PEER.REMOVE"
    " STREAM.PEER.EVACUATE STREAM.CANCEL_MOVE CONSUMER.NAMES CONSUMER.LIST DIRECT.GET"
).split()
_OF_CONSUMER = (
    "CONSUMER.CREATE CONSUMER.DURABLE.CREATE CONSUMER.INFO CONSUMER.DELETE CONSUMER.MSG.NEXT"
    " CONSUMER.PAUSE CONSUMER.UNPIN CONSUMER.RESET CONSUMER.LEADER.STEPDOWN"
).split()
_OF_NEITHER = (
    "INFO STREAM.NAMES STREAM.LIST META.LEADER.STEPDOWN META.RESCUE SERVER.REMOVE SERVER.EVACUATE"
    " ACCOUNT.PURGE ACCOUNT.STREAM.MOVE ACCOUNT.STREAM.CANCEL_MOVE"
).split()
_NAMES = {
    **dict.fromkeys(_OF_NEITHER, 0),
    **dict.fromkeys(_OF_STREAM, 1),
    **dict.fromkeys(_OF_CONSUMER, 2),
}


def _alternatives(calls: list[str]) -> str:
    return "|".join(re.escape(call) for call in sorted(calls, key=len, reverse=True))


# Under another prefix, a lone `INFO` does not count as a call: too many subjects end like that.
_FOREIGN = re.compile(rf"\.({_alternatives(_OF_STREAM + _OF_CONSUMER)})\.")
_OWN = re.compile(rf"({_alternatives(list(_NAMES))})(?:\.|$)")
# The form of nearly all replies. Splitting the others step by step takes three times as long.
_USUAL_ACK = re.compile(
    r"\$JS\.ACK\.([^.@]+)\.([^.@]+)" + rf"\.([0-9]{{1,{_LONGEST_NUMBER}}})" * 5
).fullmatch


def api_subject(subject: str) -> ApiSubject | None:
    """Parses the subject of an API request; None if it is not one."""
    if subject.startswith("$JS."):
        head, api, rest = subject.partition(".API.")
        domain = head[4:]
        if not api or "." in domain or head == "$JS.EVENT":
            return None
        found = _OWN.match(rest)
        if found is None:
            # A call that this version does not know: all that follows `.API.` is its name.
            return None if rest.startswith("$") else ApiSubject(rest, domain, "", "", "", True)
        return _named(found[1], domain, rest[found.end() :], True)
    # Most subjects are not API subjects, and searching with the expression takes ten times as long as this.
    if not (".STREAM." in subject or ".CONSUMER." in subject or ".DIRECT.GET." in subject):
        return None
    if subject.startswith("$"):
        return None
    found = _FOREIGN.search(subject)
    return None if found is None else _named(found[1], "", subject[found.end() :], False)


def _named(api: str, domain: str, rest: str, certain: bool) -> ApiSubject:
    count = _NAMES[api]
    stream = consumer = ""
    if count:
        stream, _, rest = rest.partition(".")
    if count == 2:
        consumer, _, rest = rest.partition(".")
    return ApiSubject(api, domain, stream, consumer, rest, certain)


def without_gateway(subject: str) -> str:
    """A reply, or the subject of an answer to it, without the prefix of gateways."""
    return subject[_GATEWAY_REPLY_LENGTH:] if subject.startswith(_GATEWAY_REPLY) else subject


def ack_subject(reply: str) -> AckSubject | None:
    """Parses an ack reply; None if it is not one."""
    usual = _USUAL_ACK(reply)
    if usual:
        return _numbered(reply, "", usual[1], usual[2], usual.groups()[2:], "")
    reply = without_gateway(reply)
    if not reply.startswith(ACK):
        return None
    subject = ""
    tokens = reply.split(".", 8)
    if "@" in reply and len(tokens) == 9:
        pending, at, tail = tokens[8].partition("@")
        if at and pending.isdigit():
            subject, tokens[8] = tail, pending
            reply = reply[: len(reply) - len(tail) - 1]
    if len(tokens) == 9 and "." in tokens[8]:
        longer = reply.split(".", 10)
        if len(longer) < 11:
            return None
        longer[10], at, subject = longer[10].partition("@")
        reply = reply[: len(reply) - len(subject) - 1] if at else reply
        longer[10] = longer[10].partition(".")[0]
        domain = "" if longer[2] == "_" else longer[2]
        return _checked(reply, domain, longer[4], longer[5], longer[6:], subject)
    if len(tokens) != 9:
        return None
    return _checked(reply, "", tokens[2], tokens[3], tokens[4:], subject)


def _checked(
    key: str, domain: str, stream: str, consumer: str, numbers: list[str], subject: str
) -> AckSubject | None:
    joined = "".join(numbers)
    if not (joined.isascii() and joined.isdigit() and all(numbers)):
        return None
    if len(joined) > 5 * _LONGEST_NUMBER or not (stream and consumer):
        return None
    return _numbered(key, domain, stream, consumer, numbers, subject)


def _numbered(
    key: str, domain: str, stream: str, consumer: str, numbers: Iterable[str], subject: str
) -> AckSubject:
    delivered, stream_seq, consumer_seq, stored_ns, pending = map(int, numbers)
    return AckSubject(
        key,
        domain,
        stream,
        consumer,
        delivered,
        stream_seq,
        consumer_seq,
        stored_ns,
        pending,
        subject,
    )


_SYSTEM = "$SYS."
_SYSTEM_STARTS = (
    ("$SYS.REQ.", "monitoring requests"),
    ("$SYS._INBOX.", "system replies"),
    ("$SYS.LATENCY.", "service latencies"),
)
_SYSTEM_ENDS = (
    (".CONNECT", "connection events"),
    (".DISCONNECT", "connection events"),
    (".CLIENT.AUTH.ERR", "connection events"),
    (".CONN.REJECT", "connection events"),
    (".CONNS", "connection counts"),
    (".STATSZ", "server statistics"),
    (".LAMEDUCK", "server shutdowns"),
    (".SHUTDOWN", "server shutdowns"),
)
_PURPOSES = (
    ("$JS.ACK.", "acks"),
    ("$JS.FC.", "flow control"),
    ("$JS.EVENT.", "JetStream advisories"),
    ("$JS.SNAPSHOT.", "JetStream snapshots"),
    ("$JS.S.", "JetStream sources"),
    ("$JS.M.", "JetStream mirrors"),
    ("$JS.", "JetStream API"),
    ("$JSC.", "JetStream cluster"),
    ("$NRG.", "Raft"),
    ("$KV.", "key-value"),
    ("$O.", "objects"),
    ("$SRV.", "service discovery"),
    ("$MQTT.", "MQTT"),
    ("_STAN.", "NATS Streaming"),
    ("_R_.", "service import replies"),
    ("_GR_.", "gateway replies"),
    ("$GR.", "gateway replies"),
    ("$LDS.", "leafnode loop detection"),
)


def purpose(subject: str) -> str:
    """The purpose of a subject that NATS reserves; empty for any other."""
    if subject[:1] not in "$_":
        return ""
    if subject.startswith(_SYSTEM):
        return _system_purpose(subject)
    return next((name for start, name in _PURPOSES if subject.startswith(start)), "")


def _system_purpose(subject: str) -> str:
    """The purpose of a subject of the system account (nats-server: server/events.go)."""
    if ".CLAIMS." in subject:
        return "account claims"
    starts = (name for start, name in _SYSTEM_STARTS if subject.startswith(start))
    ends = (name for end, name in _SYSTEM_ENDS if subject.endswith(end))
    return next(starts, "") or next(ends, "system")
