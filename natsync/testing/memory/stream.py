"""`MemoryStream`: the messages of a stream, and the rules by which they come and go (nats-server
`server/stream.go`, `server/memstore.go`).

Times are integer nanoseconds since 1970, which the caller reads from its clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from ...jetstream.configs import StreamConfig
from ...protocol import ProtocolError, build_headers, matches, parse_headers
from .problems import Problem

__all__ = ["MemoryStream", "Stored", "to_ns"]

_SECOND = 1_000_000_000
_DUPLICATES = 120.0
_UNITS = {
    b"ns": 1,
    b"us": 1_000,
    b"ms": 1_000_000,
    b"s": _SECOND,
    b"m": 60 * _SECOND,
    b"h": 3600 * _SECOND,
}
_PART = re.compile(rb"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_DURATION = re.compile(rb"(?:%b)+" % _PART.pattern)


def to_ns(seconds: float) -> int:
    """Returns seconds as nanoseconds."""
    return round(seconds * _SECOND)


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of a stream; `expires_ns`, if it has a time of its own."""

    seq: int
    subject: bytes
    headers: bytes
    payload: bytes
    time_ns: int
    expires_ns: int | None = None

    def size(self, on_file: bool) -> int:
        """Returns the bytes that a server counts for it (`fileStoreMsgSize`, `memStoreMsgSize`)."""
        own = len(self.subject) + len(self.headers) + len(self.payload)
        return own + (30 + 4 * bool(self.headers) if on_file else 16)


class Follower(Protocol):
    """A consumer, as its stream sees it."""

    def selects(self, subject: bytes) -> bool:
        """Returns whether messages on this subject are for it."""

    def needs(self, message: Stored) -> bool:
        """Returns whether it is not done with a message."""

    def stored(self, message: Stored) -> None:
        """Hears of a new message."""

    def removed(self, message: Stored) -> None:
        """Hears of a message that is gone."""


