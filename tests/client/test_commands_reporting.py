"""Errors on stderr, once each, and interrupts."""

from __future__ import annotations

import signal

import pytest

from natsync.commands.reporting import Reporter
from natsync.errors import (
    ConnectionClosedError,
    NoRespondersError,
    OptionError,
    PermissionsViolationError,
)

from tests.support.fake_server import Background

Output = pytest.CaptureFixture[str]


def test_each_error_is_reported_once(capsys: Output) -> None:
    reporter = Reporter()
    refusal = PermissionsViolationError("text", "publish", "a")
    for _ in range(2):
        reporter.error(NoRespondersError("a"))
        reporter.reported(refusal)
    reporter.error(OptionError("timeout", "is\nwrong"))
    assert capsys.readouterr().err.splitlines() == [
        "natsync: no responders on a",
        "natsync: the server reported: text",
        "natsync: option timeout: is wrong",
    ]
    assert reporter.refused and reporter.failed


def test_a_connection_lost_to_an_interrupt_is_not_reported(capsys: Output) -> None:
    reporter = Reporter()
    with pytest.raises(KeyboardInterrupt), reporter.heeding_interrupts():
        signal.raise_signal(signal.SIGINT)
    reporter.disconnected(ConnectionClosedError("interrupted while reading or writing"))
    reporter.reconnected()
    assert reporter.interrupted and capsys.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_that_are_not_ours() -> None:
    def heeds() -> None:
        with Reporter().heeding_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    Background(heeds).result()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        heeds()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert seen == [signal.default_int_handler, signal.SIG_IGN]
