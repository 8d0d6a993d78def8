"""`Watch`: the last message of each subject of a stream, and each later one, as entries of a bucket or store.

Key-value buckets and object stores are watched so (ADR-8, ADR-20). A None among the items, once,
says that all messages that existed when the watch began have come.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

from ..errors import Error, NextMsgTimeoutError
from .api import API, wait_time
from .blocking_iterator import BlockingIterator
from .consume_errors import MessagesClosedError
from .consumers import consumer_info
from .message import JetStreamMsg, MsgMetadata
from .ordered import OrderedMessages

__all__ = ["Watch", "next_if_any"]

_T = TypeVar("_T")
_SILENCE = 0.5
"""Seconds without a message, after which the server is asked whether there is one left."""


def next_if_any(
    api: API, stream: str, messages: OrderedMessages, timeout: float | None
) -> JetStreamMsg | None:
    """The next message; None if there is nothing left to come now: it may have been purged, or have
    expired, before it was read. Raises as `OrderedMessages.next`."""
    until = monotonic() + wait_time(timeout)
    while True:
        try:
            return messages.next(max(0.0, min(_SILENCE, until - monotonic())))
        except NextMsgTimeoutError:
            if _nothing_left(api, stream, messages):
                return None
            if monotonic() >= until:
                raise NextMsgTimeoutError(stream, timeout or 0.0) from None


def _nothing_left(api: API, stream: str, messages: OrderedMessages) -> bool:
    """Whether the server has nothing left. Where it has sent all that it will, another consumer takes
    over: 2.15.1 sends no more after messages that a consumer with `last_per_subject` had yet to send
    are purged."""
    try:
        info = consumer_info(api, stream, messages.consumer)
    except Error:  # the reader gets over that, or says what is wrong
        return False
    if info.name != messages.consumer or info.delivered.consumer_seq != messages.consumer_seq:
        return False
    messages.restart()
    return info.num_pending == 0


class Watch(BlockingIterator[_T | None]):
    """An iterator over items, and None once; a context manager. For one thread at a time; `stop`
    may be called from any. Nothing is lost or given twice when the connection is lost in between.
    """

    def __init__(
        self, api: API, stream: str, messages: OrderedMessages, updates_only: bool
    ) -> None:
        self._api = api
        self._stream = stream
        self._messages = messages
        self._consumer = ""
        self._initial = 0 if updates_only else messages.num_pending
        self._replaced = False  # messages of the beginning, by later ones
        self._last = 0  # the stream sequence of the last message
        self._replacements = messages.replaced  # of the stream by another one
        self._recounted = False
        self._marked = False

    @abstractmethod
    def _read(self, msg: JetStreamMsg, origin: MsgMetadata) -> _T | None:
        """What a message stands for; None if nobody wants it."""

    def next(self, timeout: float | None = None) -> _T | None:
        """The next item, or None when all that were there have come; waits up to `timeout` seconds,
        or as long as it takes.

        Raises NextMsgTimeoutError; MessagesClosedError after `stop`; ConnectionClosedError;
        StreamNotFoundError where what is watched is deleted.
        """
        while self._marked or self._initial > 0:
            if self._marked:
                msg: JetStreamMsg | None = self._messages.next(timeout)
            else:
                msg = next_if_any(self._api, self._stream, self._messages, timeout)
            if msg is None:
                break
            origin = msg.metadata
            if self._replacements != self._messages.replaced:  # sequences begin anew
                self._replacements, self._last = self._messages.replaced, 0
            again = origin.stream_seq <= self._last
            self._replaced = self._replaced or again
            if not self._marked:
                self._count(origin)
            if again:  # 2.9 sends a message twice now and then, while another one is replaced
                continue
            self._last = origin.stream_seq
            item = self._read(msg, origin)
            if item is not None:
                return item
        self._marked = True
        return None

    def _count(self, origin: MsgMetadata) -> None:
        """Counts down to the last message that was there at the beginning.

        Messages that are replaced meanwhile come later, with a new sequence, so that neither the
        count alone reaches its end nor `num_pending`: whichever does so first counts. Then those
        that are there now are counted once more: a server may say that none is left where one that
        replaces another is still to come (2.15.1). Another consumer, after a lost connection, says
        anew how many are left.
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
        """The number of messages that were stored and not taken; at least 1 if nobody can tell."""
        try:
            info = consumer_info(self._api, self._stream, self._messages.consumer)
        except Error:
            return 1
        return max(0, info.num_pending + info.delivered.consumer_seq - self._messages.consumer_seq)

    def initial(self, timeout: float | None = None) -> Iterator[_T]:
        """The items that were there when the watch began; the watch goes on after them. Each comes
        within `timeout` seconds, or NextMsgTimeoutError is raised."""
        while not self._marked:
            item = self.next(timeout)
            if item is not None:
                yield item

    def updates(self, timeout: float | None = None) -> Iterator[_T]:
        """The items as they come, without the None; ends when none came for `timeout` seconds, or
        it was stopped."""
        try:
            while True:
                item = self.next(timeout)
                if item is not None:
                    yield item
        except (NextMsgTimeoutError, MessagesClosedError):
            return

    def stop(self) -> None:
        """Ends it: iteration ends, `next` raises MessagesClosedError."""
        self._messages.stop()
