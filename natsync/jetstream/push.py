"""Push consumers: the server sends messages to a subject as they arrive, to one subscriber or
shared by a queue group.

For deployments that have push consumers; new ones should use pull consumers, which send no more
than is requested. Flow control and heartbeats follow ADR-15: a flow control request is answered
when everything before it has been taken, so the server sends no faster than messages are taken.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import monotonic

from .._checks import check_call
from .._engine.forks import notice_fork, same_process
from .._finalizers import before_exit
from ..errors import (
    BadSubscriptionError,
    ConnectionReconnectingError,
    Error,
    NextMsgTimeoutError,
    OptionError,
    OutboundBufferLimitError,
    fresh,
)
from ..message import Delivered, Msg
from ..options import DRAIN_TIMEOUT, wait_time
from ..protocol import ProtocolError
from .ack_wait import AckWatch, check_keep_alive
from .api import API
from .blocking_iterator import BlockingIterator
from .consume_errors import (
    ConsumerDeletedError,
    MessagesClosedError,
    NoHeartbeatError,
    NotJSMessageError,
    NotPushConsumerError,
    SequenceGapError,
)
from .consumer import pull_source
from .consuming import ConsumeContext, JetStreamHandler, check_handler, guarded, source_of
from .infos import ConsumerInfo
from .message import NO_ORIGIN, AckNoneMsg, JetStreamMsg, origin_of, parse_sequences
from .messages import ALARM, LOOK, OnError, report
from .pull_inbox import Outage, PullSource, tell_outage
from .silence import Silence

__all__ = ["PushConsumer", "PushMessages"]

_LONG = 3600.0  # the longest single wait, in seconds


class PushMessages(BlockingIterator[JetStreamMsg]):
    """The messages of a push consumer as they arrive: an iterator and a context manager, for any
    number of threads.

    Made by `PushConsumer.messages`. If messages were lost on the way, `on_error` gets a
    SequenceGapError; those that need an acknowledgement are delivered again after `ack_wait`. A
    reader for a single thread, such as that of a `consume` with one worker, takes everything that
    has arrived at once, and needs no lock per message.
    """

    def __init__(
        self,
        source: PullSource,
        info: ConsumerInfo,
        on_error: OnError | None = None,
        single: bool = False,
        keep_alive: bool = False,
    ) -> None:
        config = info.config
        self._source = source
        self._core = source.core
        self._respond = source.core.respond
        self._on_error = on_error
        self._single = single
        self._beat = config.idle_heartbeat
        self._is_shared = bool(config.deliver_group)
        self._make = JetStreamMsg if source.acks else AckNoneMsg
        # One thread at a time takes messages, so that sequences are seen in order.
        self._turn = threading.RLock()
        self._last: int | None = None  # the consumer's sequence
        self._origin = NO_ORIGIN  # of the last message
        self._answered = ""
        self._away = False
        self._silence = Silence()
        self._error: Error | None = None
        self._sub = source.core.open_inbox(
            config.deliver_subject,
            queue=config.deliver_group,
            on_outage=tell_outage,
            stage=source.core.drain_stage(),
        )
        self._at_hand = self._sub.at_hand
        self._watch = AckWatch(source.ack_times, self._sub)
        if keep_alive:
            self._watch.keep_alive(source.core, source.consumer)

    def next(self, timeout: float | None = None) -> JetStreamMsg:
        """Returns the next message; waits up to `timeout` seconds for it, or for ever.

        Raises NextMsgTimeoutError; ConsumerDeletedError; MessagesClosedError after `stop`, and
        after `drain` once nothing is left; ConnectionClosedError.
        """
        msg = self._take_at_hand()
        if msg is not None:
            return msg
        until = monotonic() + wait_time(timeout)
        while True:
            if self._turn.acquire(timeout=max(0.0, min(until - monotonic(), _LONG))):
                try:
                    msg = self._step(until)
                finally:
                    self._turn.release()
                if msg is not None:
                    return msg
            if monotonic() >= until:
                raise NextMsgTimeoutError(self._sub.subject, timeout or 0.0)

    def _take_at_hand(self) -> JetStreamMsg | None:
        """The hot path of a reader for a single thread: returns the next of the messages that
        arrived together, or None if the caller must look further."""
        if not same_process[0]:
            notice_fork()
        while self._at_hand:
            try:
                frame = self._at_hand.popleft()
            except IndexError:  # `stop`, on another thread, has dropped the last one
                break
            msg = self._read(frame)
            if msg is not None:
                return msg
        return None

    def _step(self, until: float) -> JetStreamMsg | None:
        """Returns the next message; None if something else arrived, or nothing until the next
        check."""
        if self._error:
            raise fresh(self._error)
        now = monotonic()
        began = self._silence.begin(self._sub.received)
        silence = ALARM * self._beat if self._beat and not self._away else _LONG
        try:
            frame = self._sub.next_frame(max(0.0, min(until, began + silence) - now))
        except Outage as outage:
            self._away = outage.error is not None
            self._silence = Silence()
            self._answered = ""  # the answer may be lost with the connection
            if outage.error:
                report(outage.error, self._on_error)
            return None
        except BadSubscriptionError:
            raise MessagesClosedError(self._source.stream, self._source.consumer) from None
        if frame is None:
            if silence < _LONG and monotonic() >= began + silence:
                began = monotonic()
                self._be_alarmed(silence, until)
            self._silence.pause(began, self._sub.received)
            return None
        if self._single:
            self._sub.gather()
        return self._read(frame)

    def _read(self, frame: Delivered) -> JetStreamMsg | None:
        """Returns the message in `frame`, or None for a status. Handles statuses and gaps."""
        msg = self._make(frame, self._respond, self._core)
        watch = self._watch
        number = watch.number()
        # A message of a stream may have a status, too, with which it was published.
        if not frame.payload and origin_of(msg.reply) == NO_ORIGIN and self._is_status(msg):
            return None
        if not self._is_shared:
            last, parts = self._last, frame.reply.rsplit(b".", 4)
            if last is not None and parts[0] == self._origin and parts[2] == b"%d" % (last + 1):
                self._last = last + 1
            else:
                try:
                    sequence = parse_sequences(msg.reply)[1]
                except NotJSMessageError:  # another client has published it to the deliver subject
                    return msg
                try:
                    self._follow(sequence, sequence)
                except BaseException:  # from `on_error`: the next call returns the message
                    self._at_hand.appendleft(frame)
                    raise
                self._origin = origin_of(msg.reply)
        if (number > watch.last or monotonic() >= watch.late_at) and watch.is_late(number, frame):
            if error := watch.news(self._source.stream, self._source.consumer):
                report(error, self._on_error)
            return None
        return msg

    def _is_status(self, msg: Msg) -> bool:
        """Handles a heartbeat or a flow control request; returns whether `msg` is one."""
        try:
            if msg.status != 100:
                return False
        except ProtocolError:  # reading the headers raises it again
            return False
        if msg.reply:
            self._answer(msg.reply)
        elif stalled := msg.headers.get("Nats-Consumer-Stalled"):
            self._answer(stalled)
        last = msg.headers.get("Nats-Last-Consumer") or ""
        # Larger than the last one seen: the messages in between were lost. Smaller: a new leader
        # has started again.
        if last.isascii() and last.isdigit() and len(last) <= 20 and self._last is not None:
            if int(last) > self._last and not self._is_shared:
                self._follow(int(last) + 1, int(last))
        return True

    def _answer(self, subject: str) -> None:
        """Allows the server to send more. Each heartbeat repeats the flow control request until it
        is answered."""
        if subject != self._answered:
            # Where nothing can be published now, a later heartbeat is answered.
            with suppress(ConnectionReconnectingError, OutboundBufferLimitError):
                self._core.publish(subject)
                self._answered = subject

    def _follow(self, sequence: int, last: int) -> None:
        """Records the sequence of the last delivery, and reports a gap before `sequence`."""
        before, self._last = self._last, last
        if before is not None and sequence > before + 1:
            source = self._source
            gap = SequenceGapError(source.stream, source.consumer, before + 1, sequence)
            report(gap, self._on_error)

    def _be_alarmed(self, silence: float, until: float) -> None:
        """Reports missing heartbeats, and ends the reader if the consumer does not exist. Returns
        hardly later than `until`."""
        source = self._source
        report(NoHeartbeatError(source.stream, source.consumer, silence), self._on_error)
        try:
            source.check(min(self._beat, max(LOOK, until - monotonic())))
        except ConsumerDeletedError as error:
            self._error = error
            self._sub.unsubscribe()
            raise

    @property
    def error(self) -> Error | None:
        """The error that ended the reader, or None."""
        return self._error

    @property
    def expired(self) -> int:
        """The number of messages that were not handed out, because their `ack_wait` had passed while they
        waited here."""
        return self._watch.expired

    def stop(self) -> int:
        """Ends the reader now. Returns the number of messages and statuses that had arrived and
        were not taken; messages are delivered again after the consumer's `ack_wait`. Waiting
        threads get MessagesClosedError."""
        before = self._sub.dropped
        self._sub.unsubscribe()
        return self._sub.dropped - before

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> int:
        """Ends the subscription; messages that the server has sent can still be taken, then the
        iteration ends.

        Returns the number of messages left to take, including statuses. Raises DrainTimeoutError if
        the server does not confirm the end within `timeout` seconds.
        """
        self._sub.drain(timeout)
        return self._sub.pending_msgs

    @before_exit
    def __del__(self) -> None:
        if hasattr(self, "_sub"):
            self._sub.unsubscribe()


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
        self._info = info
        self._source = pull_source(api, info)

    @property
    def cached_info(self) -> ConsumerInfo:
        """The `ConsumerInfo` that the server sent last."""
        return self._info

    def messages(
        self, *, on_error: OnError | None = None, keep_alive: bool = False
    ) -> PushMessages:
        """Returns an endless iterator over the messages. `on_error` is called with each error that
        the iterator recovers from; without it they are logged. `keep_alive` is as for a pull consumer.
        """
        check_call(on_error=on_error)
        check_keep_alive(keep_alive, self._source.ack_times)
        on_error = on_error or self._source.core.report_error
        return PushMessages(self._source, self._info, on_error, keep_alive=keep_alive)

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
        check_keep_alive(keep_alive, self._source.ack_times)
        on_error, core = guarded(on_error), self._source.core
        trouble = on_error or core.report_error
        messages = PushMessages(self._source, self._info, trouble, workers == 1, keep_alive)
        return ConsumeContext(core, messages, handler, source_of(self._info), workers, on_error)

    def __repr__(self) -> str:
        return f"PushConsumer({self._info.stream_name!r}, {self._info.name!r})"
