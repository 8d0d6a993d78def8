"""Messages published in batches: atomic (ADR-50, server 2.12) or fast (server 2.14).

An atomic batch of up to 1000 messages is stored when it is committed, all of it or nothing, with no
message of another client in between. A fast batch is stored as it arrives, acknowledged in windows
that the server sizes; it stops at the first message that is lost or refused.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

from .._checks import check_count
from .._finalizers import before_exit
from .._json import decode_object
from ..errors import (
    NextMsgTimeoutError,
    OptionError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from ..message import Data, Headers, HeadersLike, Msg, is_no_responders
from ..options import DEFAULT
from .api import API, Timeout
from .errors import (
    BatchClosedError,
    BatchPublishError,
    InvalidPubAckError,
    JetStreamError,
    NoStreamResponseError,
    UnsupportedError,
    api_error,
)
from .publishing import PubAck, PublishOptions, message_headers, read_ack

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..subscription import Subscription

__all__ = ["AtomicBatch", "FastBatch"]

ATOMIC_SINCE, EOB_SINCE, FAST_SINCE = "2.12", "2.14", "2.14"
FLOW = 200
"""The most messages per acknowledgement; the server may choose fewer."""
WINDOWS = 2
"""How many windows may be unacknowledged while messages are sent."""
IN_FLIGHT = 1000

_START, _APPEND, _COMMIT, _COMMIT_WITHOUT, _PING = range(5)


class AtomicBatch:
    """A batch of messages that a stream stores together or not at all; nobody sees them before the
    commit. Made by `JetStream.atomic_batch`; for one thread. A `with` block that ends without
    `commit` discards the batch.

    Expectations are checked at the commit; only the first message may have `expected_last_seq`.
    """

    def __init__(self, api: API) -> None:
        api.need("an atomic batch", ATOMIC_SINCE)
        self.id = uuid4().hex
        self._api = api
        self._window = api.core.open_window(IN_FLIGHT, _read_step)
        self._sent: deque[Future[PubAck | None]] = deque()
        self._last_subject = ""
        self._count = 0
        self._closed = ""

    def __len__(self) -> int:
        """The number of messages in the batch."""
        return self._count

    def add(
        self,
        subject: str,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Adds a message. The first call waits until the stream has accepted the batch.

        Raises BatchPublishError, or another APIError, if the stream refuses this or an earlier
        message; nothing is then stored. Raises BatchClosedError after the batch has ended, and the
        errors of `JetStream.publish`.
        """
        self._check_open()
        sent = self._headers(headers, options, "")
        future = self._window.request(subject, data, timeout=self._api.timeout, headers=sent)
        self._count += 1
        self._last_subject = subject
        self._sent.append(future)
        if self._count == 1:
            self._settle(all_of_them=True)
        self._settle(all_of_them=False)

    def commit(
        self,
        subject: str = "",
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishOptions],
    ) -> PubAck:
        """Stores the batch with this message as its last one; without a subject, stores it as it is
        (server 2.14). Raises as `add`. After RequestTimeoutError and ConnectionReconnectingError,
        either the whole batch is stored or nothing."""
        self._check_open()
        if not subject:
            _check_bare_commit(self._count, data, headers, options)
            self._api.need("committing a batch without a message", EOB_SINCE)
        self._settle(all_of_them=True)
        sent = self._headers(headers, options, "1" if subject else "eob")
        self._closed = "committed"
        future = self._window.request(
            subject or self._last_subject, data, timeout=self._api.timeout, headers=sent
        )
        ack = future.result()
        if ack is None:
            raise InvalidPubAckError(subject or self._last_subject, "0 bytes that are not JSON")
        return ack

    def discard(self) -> None:
        """Ends the batch; nothing is stored. The server forgets the batch after ten seconds."""
        self._closed = self._closed or "discarded"

    def __enter__(self) -> AtomicBatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _headers(
        self, headers: HeadersLike | None, options: PublishOptions, commit: str
    ) -> Headers:
        own = {"Nats-Batch-Id": self.id, "Nats-Batch-Sequence": str(self._count + 1)}
        if commit:
            own["Nats-Batch-Commit"] = commit
        call = "commit" if commit else "add"
        asked = Headers(message_headers(call, self._api, headers, options) or {})
        return Headers([*asked.fields, *own.items()])

    def _settle(self, all_of_them: bool) -> None:
        """Raises the error of an earlier message, if there is one."""
        while self._sent and (all_of_them or self._sent[0].done()):
            try:
                stored = self._sent.popleft().result()
            except BaseException:
                self._closed = "refused"
                raise
            if stored is not None:  # the server or stream treats the batch as plain messages
                self._closed = "refused"
                raise UnsupportedError("an atomic batch", ATOMIC_SINCE, "")

    def _check_open(self) -> None:
        if self._closed:
            raise BatchClosedError(self._closed)


def _check_bare_commit(
    count: int, data: Data, headers: HeadersLike | None, options: PublishOptions
) -> None:
    """Checks a commit of `count` messages without another one, which the server would not store."""
    if not count:
        raise OptionError("subject", "must be given: the batch is empty")
    if data or headers or options:
        raise OptionError("subject", "must be given with data, headers and options of a message")


def _read_step(subject: str, payload: bytes | None) -> PubAck | None:
    if payload is None:
        raise NoStreamResponseError(subject)
    return read_ack(payload, subject) if payload else None


