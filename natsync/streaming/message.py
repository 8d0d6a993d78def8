"""`Msg`: a message of a channel."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from ..protocol.streaming import MsgProto

__all__ = ["Msg"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Msg:
    """One message that was received. Its attributes do not change."""

    __slots__ = ("_proto", "_ack")

    def __init__(self, proto: MsgProto, ack: Callable[[Msg], None]) -> None:
        self._proto = proto
        self._ack = ack

    @property
    def channel(self) -> str:
        """The channel it was published to."""
        return self._proto.subject

    @property
    def sequence(self) -> int:
        """Its number in the channel, from 1: the same for all subscribers."""
        return self._proto.sequence

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._proto.data

    @property
    def reply(self) -> str:
        """The reply that its publisher named; official clients name none."""
        return self._proto.reply

    @property
    def timestamp_ns(self) -> int:
        """When the server stored it, in ns since 1970."""
        return self._proto.timestamp

    @property
    def time(self) -> datetime:
        """When the server stored it, in UTC and whole microseconds."""
        return _EPOCH + timedelta(microseconds=self._proto.timestamp // 1000)

    @property
    def redelivered(self) -> bool:
        """Whether the server has sent it before, to this subscription, durable or queue group."""
        return self._proto.redelivered

    @property
    def redelivery_count(self) -> int:
        """How many times the server has sent it before; it counts anew after a restart."""
        return self._proto.redelivery_count

    def ack(self) -> None:
        """Tells the server that this message is done with; the server does not confirm that.

        Raises ManualAckError unless the subscription has `manual_acks`, BadSubscriptionError where it has
        ended, ConnectionClosedError.
        """
        self._ack(self)

    def __repr__(self) -> str:
        again = f", redelivered {self.redelivery_count} times" if self.redelivered else ""
        return f"Msg({self.channel!r}, sequence={self.sequence}, {len(self.data)} bytes{again})"
