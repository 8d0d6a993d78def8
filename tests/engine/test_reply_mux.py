"""Replies find the thread that asked; late, foreign and second ones are dropped."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

import natsync
from natsync._engine.futures import RequestContext, WindowContext
from natsync._engine.reply_mux import ReplyMux, new_inbox
from natsync._engine.request_window import RequestWindow
from natsync._engine.seat import Waiter
from natsync.errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from natsync.protocol import Msg as MsgFrame

from tests.support.driving import idle, nothing
from tests.support.fake_server import Background
from tests.support.interrupts import interrupted_at


def reply(inbox: ReplyMux, token: bytes, payload: bytes = b"") -> MsgFrame:
    return MsgFrame(inbox.wire_prefix + token, b"1", b"", payload)


def test_a_waiter_is_settled_failed_or_late() -> None:
    settled: Waiter[int] = Waiter(idle)
    call = Background(lambda: settled.wait(10))
    settled.settle(5)
    assert call.result() == 5
    failed: Waiter[int] = Waiter(idle)
    failed.fail(ConnectionClosedError("gone"))
    with pytest.raises(ConnectionClosedError, match="gone"):
        failed.wait(10)
    late: Waiter[int] = Waiter(idle)
    assert late.wait(0.01) is None
    late.settle(5)  # nobody watches, nothing breaks
    assert Waiter[int](idle).wait(-1) is None


def test_subjects() -> None:
    inbox, other = (ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing) for _ in range(2))
    assert re.fullmatch(r"_INBOX\.[0-9A-Za-z]{22}\.\*", inbox.wire_subject.decode())
    assert inbox.wire_prefix != other.wire_prefix
    assert inbox.wire_subject == inbox.wire_prefix + b"*"
    tokens = {inbox.open("a")[0] for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(b"[0-9a-z]+", token) for token in tokens)
    assert ReplyMux("my.own", idle, partial(Waiter, idle), nothing).subject.startswith("my.own.")


def test_each_reply_finds_its_request() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    asked = [inbox.open("a") for _ in range(20)]
    inbox.deliver([reply(inbox, token, b"re " + token) for token, _ in reversed(asked)])
    for token, waiter in asked:
        frame = waiter.wait(0)
        assert frame and frame.payload == b"re " + token
        assert not inbox.close(token)
    assert not inbox.waiting


def test_second_late_and_foreign_replies_are_dropped() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    token, waiter = inbox.open("a")
    other, _ = inbox.open("a")
    inbox.deliver([reply(inbox, token, b"1"), reply(inbox, token, b"2"), reply(inbox, b"zzz")])
    assert inbox.close(other) and not inbox.close(other)
    inbox.deliver([reply(inbox, other)])
    frame = waiter.wait(0)
    assert frame and frame.payload == b"1"


def test_a_rewritten_subject_goes_to_the_only_request() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    _, waiter = inbox.open("a")
    inbox.deliver([reply(inbox, b"zzz")])  # ours, but of a request that is over
    inbox.deliver([MsgFrame(b"imported.subject", b"1", b"", b"yes")])
    frame = waiter.wait(0)
    assert frame and frame.payload == b"yes"
    _, first = inbox.open("a")
    inbox.open("a")
    inbox.deliver([MsgFrame(b"imported.subject", b"1")])
    assert first.wait(0) is None


def test_a_denied_subject_fails_its_requests_only() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    denied, allowed = inbox.open("secret"), inbox.open("open")
    inbox.deny(PermissionsViolationError("...", "publish", "secret"))
    with pytest.raises(PermissionsViolationError):
        denied[1].wait(0)
    assert allowed[1].wait(0) is None


def test_a_refused_inbox_fails_requests_now_and_later() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    _, waiter = inbox.open("a")
    inbox.refuse(PermissionsViolationError("...", "subscription", inbox.subject))
    with pytest.raises(PermissionsViolationError):
        waiter.wait(0)
    with pytest.raises(PermissionsViolationError):
        inbox.open("a")


def test_the_end_fails_all() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    waiters = [inbox.open("a")[1] for _ in range(3)]
    inbox.end(ConnectionClosedError("gone"))
    for waiter in waiters:
        with pytest.raises(ConnectionClosedError):
            waiter.wait(0)


def test_a_reply_that_was_at_hand_when_an_interrupt_came_is_not_forgotten() -> None:
    inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    token, _ = inbox.open("x")

    class Stubborn(Waiter[object]):
        def settle(self, value: object) -> None:
            raise KeyboardInterrupt

    inbox.waiting[token] = Stubborn(idle)
    stubborn = inbox.waiting[token]
    with pytest.raises(KeyboardInterrupt):
        inbox.deliver([reply(inbox, token)])
    inbox.disconnected(ConnectionReconnectingError("interrupted"))
    assert isinstance(stubborn, Waiter)
    with pytest.raises(ConnectionReconnectingError):
        stubborn.wait(0)


def single(inbox: ReplyMux) -> RequestContext:
    return RequestContext(inbox, lambda call: True, lambda subject, frame: natsync.Msg(subject))


def windowed(inbox: ReplyMux) -> WindowContext[object]:
    window: RequestWindow[object] = RequestWindow(10, idle, nothing)
    inbox.add_window(window)
    return WindowContext(
        inbox, lambda call: True, window, lambda subject, payload: payload, rescue=None
    )


@pytest.mark.parametrize("made_by", [single, windowed])
def test_an_interrupt_while_late_requests_fail_loses_none(
    made_by: Callable[[ReplyMux], RequestContext | WindowContext[object]],
) -> None:
    step, interrupted = 0, True
    while interrupted:
        step += 1
        inbox = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
        futures = made_by(inbox)
        made = [futures.open("a", timeout) for timeout in (0.0, 0.0, 9.0, 0.0)]
        interrupted = interrupted_at(step, lambda: inbox.expire(monotonic()))
        while inbox.deadline <= monotonic():
            inbox.expire(monotonic())
        assert [future.done() for future in made] == [True, True, False, True]
        for future in (made[0], made[1], made[3]):
            with pytest.raises(RequestTimeoutError):
                future.result(0)
    assert step > 10


def test_inboxes_end_in_ids_of_22_base62_characters_no_two_alike() -> None:
    ids = {new_inbox("_INBOX.mine").rpartition(".") for _ in range(2000)}
    assert {prefix for prefix, _, _ in ids} == {"_INBOX.mine"} and len(ids) == 2000
    assert all(re.fullmatch("[0-9A-Za-z]{22}", made) for _, _, made in ids)
    assert len(set("".join(made for _, _, made in ids))) == 62
