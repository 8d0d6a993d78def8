"""Publishing: a message, and the server's acknowledgement that it is stored.

Each message is a core NATS request, whose reply is the PubAck. stan.go has all PubAcks sent to one subject
instead, and waits for its timeout where a streaming server or the connection is gone; a request fails at
once there.
"""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import CancelledError, Future
from itertools import count
from typing import TYPE_CHECKING

from .._checks import check_data
from ..errors import Error, RequestTimeoutError
from ..protocol.streaming import PubAck, PubMsg
from .errors import (
    MaxPubAcksInflightError,
    PubAckTimeoutError,
    ResponseError,
    read,
    refused,
)
from .session import Session, check_channel

if TYPE_CHECKING:
    from ..message import Data, Msg

__all__ = ["PubAckFuture", "Publisher"]


class PubAckFuture(Future[str]):
    """The acknowledgement of one message: `result` returns its guid, or raises why there is none.

    What `add_done_callback` is given runs on the NATS connection's callback thread.
    """

    def __init__(self, channel: str, guid: str) -> None:
        super().__init__()
        self.channel = channel
        """The channel that the message was sent to."""
        self.guid = guid
        """The message's unique id, which the server does not store."""


class Publisher:
    """Sends messages and matches acknowledgements. For any number of threads."""

    def __init__(self, session: Session, ack_wait: float, max_pub_acks_inflight: int) -> None:
        self._session = session
        self._ack_wait = ack_wait
        self._most = max_pub_acks_inflight
        self._room = threading.BoundedSemaphore(max_pub_acks_inflight)
        self._unacknowledged: dict[str, PubAckFuture] = {}
        self._prefix = secrets.token_urlsafe(12)
        self._numbers = count(1)

    def publish(self, channel: str, data: Data, timeout: float | None) -> str:
        """Sends a message, and returns its guid when the server has stored it."""
        wait = self._ack_wait if timeout is None else timeout
        guid, subject, wire = self._encode(channel, data)
        try:
            reply = self._session.nc.request(subject, wire, timeout=wait)
        except RequestTimeoutError as error:
            self._session.check()
            raise PubAckTimeoutError(channel, guid, wait) from error
        except Error:
            self._session.check()
            raise
        self._read(channel, guid, reply)
        return guid

    def publish_async(self, channel: str, data: Data) -> PubAckFuture:
        """Sends a message; waits only for room among those that are not acknowledged."""
        guid, subject, wire = self._encode(channel, data)
        if not self._room.acquire(timeout=self._ack_wait):
            raise MaxPubAcksInflightError(self._most, self._ack_wait)
        future = PubAckFuture(channel, guid)
        self._unacknowledged[guid] = future
        try:
            self._session.check()  # only now: `fail` has seen this future, or this sees the end
            reply = self._session.nc.request_async(subject, wire, timeout=self._ack_wait)
        except BaseException:
            self._forget(guid)
            raise
        reply.add_done_callback(lambda done: self._settle(future, done))
        return future

    def fail(self, error: Error) -> None:
        """Ends all futures: no acknowledgement will come."""
        for guid in self.unacknowledged:
            future = self._forget(guid)
            if future:
                future.set_exception(error)

    @property
    def unacknowledged(self) -> tuple[str, ...]:
        """The guids of the messages that wait for their acknowledgement, in the order they were sent in."""
        return tuple(self._unacknowledged)

    def _encode(self, channel: str, data: Data) -> tuple[str, str, bytes]:
        """The guid of a new message, the subject to send it to, and its bytes."""
        check_channel(channel)
        if data.__class__ is not bytes:
            check_data(data)
            data = bytes(data)
        session = self._session
        session.check()
        guid = f"{self._prefix}{next(self._numbers):x}"
        msg = PubMsg(session.client_id, guid, channel, "", data, session.conn_id)
        return guid, f"{session.subjects.pub_prefix}.{channel}", msg.to_bytes()

    def _settle(self, future: PubAckFuture, reply: Future[Msg]) -> None:
        if not self._forget(future.guid):
            return  # `fail` was first
        error: BaseException | None = None
        try:
            self._read(future.channel, future.guid, reply.result(0))
        except RequestTimeoutError:
            error = PubAckTimeoutError(future.channel, future.guid, self._ack_wait)
        except (Error, CancelledError) as why:
            error = why
        if not future.set_running_or_notify_cancel():
            return
        if error:
            future.set_exception(error)
        else:
            future.set_result(future.guid)

    def _forget(self, guid: str) -> PubAckFuture | None:
        """The future of this message, which makes room for another one; None where that was done."""
        future = self._unacknowledged.pop(guid, None)
        if future:
            self._room.release()
        return future

    def _read(self, channel: str, guid: str, reply: Msg) -> None:
        ack = read(PubAck, reply.subject, reply.data)
        if ack.error:
            raise refused(f"publishing to {channel!r}", ack.error)
        if ack.guid != guid:
            raise ResponseError(reply.subject, f"PubAck of {ack.guid!r}, not of {guid!r}")
