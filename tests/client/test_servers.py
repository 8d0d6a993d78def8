"""The pool: order, shares of time, and the error when all have failed."""

from __future__ import annotations

import errno
import os

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
from natsync.servers import ServerPool

A, B, C = (Server(host) for host in "abc")
REFUSED = OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def verdict(*errors: Error | OSError, step: str = "tcp") -> Error:
    pool = ServerPool([A] * len(errors))
    for error in errors:
        pool.failed(A, step, error)
    return pool.verdict()


def test_each_server_once_with_its_share_of_the_time_left() -> None:
    pool = ServerPool([A, B, C])
    assert pool.next(0.0, 3.0) == (A, 1.0)
    assert pool.next(0.0, 3.0) == (B, 1.5)  # the first one took no time
    assert pool.next(2.0, 3.0) == (C, 3.0)
    assert pool.next(2.0, 3.0) is None


def test_what_the_system_says_gets_server_and_step() -> None:
    error = verdict(REFUSED)
    assert isinstance(error, ConnectError)
    assert (error.server, error.step, error.reason) == ("a:4222", "tcp", "Connection refused")
    assert error.__cause__ is REFUSED


def test_a_timeout_says_in_which_step() -> None:
    error = verdict(TimeoutError(), step="info")
    assert isinstance(error, ConnectTimeoutError)
    assert str(error) == "no connection to a:4222: waiting for INFO: no answer in time"


def test_codec_and_closed_errors_get_server_and_step() -> None:
    for cause in (ProtocolError("unknown operation"), ConnectionClosedError("the end")):
        error = verdict(cause, step="info")
        assert isinstance(error, ConnectError) and error.__cause__ is cause
        assert cause.reason in str(error)


def test_what_the_server_says_stays_as_it_is() -> None:
    refused = AuthorizationError("Authorization Violation")
    assert verdict(refused) is refused


def test_several_failures_are_told_together_in_order() -> None:
    error = verdict(REFUSED, TimeoutError())
    assert isinstance(error, NoServersError)
    assert [type(one) for one in error.errors] == [ConnectError, ConnectTimeoutError]


def test_refused_credentials_come_first() -> None:
    refused = AuthorizationError("Authorization Violation")
    assert verdict(REFUSED, refused, TimeoutError()) is refused
