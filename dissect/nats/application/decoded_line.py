"""Describes a frame of a layer above NATS in a few words, from the frame alone: `ACK ORDERS/worker 42`."""

from __future__ import annotations

from ..schema.records import FrameRecord
from .jetstream.deliveries import ack_of
from .jetstream.subjects import ACK, NEXT, ack_subject, api_subject, purpose
from .messages import MESSAGES


def decoded(frame: FrameRecord) -> str:
    """The meaning of a frame above NATS; empty if its subject and reply have none. An ack's kind is in its
    payload; if the row does not show the payload, the kind is `ack`."""
    subject = frame.subject or ""
    if frame.op not in MESSAGES:
        return ""
    if frame.reply and (ack_reply := ack_subject(frame.reply)):
        again = f", attempt {ack_reply.delivered}" if ack_reply.delivered > 1 else ""
        place = f"{ack_reply.stream}/{ack_reply.consumer} {ack_reply.stream_seq}"
        return f"delivery {place}{again}, {ack_reply.pending} pending"
    if frame.op != "MSG" and subject.startswith(ACK) and (ack_reply := ack_subject(subject)):
        kind = ack_of((frame.payload or "").encode("utf-8", "replace")) or "ack"
        return f"{kind.upper()} {ack_reply.stream}/{ack_reply.consumer} {ack_reply.stream_seq}"
    asked = api_subject(subject) if subject.startswith("$JS.") else None
    if asked:
        name = "/".join(filter(None, (asked.stream, asked.consumer)))
        domain = f" in domain {asked.domain}" if asked.domain else ""
        return f"{'PULL' if asked.api == NEXT else asked.api} {name}".rstrip() + domain
    return purpose(subject)
