"""PINGs and their PONGs, operations and their +OK."""

from __future__ import annotations

from dissect.nats.sessions.ping_ack import Acknowledgements, Pings


def test_pongs_answer_in_order() -> None:
    pings = Pings()
    for ts_ns in (0, 10):
        pings.ping(ts_ns)
    pings.pong(25)
    pings.pong(30)
    assert (pings.rtt_ns, pings.unanswered) == (20, 0)
    pings.pong(40)
    assert (pings.rtt_ns, pings.unanswered) == (20, -1)


def test_a_gap_breaks_the_order() -> None:
    pings = Pings()
    pings.ping(0)
    pings.reset()
    pings.pong(10)
    assert pings.rtt_ns is None


def test_time_never_runs_backwards() -> None:
    pings = Pings()
    pings.ping(10)
    pings.pong(5)
    assert pings.rtt_ns == 0


def test_open_pings_are_bounded() -> None:
    pings = Pings()
    for ts_ns in range(1000):
        pings.ping(ts_ns)
    assert pings.unanswered == 1000


def test_a_verbose_client_gets_one_ok_an_operation() -> None:
    oks = Acknowledgements()
    oks.connect(True, 1)
    oks.count = 3
    assert (oks.unasked(3), oks.unasked(2), oks.unasked(9)) == (0, 1, 0)


def test_a_connect_is_answered_in_its_own_mode() -> None:
    oks = Acknowledgements()
    oks.connect(False, 3)  # two operations before it, and those were verbose
    oks.count = 2
    assert oks.unasked(8) == 0
    oks.count = 3
    assert oks.unasked(8) == 1
    oks.connect(True, 9)
    assert oks.unasked(9) == 0
