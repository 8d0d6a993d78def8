"""`Watch`: the last message of each subject of a stream, then each later one, as entries of a
bucket or store.

Key-value buckets and object stores are watched this way (ADR-8, ADR-20). A single None among the
items marks the point where all messages that existed when the watch began have arrived.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

from ..errors import Error, NextMsgTimeoutError
from ..options import wait_time
from .api import API
from .consumer_api import consumer_info
from .errors import StreamNotFoundError
from .message import JetStreamMsg, MsgMetadata
from .ordered_reader import OrderedMessages
from .reader import BlockingIterator
from .reader_errors import MessagesClosedError

__all__ = ["Watch", "next_if_any"]

_T = TypeVar("_T")
_SILENCE = 0.5
"""After this many seconds without a message, the server is asked whether any are left."""


def next_if_any(
    api: API, stream: str, messages: OrderedMessages, timeout: float | None
) -> JetStreamMsg | None:
    """Returns the next message; None if none is left at the moment, because it was purged or
    expired before it was read. Raises as `OrderedMessages.next`."""
    messages.create_until = until = monotonic() + wait_time(timeout)
    while True:
        consumer = messages.consumer
        try:
            return messages.next(max(0.0, min(_SILENCE, until - monotonic())))
        except NextMsgTimeoutError:
            # A new consumer may not have got the request for its first messages yet.
            if consumer == messages.consumer and _nothing_left(api, stream, messages):
                return None
            if monotonic() >= until:
                raise NextMsgTimeoutError(stream, timeout or 0.0) from None


def _nothing_left(api: API, stream: str, messages: OrderedMessages) -> bool:
    """Returns whether the server has no messages left. If everything that the consumer has
    delivered was taken, the reader switches to another consumer: server 2.15.1 sends nothing more
    after a purge of messages that a `last_per_subject` consumer had yet to send."""
    try:
        info = consumer_info(api, stream, messages.consumer)
    except StreamNotFoundError:
        messages.restart()
        raise
    except Error:  # the reader recovers from it, or raises it
        return False
    if info.name != messages.consumer or info.delivered.consumer_seq != messages.consumer_seq:
        return False
    messages.restart()
    return info.num_pending == 0


class Watch(BlockingIterator[_T | None]):
    """An iterator over items, and one None; a context manager. For one thread at a time; any thread
    may call `stop`. A lost connection neither loses nor repeats items."""

    def __init__(
        self,
        api: API,
        bucket: str,
        stream: str,
        messages: OrderedMessages,
        *,
        prefix: str = "",
        ignore_deletes: bool = False,
        updates_only: bool = False,
    ) -> None:
        self._api = api
        self._bucket = bucket
        self._stream = stream
        self._prefix = prefix  # of subjects, before the key
        self._ignore_deletes = ignore_deletes
        self._messages = messages
        self._consumer = ""
        self._initial = 0 if updates_only else messages.num_pending
        self._replaced = False  # whether later messages have replaced initial ones
        self._last = 0  # the stream sequence of the last message
        self._replacements = messages.replaced  # how often another stream has replaced the stream
        self._recounted = False
        self._marked = False

    @abstractmethod
    def _read(self, msg: JetStreamMsg, origin: MsgMetadata) -> _T | None:
        """Returns the item for a message, or None to skip the message."""

    @abstractmethod
    def _gone(self) -> Error:
        """Returns the error for a stream that was deleted."""

    def next(self, timeout: float | None = None) -> _T | None:
        """Returns the next item, or None when all initial items have arrived; waits up to `timeout`
        seconds, or for ever.

        Raises NextMsgTimeoutError; MessagesClosedError after `stop`; ConnectionClosedError;
        BucketNotFoundError or StoreNotFoundError if what is watched is deleted.
        """
        until = monotonic() + wait_time(timeout)
        while self._marked or self._initial > 0:
            left = max(0.0, until - monotonic())  # less after messages that were skipped
            try:
                if self._marked:
                    msg: JetStreamMsg | None = self._messages.next(left)
                else:
                    msg = next_if_any(self._api, self._stream, self._messages, left)
            except NextMsgTimeoutError:
                raise NextMsgTimeoutError(self._stream, timeout or 0.0) from None
            except StreamNotFoundError as error:
                raise self._gone() from error
            if msg is None:
                break
            origin = msg.metadata
            if self._replacements != self._messages.replaced:  # sequences start again
                self._replacements, self._last = self._messages.replaced, 0
            again = origin.stream_seq <= self._last
            self._replaced = self._replaced or again
            if not self._marked:
                self._count(origin)
            if again:  # 2.9 sometimes sends a message twice while another is replaced
                continue
            self._last = origin.stream_seq
            item = self._read(msg, origin)
            if item is not None:
                return item
        self._marked = True
        return None

    def _count(self, origin: MsgMetadata) -> None:
        """Counts down to the last message that existed at the beginning.

        A message that replaces one of them meanwhile arrives later, with a new sequence, so neither
        the count nor `num_pending` alone is sure to reach zero: the first one that does decides.
        The messages left are then counted once more, since a server may report that none is left
        while a replacement is still to come (2.15.1). A new consumer, after a lost connection,
        starts a new count.
        """
        if origin.consumer != self._consumer:
            if self._consumer:
                self._initial = origin.num_pending + 1
            self._consumer = origin.consumer
        left = self._initial - 1
        self._replaced = self._replaced or origin.num_pending != left
        self._initial = left if self._recounted else min(left, origin.num_pending)
        if self._initial == 0 and self._replaced and not self._recounted:
            self._recounted = True
            self._initial = self._left_now()

    def _left_now(self) -> int:
        """Returns the number of matching messages that are stored and not yet taken; 1 if the
        server does not say."""
        try:
            info = consumer_info(self._api, self._stream, self._messages.consumer)
        except Error:
            return 1
        return max(0, info.num_pending + info.delivered.consumer_seq - self._messages.consumer_seq)

    def initial(self, timeout: float | None = None) -> Iterator[_T]:
        """Iterates over the items that existed when the watch began; the watch continues
        afterwards. Raises NextMsgTimeoutError if an item takes longer than `timeout` seconds."""
        while not self._marked:
            item = self.next(timeout)
            if item is not None:
                yield item

    def updates(self, timeout: float | None = None) -> Iterator[_T]:
        """Iterates over the items as they arrive, without the None; ends when none arrives for
        `timeout` seconds, or after `stop`."""
        try:
            while True:
                item = self.next(timeout)
                if item is not None:
                    yield item
        except (NextMsgTimeoutError, MessagesClosedError):
            return

    def stop(self) -> None:
        """Ends the watch: iteration ends, and `next` raises MessagesClosedError."""
        self._messages.stop()
