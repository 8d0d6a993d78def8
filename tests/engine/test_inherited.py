"""What stands for the parent's connection in a forked child; `test_forks` has the forks."""

from __future__ import annotations

import pytest

import natsync
from natsync._engine.connection import Connection, Status
from natsync._engine.inherited import Inherited
from natsync.options import Options, parse_servers

OPTIONS = Options(servers=parse_servers("nats://127.0.0.1:1"), version="1")


def test_what_needs_no_connection_makes_none() -> None:
    def renew(parents: Connection) -> Connection:
        raise AssertionError

    inherited = Inherited(Connection(OPTIONS), renew)
    inherited.close(1.0)
    assert inherited.status is Status.CLOSED and not any(inherited.stats)
    assert inherited.options is OPTIONS and str(inherited.server) == "127.0.0.1:1"


def test_a_failure_is_raised_by_each_call_until_there_is_a_connection() -> None:
    results: list[Connection | Exception] = [natsync.NoServersError([]), natsync.ForkedError()]
    parents, own = Connection(OPTIONS), Connection(OPTIONS)
    results.append(own)

    def renew(given: Connection) -> Connection:
        assert given is parents
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    inherited = Inherited(parents, renew)
    for error in (natsync.NoServersError, natsync.ForkedError):
        with pytest.raises(error):
            inherited.own()
    assert inherited.own() is inherited.own() is own
    own.abandon()


def test_a_signal_handler_does_not_connect_a_second_time() -> None:
    def renew(given: Connection) -> Connection:
        with pytest.raises(natsync.ReentrantCallError):
            inherited.own()
        return own

    own = Connection(OPTIONS)
    inherited = Inherited(Connection(OPTIONS), renew)
    assert inherited.own() is own
    own.abandon()
