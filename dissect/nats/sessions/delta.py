"""Sums over many frames of one sender, for frames whose order does not matter to their session.

Order does not matter for plain frames: messages published without a reply subject, messages delivered under
a subject that is not a reply subject, messages between servers, and +OK. A frame that has an anomaly is not
plain. `Session.add_delta` checks whether the order matters in the current state of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

from natsync.protocol import Frame, HMsg, HPub, LMsg, Msg, Ok, Pub, RHMsg, RMsg, is_literal

from ..framing.events import Batch, FramePosition, place_of
from .advisories import ADVISORY
from .headers import header_error
from .requests import ACK

_INBOX = b"_INBOX."

_K = TypeVar("_K")


def is_publishable(subject: bytes) -> bool:
    """Whether a client may publish to `subject`. Some subjects of JetStream's API contain wildcards."""
    return is_literal(subject) or subject.startswith(b"$JS.")


class SessionDelta:
    """The sums of many plain frames of one sender.

    `counts` has frames by class, `delivered` messages and bytes by sid, `carried` messages and bytes by
    account, subject and queues; keys are in the order of their first frame. `largest` is the size of the
    largest published message in bytes, `subjects` has the subjects of delivered messages, and `ok` is the
    position of the last +OK. To add a field, fill it in `add` and apply it in `Session.add_delta`.
    """

    __slots__ = "counts bytes largest delivered subjects carried ok".split()

    def __init__(self) -> None:
        self.counts: dict[type[Frame], int] = {}
        self.bytes = 0
        self.largest = 0
        self.delivered: dict[bytes, list[int]] = {}
        self.subjects: set[bytes] = set()
        self.carried: dict[tuple[bytes, bytes, tuple[bytes, ...]], list[int]] = {}
        self.ok: FramePosition | None = None

    def add(self, batch: Batch) -> None:
        """Adds a batch of plain frames."""
        counts = self.counts
        for frame in batch.frames:
            kind = frame.__class__
            counts[kind] = counts.get(kind, 0) + 1
            if kind is Ok:
                self.ok = place_of(batch, frame)
            else:
                _ADDERS[kind](self, frame)

    def _publish(self, frame: Pub | HPub) -> None:
        size = frame.payload_bytes + frame.header_bytes
        self.bytes += size
        if size > self.largest:
            self.largest = size

    def _deliver(self, frame: Msg | HMsg) -> None:
        size = frame.payload_bytes + frame.header_bytes
        self.bytes += size
        self.subjects.add(frame.subject)
        _count(self.delivered, frame.sid, size)

    def _carry(self, frame: RMsg | RHMsg | LMsg) -> None:
        size = frame.payload_bytes + frame.header_bytes
        self.bytes += size
        _count(self.carried, (frame.account, frame.subject, frame.queues), size)


def _count(sums: dict[_K, list[int]], key: _K, size: int) -> None:
    found = sums.get(key)
    if found is None:
        sums[key] = [1, size]
    else:
        found[0] += 1
        found[1] += size


_ADDERS: dict[type[Frame], Callable[..., None]] = {
    Pub: SessionDelta._publish,
    HPub: SessionDelta._publish,
    Msg: SessionDelta._deliver,
    HMsg: SessionDelta._deliver,
    RMsg: SessionDelta._carry,
    RHMsg: SessionDelta._carry,
    LMsg: SessionDelta._carry,
}


def is_plain(batch: Batch, reply_subjects: Container[bytes]) -> bool:
    """Whether all frames of a batch are plain. `reply_subjects` has the reply subjects of earlier
    requests."""
    test_of = _TESTS.get
    for frame in batch.frames:
        test = test_of(frame.__class__)
        if test is None or not test(frame, reply_subjects):
            return False
    return True


def _is_plain_publish(frame: Pub | HPub, _: Container[bytes]) -> bool:
    return not frame.reply and is_publishable(frame.subject) and _has_good_headers(frame)


def _is_plain_delivery(frame: Msg | HMsg, reply_subjects: Container[bytes]) -> bool:
    if (
        frame.reply.startswith(ACK)
        or frame.subject.startswith(_INBOX)
        or frame.subject in reply_subjects
        or frame.subject.startswith(ADVISORY)
    ):
        return False
    return _has_good_headers(frame)


def _is_plain_message(frame: RMsg | RHMsg | LMsg, _: Container[bytes]) -> bool:
    return not frame.subject.startswith(ADVISORY) and _has_good_headers(frame)


def _has_good_headers(frame: Pub | HPub | Msg | HMsg | RMsg | RHMsg | LMsg) -> bool:
    if not frame.header_bytes or isinstance(frame, (Pub, Msg, RMsg)):
        return True
    return not header_error(frame.headers)


_TESTS: dict[type[Frame], Callable[..., bool]] = {
    Pub: _is_plain_publish,
    HPub: _is_plain_publish,
    Msg: _is_plain_delivery,
    HMsg: _is_plain_delivery,
    RMsg: _is_plain_message,
    RHMsg: _is_plain_message,
    LMsg: _is_plain_message,
    Ok: lambda _frame, _asked: True,
}