class FastBatch:
    """A batch of messages that a stream stores in order as they arrive, faster than single
    publishes. Made by `JetStream.fast_batch`; for one thread. If a `with` block ends without
    `commit`, the messages stored so far stay.

    `stored` is the number of messages that the server has confirmed as stored.
    """

    def __init__(self, api: API, flow: int = FLOW) -> None:
        check_count(flow=flow)
        if flow < 1:
            raise OptionError("flow", "must be at least 1")
        api.need("a fast batch", FAST_SINCE)
        self.stored = 0
        self._api = api
        self._flow = flow
        self._inbox = api.core.new_inbox()
        self._replies = api.core.open_inbox(f"{self._inbox}.>")
        self._window = flow
        self._count = 0
        self._subject = ""
        self._is_accepted = False
        self._ack: PubAck | None = None
        self._error: JetStreamError | None = None
        self._closed = ""

    def __len__(self) -> int:
        """The number of messages in the batch."""
        return self._count

    def add(
        self,
        subject: str,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Adds a message; waits while too many are unacknowledged.

        Raises BatchPublishError, or another APIError, if the stream has refused or missed a
        message, RequestTimeoutError if it does not answer, and PermissionsViolationError. `stored`
        messages are stored then.
        """
        self._send(subject, data, headers, options, _APPEND if self._count else _START)
        if self._count == 1:
            self._wait(lambda: self._is_accepted, DEFAULT)
        limit = self._count - WINDOWS * self._window
        self._wait(lambda: self.stored >= limit, DEFAULT)

    def commit(
        self,
        subject: str = "",
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Timeout = DEFAULT,
        **options: Unpack[PublishOptions],
    ) -> PubAck:
        """Ends the batch with this message, or without a subject, as it is. Returns when all
        messages are stored. Raises as `add`."""
        if not subject:
            _check_bare_commit(self._count, data, headers, options)
        op = _COMMIT if subject else _COMMIT_WITHOUT
        self._send(subject or self._subject, data, headers, options, op)
        try:
            self._wait(lambda: self._ack is not None, timeout)
        finally:
            self.close()
        assert self._ack
        return self._ack

    def close(self) -> None:
        """Ends the batch; stored messages stay."""
        self._closed = self._closed or "closed"
        self._replies.unsubscribe()

    def __enter__(self) -> FastBatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @before_exit
    def __del__(self) -> None:
        replies: Subscription | None = vars(self).get("_replies")
        if replies and not replies.closed:
            self.close()  # close first: a filter may turn the warning into an error
            text = f"unclosed fast batch, messages: {self._count}"
            warnings.warn(text, ResourceWarning, source=self)

    def _send(
        self,
        subject: str,
        data: Data,
        headers: HeadersLike | None,
        options: PublishOptions,
        op: int,
    ) -> None:
        if self._closed:
            raise BatchClosedError(self._closed)
        if options:
            call = "add" if op in (_START, _APPEND) else "commit"
            headers = message_headers(call, self._api, headers, options)
        if subject != self._subject:
            self._replies._expect(subject)
        reply = f"{self._inbox}.{self._flow}.fail.{self._count + 1}.{op}.$FI"
        self._api.core.publish(subject, data, reply=reply, headers=headers)
        self._count += op != _COMMIT_WITHOUT
        self._subject = subject

    def _wait(self, done: Callable[[], bool], timeout: Timeout) -> None:
        """Takes replies until `done()` and until no more are waiting; after half the time, asks the
        server to repeat the last reply."""
        seconds = self._api.seconds(timeout)
        until = monotonic() + seconds / 2
        is_asked = False
        while self._error or not done() or self._replies.pending_msgs:
            try:
                msg = self._replies.next_msg(max(0.0, until - monotonic()))
            except NextMsgTimeoutError:
                if is_asked or self._error:
                    self.close()
                    raise self._error or RequestTimeoutError(self._subject, seconds) from None
                is_asked, until = True, until + seconds / 2
                reply = f"{self._inbox}.{self._flow}.fail.{self._count}.{_PING}.$FI"
                self._api.core.publish(self._subject, reply=reply)
            except PermissionsViolationError:
                self.close()
                raise
            else:
                self._take(msg)

    def _take(self, msg: Msg) -> None:
        """Reads one reply. After `gap` or `err` the server ends the batch and reports how much of
        it is stored."""
        if is_no_responders(msg):
            self._end(NoStreamResponseError(self._subject))
        answer = decode_object(msg.data, self._subject)
        kind, seq = answer.get("type"), answer.get("seq")
        if kind == "ack" and isinstance(seq, int):
            self._is_accepted = True
            self.stored = max(self.stored, seq)
            self._window = max(1, _whole(answer.get("msgs")) or self._window)
        elif kind == "gap":
            text = f"message {answer.get('last_seq')} of the batch was lost: {seq} came next"
            self._error = self._error or BatchPublishError(400, 0, text)
        elif kind == "err":
            self._error = self._error or api_error(answer.get("error"))
        elif "error" in answer:
            self._end(self._error or api_error(answer["error"]))
        else:
            ack = read_ack(msg.data, self._subject)
            if not ack.batch_id:  # the stream treats it as a plain message
                self._end(UnsupportedError("a fast batch", FAST_SINCE, ""))
            self.stored = ack.batch_count
            if self._error or ack.batch_count < self._count:
                text = f"the batch ended after {ack.batch_count} of {self._count} messages"
                self._end(self._error or BatchPublishError(400, 0, text))
            self._ack = ack

    def _end(self, error: JetStreamError) -> NoReturn:
        self.close()
        raise error


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
