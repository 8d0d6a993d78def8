"""`Msg`: a message of a channel."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from ..protocol.streaming import MsgProto

__all__ = ["Msg"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Msg:
    """One received message. Its attributes do not change."""

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
        """Its sequence in the channel, from 1: the same for all subscribers."""
        return self._proto.sequence

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._proto.data

    @property
    def reply(self) -> str:
        """The reply subject that its publisher set; official clients set none."""
        return self._proto.reply

    @property
    def timestamp_ns(self) -> int:
        """When the server stored it, in nanoseconds since 1970."""
        return self._proto.timestamp

    @property
    def time(self) -> datetime:
        """When the server stored it, in UTC, cut to microseconds."""
        return _EPOCH + timedelta(microseconds=self._proto.timestamp // 1000)

    @property
    def redelivered(self) -> bool:
        """Whether the server has sent it before to this subscription, durable or queue group."""
        return self._proto.redelivered

    @property
    def redelivery_count(self) -> int:
        """How many times the server has sent it before; the count starts again after a server
        restart."""
        return self._proto.redelivery_count

    def ack(self) -> None:
        """Acknowledges the message; the server does not confirm the acknowledgement.

        Raises ManualAckError unless the subscription has `manual_acks`, BadSubscriptionError if the
        subscription has ended, ConnectionClosedError.
        """
        self._ack(self)

    def __repr__(self) -> str:
        again = f", redelivered {self.redelivery_count} times" if self.redelivered else ""
        return f"Msg({self.channel!r}, sequence={self.sequence}, {len(self.data)} bytes{again})"
