"""Publishing: a message, and the server's acknowledgement that it is stored.

Each message is a core NATS request whose response is the PubAck. stan.go instead has all PubAcks
sent to one subject, and waits for its timeout if the streaming server or the connection is gone; a
request fails at once in that case.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING

from .._checks import check_data, plain
from ..errors import Error, NoRespondersError, RequestTimeoutError
from ..protocol.streaming import PubAck, PubMsg
from .errors import PubAckTimeoutError, ResponseError, read, refused
from .session import Session, check_channel

if TYPE_CHECKING:
    from ..message import Data

__all__ = ["PubAckFuture", "Publisher"]


class PubAckFuture:
    """The acknowledgement of a message that `publish_async` has sent."""

    def __init__(self, channel: str, guid: str, timeout: float, future: Future[PubAck]) -> None:
        self.channel = channel
        """The channel that the message was sent to."""
        self.guid = guid
        """The message's unique id, which the server does not store."""
        self.future = future
        """For `concurrent.futures.wait` and `as_completed`; call `result` of this object for the
        result."""
        self._timeout = timeout

    def result(self, timeout: float | None = None) -> str:
        """Returns the guid when the server has stored the message. Raises the errors of `publish`,
        and TimeoutError if there is no response within `timeout` seconds, while the message is
        still in flight."""
        try:
            return _check(self.future.result(timeout), self.channel, self.guid)
        except RequestTimeoutError as error:
            raise PubAckTimeoutError(self.channel, self.guid, self._timeout) from error

    def done(self) -> bool:
        """Whether the message is acknowledged or has failed."""
        return self.future.done()

    def add_done_callback(self, fn: Callable[[PubAckFuture], object]) -> None:
        """Calls `fn` with this object, on the NATS connection's callback thread, when it is done."""
        self.future.add_done_callback(lambda _: fn(self))

    def __repr__(self) -> str:
        return f"PubAckFuture({self.channel!r}, {self.guid}{', done' if self.done() else ''})"


class Publisher:
    """Sends messages and matches acknowledgements. For any number of threads."""

    def __init__(self, session: Session, ack_wait: float, max_pub_acks_inflight: int) -> None:
        self._session = session
        self._ack_wait = ack_wait
        self._most = 2 * max_pub_acks_inflight
        self._window = session.nc.open_window(max_pub_acks_inflight, self._read)
        self._sent: dict[str, PubAckFuture] = {}
        """The unacknowledged messages by guid; some of them have failed."""
        self._prefix = secrets.token_urlsafe(12)
        self._numbers = count(1)

    def publish(self, channel: str, data: Data) -> str:
        """Sends a message, and returns its guid when the server has stored it."""
        guid, subject, wire = self._encode(channel, data)
        try:
            reply = self._session.nc.request(subject, wire, timeout=self._ack_wait)
        except RequestTimeoutError as error:
            self._session.check()
            raise PubAckTimeoutError(channel, guid, self._ack_wait) from error
        except Error:
            self._session.check()
            raise
        return _check(read(PubAck, subject, reply.data), channel, guid)

    def publish_async(self, channel: str, data: Data) -> PubAckFuture:
        """Sends a message; waits only for room among the unacknowledged messages."""
        guid, subject, wire = self._encode(channel, data)
        if len(self._sent) > self._most:
            self._drop_failed()
        future = self._window.request(subject, wire, timeout=self._ack_wait)
        sent = self._sent[guid] = PubAckFuture(channel, guid, self._ack_wait, future)
        if future.done():  # `_read` may have run before the previous line
            self._sent.pop(guid, None)
        return sent

    def wait(self, timeout: float) -> None:
        """Returns when every message is acknowledged or has failed, or after `timeout` seconds."""
        self._window.wait(timeout)

    @property
    def unacknowledged(self) -> tuple[str, ...]:
        """The guids of the unacknowledged messages, in the order in which they were sent."""
        self._drop_failed()
        return tuple(self._sent.copy())

    def _drop_failed(self) -> None:
        for guid, sent in self._sent.copy().items():
            if sent.done():
                self._sent.pop(guid, None)

    def _encode(self, channel: str, data: Data) -> tuple[str, str, bytes]:
        """Returns a new message's guid, its subject, and its bytes."""
        check_channel(channel)
        if data.__class__ is not bytes:
            check_data(data)
            data = bytes(data)
        session = self._session
        session.check()
        guid = f"{self._prefix}{next(self._numbers):x}"
        msg = PubMsg(session.client_id, guid, channel, "", data, session.conn_id)
        return guid, f"{session.subjects.pub_prefix}.{plain(channel)}", msg.to_bytes()

    def _read(self, subject: str, payload: bytes | None) -> PubAck:
        """Called by the thread that reads the connection."""
        if payload is None:
            raise NoRespondersError(f"{self._session.subjects.pub_prefix}.>")
        ack = read(PubAck, subject, payload)
        self._sent.pop(ack.guid, None)
        return ack


def _check(ack: PubAck, channel: str, guid: str) -> str:
    if ack.error:
        raise refused(f"publishing to {channel!r}", ack.error)
    if ack.guid != guid:
        raise ResponseError(f"channel {channel}", f"PubAck of {ack.guid!r}, not of {guid!r}")
    return guid
