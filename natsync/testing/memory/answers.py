"""What the JetStream API tells about streams, consumers and messages, as nats-server writes it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, TypeAlias

from ..._json import parse_time
from ...protocol import build_headers, matches
from .consumer import MemoryConsumer, Position
from .stream import MemoryStream, Stored, to_ns

__all__ = ["consumer_info", "direct_answers", "selected", "stored_message", "stream_info"]

JSON: TypeAlias = dict[str, Any]

_MOST_SUBJECTS = 1024
_NEVER = "0001-01-01T00:00:00Z"


def stream_info(stream: MemoryStream, asked: JSON, now: int) -> JSON:
    """Returns the configuration and the state of a stream."""
    first = stream.messages.get(stream.first_seq)
    state: JSON = {
        "messages": len(stream.messages),
        "bytes": stream.bytes,
        "first_seq": stream.first_seq,
        "first_ts": _time(first.time_ns) if first else _NEVER,
        "last_seq": stream.last_seq,
        "last_ts": _time(stream.last_time) if stream.last_time else _NEVER,
        "consumer_count": len(stream.followers),
    }
    if stream.by_subject:
        state["num_subjects"] = len(stream.by_subject)
    span = range(stream.first_seq, stream.last_seq + 1) if stream.messages else ()
    if gone := [seq for seq in span if seq not in stream.messages]:
        state["num_deleted"] = len(gone)
        if asked.get("deleted_details"):
            state["deleted"] = gone
    if pattern := asked.get("subjects_filter"):
        state["subjects"] = {
            subject.decode("utf-8", "replace"): len(seqs)
            for subject, seqs in stream.by_subject.items()
            if matches(str(pattern).encode(), subject)
        }
    config = stream.config.to_json(complete=True)
    return {"config": config, "created": _time(stream.created), "state": state, "ts": _time(now)}


def consumer_info(consumer: MemoryConsumer, now: int) -> JSON:
    """Returns the configuration and the state of a consumer."""
    return {
        "stream_name": consumer.stream.name,
        "name": consumer.name,
        "created": _time(consumer.created),
        "config": consumer.config.to_json(),
        "delivered": _position(consumer.delivered),
        "ack_floor": _position(consumer.ack_floor),
        "num_ack_pending": consumer.num_ack_pending,
        "num_redelivered": consumer.num_redelivered,
        "num_waiting": len(consumer.waiting),
        "num_pending": consumer.num_pending,
        "ts": _time(now),
    }


def stored_message(message: Stored) -> JSON:
    """Returns a message for MSG.GET."""
    found: JSON = {
        "subject": message.subject.decode("utf-8", "replace"),
        "seq": message.seq,
        "time": _time(message.time_ns),
    }
    for key, value in (("hdrs", message.headers), ("data", message.payload)):
        if value:
            found[key] = base64.b64encode(value).decode()
    return found


def selected(stream: MemoryStream, body: JSON) -> Stored | None:
    """Returns the message that a request selects."""
    if subject := body.get("last_by_subj"):
        return stream.last(str(subject).encode())
    if subject := body.get("next_by_subj"):
        return stream.next(int(body.get("seq") or 0), str(subject).encode())
    return stream.messages.get(int(body.get("seq") or 0))


def direct_answers(
    stream: MemoryStream, subject: bytes, payload: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the header blocks and payloads that answer a direct get of the last message of a subject, or of
    what the body selects."""
    if subject:
        return (yield _direct(stream, stream.last(subject)))
    if not payload:
        return (yield build_headers((), 408, b"Empty Request"), b"")
    try:
        body = json.loads(payload)
    except ValueError:
        return (yield build_headers((), 408, b"Malformed Request"), b"")
    if not isinstance(body, dict):
        return (yield build_headers((), 408, b"Malformed Request"), b"")
    if not body.get("batch") and not body.get("multi_last"):
        return (yield _direct(stream, selected(stream, body)))
    yield from _batch(stream, body)


def _batch(stream: MemoryStream, body: JSON) -> Iterator[tuple[bytes, bytes]]:
    found = _selection(stream, body)
    if body.get("multi_last") and len(found) > _MOST_SUBJECTS:
        return (yield build_headers((), 413, b"Too Many Results"), b"")
    if not found:
        return (yield build_headers((), 404, b"No Results"), b"")
    batch = found[: int(body.get("batch") or len(found))]
    left = int(body.get("max_bytes") or 0) or None
    last = 0
    for number, message in enumerate(batch, 1):
        if left is not None and number > 1 and message.size(False) > left:
            break
        left = None if left is None else left - message.size(False)
        last = number
        yield _direct(stream, message, [(b"Nats-Num-Pending", b"%d" % (len(found) - number))])
    fields = [
        (b"Nats-Num-Pending", b"%d" % (len(found) - last)),
        (b"Nats-Last-Sequence", b"%d" % found[last - 1].seq),
    ]
    yield build_headers(fields, 204, b"EOB"), b""


def _selection(stream: MemoryStream, body: JSON) -> list[Stored]:
    """Returns all messages that a request for several selects."""
    up_to = int(body.get("up_to_seq") or stream.last_seq)
    until = _ns(body.get("up_to_time"))
    early = [
        each
        for each in stream.messages.values()
        if each.seq <= up_to and (until is None or each.time_ns <= until)
    ]
    if multi := body.get("multi_last"):
        patterns = [str(each).encode() for each in multi]
        last = {each.subject: each for each in early}
        found = [each for own, each in last.items() if any(matches(one, own) for one in patterns)]
        return sorted(found, key=lambda each: each.seq)
    pattern = str(body.get("next_by_subj") or ">").encode()
    first, since = int(body.get("seq") or 0), _ns(body.get("start_time")) or 0
    return [
        each
        for each in early
        if each.seq >= first and each.time_ns >= since and matches(pattern, each.subject)
    ]


def _ns(time: object) -> int | None:
    return to_ns(parse_time(str(time)).timestamp()) if time else None


def _direct(
    stream: MemoryStream, message: Stored | None, more: list[tuple[bytes, bytes]] | None = None
) -> tuple[bytes, bytes]:
    if message is None:
        return build_headers((), 404, b"Message Not Found"), b""
    fields = [
        (b"Nats-Stream", stream.name.encode()),
        (b"Nats-Subject", message.subject),
        (b"Nats-Sequence", b"%d" % message.seq),
        (b"Nats-Time-Stamp", _time(message.time_ns).encode()),
        *(more or ()),
    ]
    added = build_headers(fields)
    if message.headers:  # the server appends its headers to those of the message
        return message.headers[:-2] + added.partition(b"\r\n")[2], message.payload
    return added, message.payload


def _position(position: Position) -> JSON:
    found: JSON = {"consumer_seq": position.consumer_seq, "stream_seq": position.stream_seq}
    if position.last_active is not None:
        found["last_active"] = _time(position.last_active)
    return found


def _time(ns: int) -> str:
    seconds, rest = divmod(ns, 1_000_000_000)
    day = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{day}{fraction}Z"
