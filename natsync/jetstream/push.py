"""Push consumers: the server sends messages to a subject as they arrive, to one subscriber or
shared by a queue group.

For deployments that have push consumers; new ones should use pull consumers, which send no more
than is requested. Flow control and heartbeats follow ADR-15: a flow control request is answered
when everything before it has been taken, so the server sends no faster than messages are taken.
"""

from __future__ import annotations

from time import monotonic
from weakref import ref

from .._checks import check_call
from .._engine.forks import notice_fork, same_process
from ..errors import (
    ConnectionReconnectingError,
    Error,
    OptionError,
    OutboundBufferLimitError,
)
from ..message import Delivered, Msg, ReceivedMsg, to_text
from ..protocol import ProtocolError
from .ack_wait import check_keep_alive
from .api import API
from .consumer import consumer_ref
from .consumer_api import consumer_info
from .consuming import ConsumeContext, JetStreamHandler, check_handler, guarded, source_of
from .inbox import ConsumerRef, Inbox
from .infos import ConsumerInfo
from .message import NO_ORIGIN, JetStreamMsg, origin_of, parse_sequences
from .pull_requests import Meaning, PullStatus
from .reader import OnError, Reader
from .reader_errors import (
    ConsumerHasActiveSubscriptionError,
    NoHeartbeatError,
    NotJSMessageError,
    NotPushConsumerError,
    SequenceGapError,
)
from .supply import ALARM, LOOK, NEVER, Effect, Then

__all__ = ["PushConsumer", "PushMessages", "PushSupply"]

_SETTLE = 1.0
"""Seconds within which a server notices that a reader has ended: 16 ms at most in a cluster of three."""


class PushSupply:
    """The supply of a push consumer: nothing is requested, but gaps and silence are noticed, and flow control
    is answered. `beat` is the heartbeat interval in seconds, 0 for none. If the messages are `shared` by a
    queue group, each reader sees gaps."""

    def __init__(self, stream: str, consumer: str, beat: float, shared: bool, now: float) -> None:
        self.beat = beat
        self.closing = False
        self.last: int | None = None
        """The consumer sequence of the last message."""
        self.answered = ""
        """The flow control request that was answered last: heartbeats repeat it until it is answered."""
        self._stream = stream
        self._consumer = consumer
        self._shared = shared
        self._heard_at = now

    def status(self, status: PullStatus, now: float) -> Effect:
        """Counts an outage, or a message that has expired."""
        self._heard_at = now
        if status.meaning is Meaning.FATAL:
            return Effect(Then.FAIL, status.error)
        if status.meaning is not Meaning.EXPIRED:
            self.answered = ""  # the answer may be lost with the connection
        return Effect(Then.GO_ON, status.error)

    def heartbeat(self, last: int | None, request: str, now: float) -> Effect:
        """Counts a heartbeat that says the sequence of the last delivery, or a flow control request."""
        self._heard_at = now
        answer = request if request != self.answered else ""
        self.answered = answer or self.answered
        gap = None
        # Smaller than the last one seen: a new leader has started again.
        if last is not None and self.last is not None and last > self.last and not self._shared:
            gap, self.last = self._gap(self.last, last + 1), last
        return Effect(Then.GO_ON, gap, answer)

    def follow(self, sequence: int) -> Effect | None:
        """Counts a message; returns the effect of a gap before it, after which it is the next one."""
        before, self.last = self.last, sequence
        if before is None or sequence <= before + 1:
            return None
        self.last = sequence - 1
        return Effect(Then.GO_ON, self._gap(before, sequence))

    def _gap(self, before: int, found: int) -> Error:
        return SequenceGapError(self._stream, self._consumer, before + 1, found)

    def wake(self, now: float, since: float, connected: bool) -> float:
        """Returns the time to look again if nothing arrives earlier."""
        if self.closing or not self.beat:
            return NEVER
        return self._alarm_at(since) if connected else now + LOOK

    def look(self, now: float, since: float, connected: bool) -> Effect | None:
        """Returns the effect of a silence that has lasted for too long."""
        if self.closing or not self.beat or not connected or now < self._alarm_at(since):
            return None
        self._heard_at = now
        silence = ALARM * self.beat
        return Effect(Then.CHECK, NoHeartbeatError(self._stream, self._consumer, silence))

    def _alarm_at(self, since: float) -> float:
        return max(self._heard_at, since) + ALARM * self.beat

    def request(self, now: float, connected: bool) -> None:
        """Nothing is requested."""


