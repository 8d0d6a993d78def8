"""The pool: order, shares of time, and the error when all have failed."""

from __future__ import annotations

import errno
import os

from natsync._engine.servers import Backoff, ServerPool
from natsync.errors import (
    AuthorizationError,
    ConnectError,
    ConnectionClosedError,
    ConnectTimeoutError,
    Error,
    NoServersError,
    ProtocolError,
)
from natsync.options import Server

A, B, C = (Server(host) for host in "abc")
REFUSED = OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def verdict(*errors: Error | OSError, step: str = "tcp") -> Error:
    pool = ServerPool([A] * len(errors))
    pool.begin()
    for error in errors:
        pool.failed(A, step, error)
    return pool.verdict()


def test_each_server_once_with_its_share_of_the_time_left() -> None:
    pool = ServerPool([A, B, C])
    for _ in range(2):
        pool.begin()
        assert pool.next(0.0, 3.0) == (A, 1.0)
        pool.failed(A, "tcp", REFUSED)
        assert pool.next(0.0, 3.0) == (B, 1.5)  # the first one took no time
        pool.failed(B, "tcp", REFUSED)
        assert pool.next(2.0, 3.0) == (C, 3.0)
        pool.failed(C, "tcp", REFUSED)
        assert pool.next(2.0, 3.0) is None
    assert pool.rounds == 2


def test_after_a_loss_the_lost_server_is_last() -> None:
    pool = ServerPool([A, B])
    pool.succeeded()
    pool.lost(ConnectionClosedError())
    assert pool.servers == [B, A] and pool.rounds == 0


def test_a_server_is_given_up_after_so_many_failures_in_a_row() -> None:
    pool = ServerPool([A], most=2)
    pool.begin()
    pool.failed(A, "tcp", REFUSED)
    pool.succeeded()
    for _ in range(2):
        assert pool.servers == [A]
        pool.failed(A, "tcp", REFUSED)
    assert pool.servers == []


def test_the_same_refusal_twice() -> None:
    pool = ServerPool([A])
    refused, expired = (AuthorizationError(text) for text in ("Violation", "Expired"))
    assert not pool.refused_again(refused)
    pool.failed(A, "connect", refused)
    assert pool.refused_again(refused) and not pool.refused_again(expired)
    pool.succeeded()
    assert not pool.refused_again(refused)
    pool.lost(expired)  # taken back while connected
    assert pool.refused_again(expired)


def test_servers_that_others_tell_of() -> None:
    pool = ServerPool([A, B])
    assert pool.discover([A, C]) == [C]
    assert pool.servers == [A, B, C]
    assert pool.discover([A]) == []  # C is gone; B was named by the user
    assert pool.servers == [A, B]
    assert pool.discover([]) == [] and pool.servers == [A, B]


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 1.0, 0.25)
    assert [backoff.delay(rounds, 0.0) for rounds in range(6)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert backoff.delay(10**6, 1.0) == 1.25


def test_what_the_system_says_gets_server_and_step() -> None:
    error = verdict(REFUSED)
    assert isinstance(error, ConnectError)
    assert (error.server, error.step, error.reason) == ("a:4222", "tcp", "Connection refused")
    assert error.__cause__ is REFUSED


def test_a_timeout_says_in_which_step() -> None:
    error = verdict(TimeoutError(), step="info")
    assert isinstance(error, ConnectTimeoutError)
    assert (
        str(error) == "no connection to a:4222: waiting for INFO: no answer in time;"
        " does it expect TLS first, or a WebSocket?"
    )


def test_codec_and_closed_errors_get_server_and_step() -> None:
    for cause in (ProtocolError("unknown operation"), ConnectionClosedError("the end")):
        error = verdict(cause, step="info")
        assert isinstance(error, ConnectError) and error.__cause__ is cause
        assert cause.reason in str(error)
    assert str(error).endswith(": the end; does it expect TLS first, or a WebSocket?")


def test_what_the_server_says_stays_as_it_is() -> None:
    refused = AuthorizationError("Authorization Violation")
    assert verdict(refused) is refused


def test_several_failures_are_reported_together_in_order() -> None:
    error = verdict(REFUSED, TimeoutError())
    assert isinstance(error, NoServersError)
    assert [type(one) for one in error.errors] == [ConnectError, ConnectTimeoutError]


def test_refused_credentials_come_first() -> None:
    refused = AuthorizationError("Authorization Violation")
    assert verdict(REFUSED, refused, TimeoutError()) is refused


def test_connections_that_do_not_last_count_but_the_first() -> None:
    pool = ServerPool([Server("a", 1)])
    rounds = []
    for _ in range(3):
        pool.succeeded()
        pool.lost(ConnectionClosedError("gone"), brief=True)
        rounds.append(pool.rounds)
    pool.lost(ConnectionClosedError("gone"))
    assert (rounds, pool.rounds) == ([0, 1, 2], 0)


def test_another_pool_counts_from_the_next_round() -> None:
    pool = ServerPool([Server("a"), Server("b")])
    pool.begin()
    assert pool.next(0.0, 1.0) == (Server("a"), 0.5)
    pool.replace((Server("c"),))
    assert pool.servers == [Server("c")]
    pool.succeeded()
    pool.lost(ConnectionClosedError("gone"))
    pool.begin()
    assert pool.next(0.0, 1.0) == (Server("c"), 1.0)
    assert pool.next(0.0, 1.0) is None


def test_the_program_may_choose_who_is_next() -> None:
    pool = ServerPool([Server("a"), Server("b"), Server("c")])
    assert pool.prefer("c:4222") and not pool.prefer("d:4222")
    assert [server.host for server in pool.servers] == ["c", "a", "b"]
