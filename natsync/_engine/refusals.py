"""Subscriptions that the server refuses with an -ERR that does not name them; and kept messages that the next
server would refuse."""

from __future__ import annotations

from contextlib import suppress

from ..errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    Error,
    MaxControlLineError,
    ServerError,
)
from .dispatch import Dispatcher
from .encoding import MessageEncoder
from .outbound_buffer import Chunks, Flush, Item, OutboundBuffer, SubscriptionOps
from .subscription_table import SubscriptionTable, control_line_bytes
from .waiter import StateLock

__all__ = ["Excess", "Refusals"]

_TOO_MANY = "maximum subscriptions exceeded"
_TOO_LONG = "maximum control line exceeded"


class Excess:
    """Subscriptions beyond the server's limit: the last `count` of `sids`. It is also the token of the PING
    that follows them."""

    def __init__(self, error: Error, sids: list[bytes]) -> None:
        self.error = error
        self.sids = sids
        self.count = 1


class Refusals:
    """Finds out which subscriptions were refused, and tells them. Only the driver may call the methods;
    `lost` is for the I/O thread.

    Beyond its limit of subscriptions, the server refuses every SUB with the same text. After the first such
    -ERR the client sends a PING. Of the subscriptions sent before the PING, the server has refused the last
    ones, one for each such -ERR before the PONG. An UNSUB in between makes room, so that a program that
    unsubscribes and subscribes at the limit within one round trip may get the error from the wrong
    subscription.
    """

    def __init__(
        self,
        table: SubscriptionTable,
        dispatcher: Dispatcher,
        outbound: OutboundBuffer,
        lock: StateLock,
    ) -> None:
        self._table = table
        self._dispatcher = dispatcher
        self._outbound = outbound
        self._lock = lock
        self._excess: Excess | None = None

    def reported(self, error: Error) -> None:
        """Handles an -ERR of an open connection."""
        if not isinstance(error, ServerError) or error.text.lower() != _TOO_MANY:
            return
        if self._excess:
            self._excess.count += 1
            return
        # No subscription is sent between these two.
        with self._lock:
            excess = Excess(error, [sid for sid, _ in self._table.all()])
            with suppress(ConnectionClosedError, ConnectionReconnectingError):
                self._outbound.flush(excess)
        self._excess = excess

    def connected(self, encoder: MessageEncoder) -> int:
        """Handles a new connection. Removes, reports and counts the messages that were kept for it and that
        this server refuses. It would close the connection at each of them, and at each next attempt to send a
        large one."""
        refused: list[Item] = []
        for item in self._outbound.items[:]:
            start = item[0] if isinstance(item, Chunks) else item
            if isinstance(start, (Flush, SubscriptionOps)):
                continue
            if error := encoder.refusal(start):
                refused.append(item)
                self._dispatcher.report(error)
        self._outbound.remove(refused)
        return len(refused)

    def counted(self, excess: Excess) -> None:
        """Handles the PONG after which `excess` is complete."""
        self._excess = None
        for sid in excess.sids[-excess.count :]:
            self._table.refuse(sid, excess.error)

    def lost(self, error: Error) -> None:
        """Handles the loss of the connection; ends the subscription that caused it, if one did."""
        self._excess = None
        if isinstance(error, ServerError) and error.text.lower() == _TOO_LONG:
            sink = self._table.remove_longest()
            if sink:
                refusal = MaxControlLineError(control_line_bytes(sink), 0)
                sink.end(refusal, quiet=False)
                self._dispatcher.report(refusal)