class PushMessages(Reader):
    """The messages of a push consumer as they arrive: an iterator and a context manager, for any
    number of threads.

    Made by `PushConsumer.messages`. If messages were lost on the way, `on_error` gets a
    SequenceGapError; those that need an acknowledgement are delivered again after `ack_wait`.
    """

    _supply: PushSupply

    def __init__(
        self,
        source: ConsumerRef,
        info: ConsumerInfo,
        on_error: OnError,
        shared: bool = True,
        keep_alive: bool = False,
    ) -> None:
        self._in_group = bool(source.deliver_group)
        self._origin = NO_ORIGIN  # of the last message
        beat = info.config.idle_heartbeat
        supply = PushSupply(source.stream, source.consumer, beat, self._in_group, monotonic())
        inbox = Inbox(source, source.core.drain_stage(), keep_alive)
        super().__init__(source, supply, inbox, on_error, shared)

    def _take(self) -> JetStreamMsg | Effect | None:
        # The hot path, for the next of the messages that have arrived together.
        if not same_process[0]:
            notice_fork()
        try:
            frame = self._frames.popleft()
        except IndexError:
            return super()._take()
        parts = frame.reply.rsplit(b".", 4)
        watch, supply = self._watch, self._supply
        last = supply.last
        if (
            last is None
            or parts[0] != self._origin
            or parts[2] != b"%d" % (last + 1)
            or monotonic() >= watch.late_at
        ):
            return self._read(frame)
        supply.last = last + 1
        watch.taken += 1
        return self._make(frame, self._respond, self._core)

    def _read(self, frame: Delivered) -> JetStreamMsg | Effect:
        effect = self._follow(frame)
        if effect:
            return effect
        self._watch.taken += 1
        item = self._inbox.admit(frame)
        return self._supply.status(item, monotonic()) if isinstance(item, PullStatus) else item

    def _follow(self, frame: Delivered) -> Effect | None:
        """Returns the effect of a status, or of a gap before a message; None for a message to hand out."""
        reply = to_text(frame.reply)
        origin = origin_of(reply)
        # A message of a stream may have a status, too, with which it was published.
        if not frame.payload and origin == NO_ORIGIN:
            effect = self._read_status(ReceivedMsg(frame, self._respond))
            if effect:
                self._watch.taken += 1
                return effect
        if self._in_group:
            return None
        try:
            sequence = parse_sequences(reply)[1]
        except NotJSMessageError:  # another client has published it to the deliver subject
            return None
        self._origin = origin
        gap = self._supply.follow(sequence)
        if gap:  # reported first: the message is still there if that raises
            self._frames.appendleft(frame)
        return gap

    def _read_status(self, msg: Msg) -> Effect | None:
        """Returns the effect of a heartbeat or a flow control request; None if `msg` is neither."""
        try:
            if msg.status != 100:
                return None
        except ProtocolError:  # reading the headers raises it again
            return None
        text = msg.headers.get("Nats-Last-Consumer") or ""
        last = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None
        request = msg.reply or msg.headers.get("Nats-Consumer-Stalled") or ""
        return self._supply.heartbeat(last, request, monotonic())

    def _perform(self, effect: Effect, until: float) -> None:
        if effect.answer:  # allows the server to send more
            try:
                self._core.publish(effect.answer)
            except (ConnectionReconnectingError, OutboundBufferLimitError):
                self._supply.answered = ""  # a later heartbeat is answered
        super()._perform(effect, until)

    @property
    def _subject(self) -> str:
        return self._inbox.subject


class PushConsumer:
    """A consumer with a deliver subject; with a deliver group, its readers share the messages.

    Made by `JetStream.push_consumer`. Raises NotPushConsumerError for another kind of consumer, and
    OptionError for a group with heartbeats or flow control, as each of its readers sees only some
    of them.
    """

    def __init__(self, api: API, info: ConsumerInfo) -> None:
        config = info.config
        if not config.deliver_subject:
            raise NotPushConsumerError(info.stream_name, info.name)
        if config.deliver_group and (config.flow_control or config.idle_heartbeat):
            raise OptionError("deliver_group", "excludes flow control and heartbeats")
        self._api = api
        self._info = info
        self._source = consumer_ref(api, info)
        self._reader: ref[PushMessages] | None = None  # the last one

    @property
    def cached_info(self) -> ConsumerInfo:
        """The `ConsumerInfo` that the server sent last."""
        return self._info

    def messages(
        self, *, on_error: OnError | None = None, keep_alive: bool = False
    ) -> PushMessages:
        """Returns an endless iterator over the messages. `on_error` is called with each error that
        the iterator recovers from; without it they are logged. `keep_alive` is as for a pull consumer.

        Raises ConsumerHasActiveSubscriptionError if another reader would get the same messages, too.
        """
        check_call(on_error=on_error)
        return self._open(on_error, True, keep_alive)

    def consume(
        self,
        handler: JetStreamHandler,
        *,
        workers: int = 1,
        on_error: OnError | None = None,
        keep_alive: bool = False,
    ) -> ConsumeContext:
        """Calls `handler` with each message, on `workers` threads, as `Consumer.consume` does."""
        check_handler(handler, workers)
        on_error, source = guarded(on_error), source_of(self._info)
        messages = self._open(on_error, workers > 1, keep_alive)
        return ConsumeContext(self._api.core, messages, handler, source, workers, on_error)

    def _open(self, on_error: OnError | None, shared: bool, keep_alive: bool) -> PushMessages:
        check_keep_alive(keep_alive, self._source.ack_times)
        if self._source.acks and not self._source.deliver_group:
            self._check_alone()
        on_error = on_error or self._api.core.report_error
        messages = PushMessages(self._source, self._info, on_error, shared, keep_alive)
        self._reader = ref(messages)
        return messages

    def _check_alone(self) -> None:
        """Raises ConsumerHasActiveSubscriptionError if this object has a reader, or if the server has said
        that there is one, and goes on to say so."""
        stream, name = self._info.stream_name, self._info.name
        reader = self._reader and self._reader()
        if reader and not reader._inbox.closed:
            raise ConsumerHasActiveSubscriptionError(stream, name)
        until = monotonic() + _SETTLE
        while self._info.push_bound:
            if monotonic() >= until:
                raise ConsumerHasActiveSubscriptionError(stream, name)
            self._api.pause(0.02)
            self._info = consumer_info(self._api, stream, name)

    def __repr__(self) -> str:
        return f"PushConsumer({self._info.stream_name!r}, {self._info.name!r})"
