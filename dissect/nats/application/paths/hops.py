"""The parts of a message that stay the same from server to server, so that its hops can be recognised.

Payload and headers stay, except the headers in `_CHANGED`, which servers add and change (nats-server:
server/msgtrace.go, server/accounts.go). The subject stays, except for what servers put around it, and for
subject mappings and imports. The reply stays, except that gateways put `_GR_.` before it, a service import
replaces it by `_R_.`, and servers append the subject to the reply of a JetStream delivery (see
`jetstream.subjects`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from ...schema.declaration import LayerFrame
from ..jetstream.subjects import AckSubject, ack_subject, without_gateway

_CHANGED = frozenset({"Nats-Trace-Hop", "Nats-Request-Info", "Nats-Trace-Dest"})
_KEPT = _CHANGED | {"Nats-Msg-Id"}
_DIGEST = 16

SessionSide = tuple[str, str]
Line = tuple[str, str, str]


class Hop(NamedTuple):
    """One frame that carries a message. `content` is the digest of headers and payload or, without both, of
    the subject; `size` counts the bytes of headers and payload. `reply` is None for a delivery of JetStream,
    which `place` (stream, sequence) identifies instead. `tap` is the capture that has the frame. `is_changed`
    is true if JetStream may show other contents for the message: a part was not captured, or headers ask for
    changes."""

    ts_ns: int
    session: str
    number: int
    sender: str
    kind: str
    op: str
    account: str | None
    subject: str
    sid: str | None
    reply: str | None
    content: bytes
    size: int
    place: tuple[str, int] | None
    attempt: int
    tap: str
    is_changed: bool = False

    @property
    def side(self) -> SessionSide:
        """The connection and its end that sent the frame."""
        return self.session, self.sender

    @property
    def line(self) -> Line:
        """The connection, direction and subscription of the frame: messages keep their order there."""
        return self.session, self.sender, self.sid or ""

    @property
    def is_publication(self) -> bool:
        """Whether a client published the message in this frame."""
        return self.op in ("PUB", "HPUB")


def hop_of(frame: LayerFrame) -> Hop:
    """Makes a hop from a frame."""
    ack_reply: AckSubject | None = None
    subject, reply = without_gateway(frame.subject or ""), frame.reply
    if reply:
        ack_reply = ack_subject(reply)
        reply = None if ack_reply else without_gateway(reply)
        subject = ack_reply.subject or subject if ack_reply else subject
    size, content = _content(frame, subject)
    return Hop(
        frame.ts_ns,
        frame.session,
        frame.number,
        frame.sender,
        frame.kind,
        frame.op,
        frame.account,
        subject,
        frame.sid,
        reply,
        content,
        size,
        (ack_reply.stream, ack_reply.stream_seq) if ack_reply else None,
        ack_reply.delivered if ack_reply else 1,
        frame.capture,
        frame.captured_bytes is not None or _changes(frame),
    )


def _changes(frame: LayerFrame) -> bool:
    """Whether headers tell a stream what to do with a message, or tell what it has done. It may then store or
    deliver other headers (`Nats-TTL`) or contents (`Nats-Incr`, `Nats-Msg-Size`)."""
    return any(name.startswith("Nats-") and name not in _KEPT for name in frame.headers or ())


def _content(frame: LayerFrame, subject: str) -> tuple[int, bytes]:
    """The size and the digest of headers and payload. Digests with different `person` are never equal, so a
    payload that repeats the headers or the subject of another message is not taken for them."""
    payload = frame.content
    if frame.captured_bytes is not None:  # a part is missing: this digest equals no other
        place = f"{frame.session} {frame.number}".encode()
        return len(payload), blake2b(place, digest_size=_DIGEST, person=b"part").digest()
    headers = b""
    if frame.headers:
        kept = [each for each in sorted(frame.headers.items()) if each[0] not in _CHANGED]
        headers = repr(kept).encode("utf-8", "backslashreplace") if kept else b""
    if headers:
        digest = blake2b(b"%d " % len(headers), digest_size=_DIGEST, person=b"headers")
        digest.update(headers)
        digest.update(payload)
        return len(headers) + len(payload), digest.digest()
    if payload:
        return len(payload), blake2b(payload, digest_size=_DIGEST).digest()
    return 0, _of_subject(subject)


def is_empty(hop: Hop) -> bool:
    """Whether a message has no headers and no payload, so that only its subject is its content."""
    return not hop.size and hop.content == _of_subject(hop.subject)


def _of_subject(subject: str) -> bytes:
    name = subject.encode("utf-8", "backslashreplace")
    return blake2b(name, digest_size=_DIGEST, person=b"subject").digest()