class MemoryStream:
    """A stream. `subjects` with wildcards say which messages it takes."""

    def __init__(self, config: StreamConfig, now: int) -> None:
        self.config = completed(config)
        self.created = now
        self.messages: dict[int, Stored] = {}  # by sequence, in this order
        self.by_subject: dict[bytes, dict[int, None]] = {}
        self.last_seq = max(0, config.first_seq - 1)
        self.last_time = 0
        self.bytes = 0
        self.followers: dict[str, Follower] = {}  # by name
        self._ids: dict[bytes, tuple[int, int]] = {}  # by message id: sequence and time
        self._last_id = b""

    @property
    def name(self) -> str:
        """Its name."""
        return self.config.name

    @property
    def first_seq(self) -> int:
        """The sequence of the first message, or of the next one."""
        return next(iter(self.messages), self.last_seq + 1 if self.last_seq else 0)

    def takes(self, subject: bytes) -> bool:
        """Returns whether it stores messages on this subject."""
        return any(matches(pattern.encode(), subject) for pattern in self.config.subjects)

    def publish(self, subject: bytes, headers: bytes, payload: bytes, now: int) -> tuple[int, bool]:
        """Stores a message; returns its sequence, and whether it was stored before under its id. Raises
        Problem, and then has not stored it."""
        fields = fields_of(headers)
        msg_id = fields.get(b"Nats-Msg-Id", b"")
        self._forget_ids(now)
        self._check_expectations(subject, fields)
        if msg_id and msg_id in self._ids:
            return self._ids[msg_id][0], True
        expires = self._expiry(fields, now)
        rollup = fields.get(b"Nats-Rollup", b"").lower()
        self._check(subject, headers, payload, rollup)
        if self.config.retention == "interest" and not self._is_wanted(subject):
            self.last_seq += 1
            self.last_time = now
            return self.last_seq, False
        seq = self._append(subject, headers, payload, now, expires)
        self._last_id = msg_id
        if msg_id:
            self._ids[msg_id] = seq, now
        if rollup:
            self.purge(b">" if rollup == b"all" else subject, up_to=seq)
        self._keep_limits(subject)
        return seq, False

    def last(self, pattern: bytes) -> Stored | None:
        """Returns the last message whose subject matches."""
        if pattern in self.by_subject:
            return self.messages[next(reversed(self.by_subject[pattern]))]
        found = [
            next(reversed(seqs)) for own, seqs in self.by_subject.items() if matches(pattern, own)
        ]
        return self.messages[max(found)] if found else None

    def next(self, seq: int, pattern: bytes = b">") -> Stored | None:
        """Returns the first message from `seq` on whose subject matches."""
        for message in self.since(seq):
            if pattern == b">" or matches(pattern, message.subject):
                return message
        return None

    def since(self, seq: int) -> Iterator[Stored]:
        """Iterates over the messages from `seq` on."""
        for each in range(max(seq, self.first_seq), self.last_seq + 1):
            if message := self.messages.get(each):
                yield message

    def remove(self, seq: int) -> bool:
        """Removes a message; returns whether it was there."""
        message = self.messages.pop(seq, None)
        if message is None:
            return False
        seqs = self.by_subject[message.subject]
        del seqs[seq]
        if not seqs:
            del self.by_subject[message.subject]
        self.bytes -= message.size(self._on_file)
        for consumer in self.followers.values():
            consumer.removed(message)
        return True

    def purge(self, pattern: bytes = b">", up_to: int = 0, keep: int = 0) -> int:
        """Removes messages whose subjects match: those before `up_to`, or all but the last `keep`."""
        seqs = [
            seq
            for seq, message in self.messages.items()
            if (not up_to or seq < up_to) and matches(pattern, message.subject)
        ]
        gone = seqs[: len(seqs) - keep] if keep else seqs
        for seq in gone:
            self.remove(seq)
        return len(gone)

    def expire(self, now: int) -> int | None:
        """Removes what has expired; returns when to look again."""
        age = to_ns(self.config.max_age)
        following: list[int] = []
        for seq, message in list(self.messages.items()):
            ends = [message.time_ns + age] if age else []
            ends += [message.expires_ns] if message.expires_ns is not None else []
            if ends and min(ends) <= now:
                self.remove(seq)
                self._mark(message, now)
            elif ends:
                following.append(min(ends))
        return min(following, default=None)

    def acked(self, seq: int) -> None:
        """Removes a message that nobody needs any more, in streams that keep messages for their consumers."""
        message = self.messages.get(seq)
        if message is None or self.config.retention == "limits":
            return
        if not any(consumer.needs(message) for consumer in self.followers.values()):
            self.remove(seq)

    def _forget_ids(self, now: int) -> None:
        since = now - to_ns(self.config.duplicate_window)
        for msg_id in [each for each, (_, time) in self._ids.items() if time < since]:
            del self._ids[msg_id]

    def _check_expectations(self, subject: bytes, fields: dict[bytes, bytes]) -> None:
        """Refuses a message whose expectations do not hold."""
        if (stream := fields.get(b"Nats-Expected-Stream")) and stream != self.name.encode():
            raise Problem(10060)
        if (seq := fields.get(b"Nats-Expected-Last-Sequence")) and int(seq) != self.last_seq:
            raise Problem(10071, self.last_seq)
        if (seq := fields.get(b"Nats-Expected-Last-Subject-Sequence")) is not None:
            of = fields.get(b"Nats-Expected-Last-Subject-Sequence-Subject", subject)
            last = self.last(of)
            if int(seq) != (last.seq if last else 0):
                raise Problem(10071, last.seq if last else 0)
        msg_id = fields.get(b"Nats-Expected-Last-Msg-Id")
        if msg_id is not None and msg_id != self._last_id:
            raise Problem(10070, self._last_id.decode(errors="replace"))

    def _expiry(self, fields: dict[bytes, bytes], now: int) -> int | None:
        ttl = fields.get(b"Nats-TTL")
        if ttl is None or ttl == b"never":
            return None
        if not self.config.allow_msg_ttl:
            raise Problem(10166)
        span = duration_ns(ttl)
        if span is None or span < _SECOND:
            raise Problem(10165)
        return now + span // _SECOND * _SECOND

    def _check(self, subject: bytes, headers: bytes, payload: bytes, rollup: bytes) -> None:
        """Refuses a message that the stream may not store."""
        config = self.config
        if 0 <= config.max_msg_size < len(headers) + len(payload):
            raise Problem(10054)
        if rollup and not config.allow_rollup_hdrs:
            raise Problem(10111, "rollup not permitted")
        if rollup and rollup not in (b"all", b"sub"):
            raise Problem(10111, f"rollup value invalid: {rollup.decode(errors='replace')!r}")
        if config.discard != "new" or rollup:
            return
        own = len(self.by_subject.get(subject, ()))
        if config.discard_new_per_subject and 0 < config.max_msgs_per_subject <= own:
            raise Problem(10077, "maximum messages per subject exceeded")
        replaced = 0 < config.max_msgs_per_subject <= own
        if 0 < config.max_msgs <= len(self.messages) and not replaced:
            raise Problem(10077, "maximum messages exceeded")
        size = Stored(0, subject, headers, payload, 0).size(self._on_file)
        if 0 < config.max_bytes < self.bytes + size and not replaced:
            raise Problem(10077, "maximum bytes exceeded")

    def _append(
        self, subject: bytes, headers: bytes, payload: bytes, now: int, expires: int | None
    ) -> int:
        self.last_seq += 1
        self.last_time = now
        message = Stored(self.last_seq, subject, headers, payload, now, expires)
        self.messages[message.seq] = message
        self.by_subject.setdefault(subject, {})[message.seq] = None
        self.bytes += message.size(self._on_file)
        for consumer in self.followers.values():
            consumer.stored(message)
        return message.seq

    def _keep_limits(self, subject: bytes) -> None:
        """Removes the oldest messages beyond the limits."""
        config = self.config
        own = self.by_subject.get(subject, {})
        while 0 < config.max_msgs_per_subject < len(own):
            self.remove(next(iter(own)))
        while 0 < config.max_msgs < len(self.messages):
            self.remove(self.first_seq)
        while 0 < config.max_bytes < self.bytes:
            self.remove(self.first_seq)

    def apply_limits(self) -> None:
        """Removes what a new configuration does not allow."""
        for subject in list(self.by_subject):
            self._keep_limits(subject)

    def _mark(self, message: Stored, now: int) -> None:
        """Stores the marker of a subject whose last message has expired (ADR-43)."""
        marker = to_ns(self.config.subject_delete_marker_ttl)
        if not marker or message.subject in self.by_subject or b"Nats-Marker" in message.headers:
            return
        fields = [
            (b"Nats-Marker-Reason", b"MaxAge"),
            (b"Nats-TTL", b"%ds" % (marker // _SECOND)),
        ]
        self._append(message.subject, build_headers(fields), b"", now, now + marker)

    def _is_wanted(self, subject: bytes) -> bool:
        return any(consumer.selects(subject) for consumer in self.followers.values())

    @property
    def _on_file(self) -> bool:
        return self.config.storage == "file"


def fields_of(headers: bytes) -> dict[bytes, bytes]:
    """Returns the fields of a header block; none if it cannot be read, for servers store that as it is."""
    try:
        return dict(parse_headers(headers).fields) if headers else {}
    except ProtocolError:
        return {}


def duration_ns(text: bytes) -> int | None:
    """Returns a time in Go's form (1h30m, 1500ms) or in seconds (90) as nanoseconds; None if it is none."""
    if text.isdigit():
        return int(text) * _SECOND
    if not _DURATION.fullmatch(text):
        return None
    parts = _PART.findall(text)
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def completed(config: StreamConfig) -> StreamConfig:
    """Returns a configuration with the defaults of a server."""
    window = config.duplicate_window or min(config.max_age or _DUPLICATES, _DUPLICATES)
    return replace(
        config,
        subjects=config.subjects or (config.name,),
        duplicate_window=window,
        num_replicas=1,
        max_consumers=config.max_consumers or -1,
        max_msgs=config.max_msgs or -1,
        max_bytes=config.max_bytes or -1,
        max_msgs_per_subject=config.max_msgs_per_subject or -1,
        max_msg_size=config.max_msg_size or -1,
    )
