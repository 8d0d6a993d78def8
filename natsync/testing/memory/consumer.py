"""`MemoryConsumer`: a pull consumer, its requests and acknowledgements (nats-server `server/consumer.go`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...jetstream.configs import ConsumerConfig
from ...protocol import build_headers, matches
from .router import Message, Router
from .stream import MemoryStream, Stored, to_ns

__all__ = ["MemoryConsumer"]

_ACK_WAIT = 30.0
_MAX_ACK_PENDING = 1000
_MAX_WAITING = 512
_UNUSED = 5.0  # seconds after which an ephemeral consumer without requests is deleted

Status = tuple[int, bytes]
_EXPIRED: Status = (408, b"Request Timeout")
_NONE: Status = (404, b"No Messages")
_FULL: Status = (409, b"Batch Completed")
_TOO_LARGE: Status = (409, b"Message Size Exceeds MaxBytes")
_TOO_MANY: Status = (409, b"Exceeded MaxWaiting")
_DELETED: Status = (409, b"Consumer Deleted")


@dataclass(slots=True)
class _Pull:
    """A pull request: what it has still to get, and when it ends."""

    reply: bytes
    left: int
    bytes_left: int
    limited: bool
    no_wait: bool
    expires: int | None
    heartbeat: int
    beat_at: int
    got: int = 0


@dataclass(slots=True)
class _Pending:
    """A delivered message that is not acknowledged."""

    consumer_seq: int
    until: int


@dataclass(slots=True)
class Position:
    """Sequences of the consumer and of the stream."""

    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: int | None = None


class MemoryConsumer:
    """A consumer. `change` is called when a timer may be needed; `clock` reads nanoseconds since 1970."""

    def __init__(
        self,
        stream: MemoryStream,
        name: str,
        config: ConsumerConfig,
        router: Router,
        clock: Callable[[], int],
        change: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.name = name
        self.config = completed(config, name)
        self.created = clock()
        self.delivered = Position()
        self.ack_floor = Position()
        self.num_pending = 0
        self.waiting: list[_Pull] = []
        self.pending: dict[int, _Pending] = {}  # by stream sequence
        self._router = router
        self._clock = clock
        self._change = change
        self._counts: dict[int, int] = {}  # by stream sequence: deliveries
        self._again: dict[int, int] = {}  # by stream sequence: when to deliver it again
        self._used = self.created
        self._patterns = [pattern.encode() for pattern in patterns(config)]
        self._only: list[int] | None = None
        self._next = self._begin()
        first = self._only[0] if self._only else self._next
        self.delivered.stream_seq = self.ack_floor.stream_seq = max(0, first - 1)
        self._count_pending()

    @property
    def num_redelivered(self) -> int:
        """The number of messages that were delivered more than once and are not acknowledged."""
        return sum(count > 1 for count in self._counts.values())

    @property
    def num_ack_pending(self) -> int:
        """The number of messages that are delivered and not acknowledged."""
        return len(self.pending)

    def change_config(self, config: ConsumerConfig) -> None:
        """Takes another configuration, for what it delivers from now on."""
        self.config = config
        self._patterns = [pattern.encode() for pattern in patterns(config)]
        self._count_pending()
        self._change()

    def selects(self, subject: bytes) -> bool:
        """Returns whether messages on this subject are for this consumer."""
        return not self._patterns or any(matches(each, subject) for each in self._patterns)

    def needs(self, message: Stored) -> bool:
        """Returns whether the consumer has still to deliver a message, or waits for its acknowledgement."""
        if not self.selects(message.subject):
            return False
        return (
            message.seq >= self._next or message.seq in self.pending or message.seq in self._again
        )

    def stored(self, message: Stored) -> None:
        """Hears of a new message."""
        if self.selects(message.subject):
            self.num_pending += 1
            self._change()

    def removed(self, message: Stored) -> None:
        """Hears of a message that is gone."""
        if self.selects(message.subject) and self._is_ahead(message.seq):
            self.num_pending -= 1
        self._again.pop(message.seq, None)
        self._counts.pop(message.seq, None)
        if own := self.pending.pop(message.seq, None):
            self._move_floor(message.seq, own.consumer_seq)

    def pull(self, reply: bytes, body: bytes) -> None:
        """Takes a pull request."""
        self._used = now = self._clock()
        try:
            request = json.loads(body) if body[:1] == b"{" else {"batch": int(body or b"1")}
            numbers = {name: int(request.get(name) or 0) for name in ("batch", "max_bytes")}
            times = {name: int(request.get(name) or 0) for name in ("expires", "idle_heartbeat")}
        except (ValueError, TypeError, AttributeError):
            return self._status(reply, (400, b"Bad Request - invalid JSON"))
        if refusal := self._refusal(request, numbers, times):
            return self._status(reply, refusal)
        no_wait = bool(request.get("no_wait"))
        if no_wait and not times["expires"] and not self.num_pending and not self._again:
            return self._status(reply, _NONE)
        heartbeat = times["idle_heartbeat"]
        self.waiting.append(
            _Pull(
                reply,
                numbers["batch"] or 1,
                numbers["max_bytes"],
                bool(numbers["max_bytes"]),
                no_wait,
                now + times["expires"] if times["expires"] else None,
                heartbeat,
                now + heartbeat,
            )
        )
        self._change()

    def run(self) -> int | None:
        """Delivers what can be delivered, ends what is over; returns when to be called again."""
        now = self._clock()
        for seq, each in list(self.pending.items()):
            if seq not in self._again and each.until <= now:
                self._repeat(seq, now)
        self._end_pulls(now)
        while self.waiting and (message := self._due(now)):
            self._deliver(message, now)
        for pull in [pull for pull in self.waiting if pull.no_wait and not pull.expires]:
            self._end(pull, _NONE)
        for pull in [pull for pull in self.waiting if pull.no_wait and pull.got]:
            self._end(pull, _NONE)
        self._beat(now)
        times = [pull.expires for pull in self.waiting if pull.expires is not None]
        times += [pull.beat_at for pull in self.waiting if pull.heartbeat]
        times += [each.until for seq, each in self.pending.items() if seq not in self._again]
        times += [time for time in self._again.values() if time > now]
        times += [self._used + to_ns(self.config.inactive_threshold)] if self._is_unused else []
        return min(times, default=None)

    def is_abandoned(self) -> bool:
        """Returns whether nobody has used an ephemeral consumer for so long that it is to be deleted."""
        unused = to_ns(self.config.inactive_threshold)
        return self._is_unused and self._clock() >= self._used + unused

    def end(self) -> None:
        """Tells those who wait that the consumer is deleted."""
        for pull in list(self.waiting):
            self._end(pull, _DELETED)

    def ack(self, seq: int, kind: bytes, body: bytes) -> None:
        """Takes an acknowledgement: +ACK, -NAK, +WPI or +TERM."""
        self._used = now = self._clock()
        known = self.pending.get(seq)
        if kind in (b"+ACK", b"", b"+TERM"):
            seqs = [each for each in self.pending if each <= seq] if self._acks_all else [seq]
            for each in seqs:
                self._settle(each)
        elif known and kind == b"-NAK":
            self._repeat(seq, now + _delay(body))
        elif known and kind == b"+WPI":
            known.until = now + self._ack_wait(seq)
            self._again.pop(seq, None)
        self._change()

    @property
    def _acks_all(self) -> bool:
        return self.config.ack_policy == "all"

    @property
    def _is_unused(self) -> bool:
        return bool(self.config.inactive_threshold) and not self.waiting

    def _begin(self) -> int:
        """Returns the stream sequence to begin with."""
        config, stream = self.config, self.stream
        match config.deliver_policy:
            case "new":
                return stream.last_seq + 1
            case "last":
                found = [stream.last(each) for each in self._patterns or [b">"]]
                return max([each.seq for each in found if each], default=stream.last_seq + 1)
            case "last_per_subject":
                self._only = sorted(
                    next(reversed(seqs))
                    for subject, seqs in stream.by_subject.items()
                    if self.selects(subject)
                )
                return stream.last_seq + 1
            case "by_start_sequence":
                return config.opt_start_seq
            case "by_start_time" if config.opt_start_time:
                since = to_ns(config.opt_start_time.timestamp())
                later = (seq for seq, each in stream.messages.items() if each.time_ns >= since)
                return next(later, stream.last_seq + 1)
        return stream.first_seq

    def _count_pending(self) -> None:
        ahead = sum(self.selects(each.subject) for each in self.stream.since(self._next))
        self.num_pending = len(self._only or ()) + ahead

    def _is_ahead(self, seq: int) -> bool:
        if self._only and seq in self._only:
            self._only.remove(seq)
            return True
        return seq >= self._next

    def _refusal(
        self, request: dict[str, object], numbers: dict[str, int], times: dict[str, int]
    ) -> Status | None:
        """Returns why a request is refused, if it is."""
        config = self.config
        if times["idle_heartbeat"] * 2 > times["expires"]:
            return 400, b"Bad Request - heartbeat value too large"
        if any(request.get(name) for name in ("group", "min_pending", "min_ack_pending")):
            return 400, b"Bad Request - priority groups are not supported by the in-memory server"
        if 0 < config.max_batch < numbers["batch"]:
            return 409, b"Exceeded MaxRequestBatch of %d" % config.max_batch
        if 0 < config.max_bytes < numbers["max_bytes"]:
            return 409, b"Exceeded MaxRequestMaxBytes of %d" % config.max_bytes
        if 0 < to_ns(config.max_expires) < times["expires"]:
            return 409, b"Exceeded MaxRequestExpires of %gs" % config.max_expires
        if len(self.waiting) >= config.max_waiting:
            return _TOO_MANY
        return None

    def _due(self, now: int) -> Stored | None:
        """Returns the next message to deliver: one that is delivered again comes first."""
        for seq, time in sorted(self._again.items()):
            if time <= now:
                return self.stream.messages[seq]
        if 0 < self.config.max_ack_pending <= len(self.pending):
            return None
        while self._only:
            if message := self.stream.messages.get(self._only[0]):
                return message
            self._only.pop(0)
        for message in self.stream.since(self._next):
            self._next = message.seq
            if self.selects(message.subject):
                return message
        self._next = max(self._next, self.stream.last_seq + 1)
        return None

    def _is_exhausted(self, seq: int) -> bool:
        return 0 < self.config.max_deliver <= self._counts.get(seq, 0)

    def _deliver(self, message: Stored, now: int) -> None:
        pull = self.waiting[0]
        size = len(message.subject) + len(message.headers) + len(message.payload)
        if pull.limited and size > pull.bytes_left:
            return self._end(pull, _TOO_LARGE)
        if not self._router.matching(pull.reply):  # nobody waits any more
            self.waiting.remove(pull)
            return
        self._take(message, now)
        pull.left -= 1
        pull.bytes_left -= size
        pull.got += 1
        pull.beat_at = now + pull.heartbeat
        headers, payload = message.headers, message.payload
        if self.config.headers_only:
            fields = (b"Nats-Msg-Size: %d\r\n\r\n" % len(payload),)
            headers = (headers[:-2] or b"NATS/1.0\r\n") + fields[0]
            payload = b""
        reply = self._ack_subject(message)
        # The client subscribed to the reply of its request, and gets the message under its own subject.
        for interest in self._router.matching(pull.reply):
            interest.receive(Message(message.subject, reply, headers, payload))
        if not pull.left:
            self.waiting.remove(pull)
            if pull.limited:
                self._status(pull.reply, _FULL, pull)
        else:  # the next message is for the next request
            self.waiting.append(self.waiting.pop(0))

    def _take(self, message: Stored, now: int) -> None:
        seq = message.seq
        if seq in self._again:
            del self._again[seq]
        else:
            self.num_pending -= 1
            if self._only and self._only[0] == seq:
                self._only.pop(0)
            else:
                self._next = seq + 1
        self._counts[seq] = self._counts.get(seq, 0) + 1
        self.delivered.consumer_seq += 1
        self.delivered.stream_seq = max(self.delivered.stream_seq, seq)
        self.delivered.last_active = now
        if self.config.ack_policy == "none":
            self.ack_floor = replace(self.delivered)
            self._counts.pop(seq)
            self.stream.acked(seq)
        else:
            until = now + self._ack_wait(seq)
            own = self.pending.setdefault(seq, _Pending(self.delivered.consumer_seq, until))
            own.until = until

    def _ack_wait(self, seq: int) -> int:
        waits = self.config.backoff
        if not waits:
            return to_ns(self.config.ack_wait)
        return to_ns(waits[min(self._counts.get(seq, 1), len(waits)) - 1])

    def _ack_subject(self, message: Stored) -> bytes:
        count = self._counts.get(message.seq, 1)
        numbers = (count, message.seq, self.delivered.consumer_seq, message.time_ns)
        own = ".".join(map(str, ("$JS.ACK", self.stream.name, self.name, *numbers)))
        return f"{own}.{self.num_pending}".encode()

    def _repeat(self, seq: int, when: int) -> None:
        if self._is_exhausted(seq):
            del self.pending[seq]
        else:
            self._again[seq] = when

    def _settle(self, seq: int) -> None:
        if own := self.pending.pop(seq, None):
            self._again.pop(seq, None)
            self._counts.pop(seq, None)
            self.ack_floor.last_active = self._clock()
            self._move_floor(seq, own.consumer_seq)
            self.stream.acked(seq)

    def _move_floor(self, seq: int, consumer_seq: int) -> None:
        """Moves the floor after the acknowledgement of a message (`processAckMsg`)."""
        floor = self.ack_floor
        if not self.pending:
            floor.consumer_seq = self.delivered.consumer_seq
            floor.stream_seq = self.delivered.stream_seq
        elif consumer_seq == floor.consumer_seq + 1 or self._acks_all:
            floor.consumer_seq, floor.stream_seq = consumer_seq, seq
            if later := [each for each in self.pending if each > seq]:
                first = min(later)
                floor.consumer_seq = self.pending[first].consumer_seq - 1
                floor.stream_seq = first - 1

    def _end_pulls(self, now: int) -> None:
        for pull in [each for each in self.waiting if each.expires and each.expires <= now]:
            self._end(pull, _EXPIRED)

    def _beat(self, now: int) -> None:
        for pull in self.waiting:
            if pull.heartbeat and pull.beat_at <= now:
                pull.beat_at = now + pull.heartbeat
                fields = [
                    (b"Nats-Last-Consumer", b"%d" % self.delivered.consumer_seq),
                    (b"Nats-Last-Stream", b"%d" % self.delivered.stream_seq),
                ]
                block = build_headers(fields, 100, b"Idle Heartbeat")
                self._router.publish(Message(pull.reply, b"", block))

    def _end(self, pull: _Pull, status: Status) -> None:
        self.waiting.remove(pull)
        self._used = self._clock()
        self._status(pull.reply, status, pull)

    def _status(self, reply: bytes, status: Status, pull: _Pull | None = None) -> None:
        fields = []
        if pull and status in (_EXPIRED, _FULL, _TOO_LARGE):
            fields.append((b"Nats-Pending-Messages", b"%d" % pull.left))
            fields.append((b"Nats-Pending-Bytes", b"%d" % max(0, pull.bytes_left)))
        self._router.publish(Message(reply, b"", build_headers(fields, *status)))


def patterns(config: ConsumerConfig) -> list[str]:
    """Returns the filters of a consumer."""
    return [config.filter_subject] if config.filter_subject else [*config.filter_subjects]


def completed(config: ConsumerConfig, name: str) -> ConsumerConfig:
    """Returns a configuration with the defaults of a server."""
    acks = config.ack_policy != "none"
    wait = (config.backoff[0] if config.backoff else _ACK_WAIT) if acks else 0.0
    return replace(
        config,
        name=name,
        ack_wait=(config.backoff[0] if config.backoff else config.ack_wait) or wait,
        max_deliver=config.max_deliver or -1,
        max_waiting=config.max_waiting or _MAX_WAITING,
        max_ack_pending=config.max_ack_pending or (_MAX_ACK_PENDING if acks else 0),
        inactive_threshold=config.inactive_threshold or (0.0 if config.durable_name else _UNUSED),
    )


def _delay(body: bytes) -> int:
    try:
        return int(json.loads(body).get("delay") or 0) if body.strip() else 0
    except (ValueError, AttributeError, TypeError):
        return 0
