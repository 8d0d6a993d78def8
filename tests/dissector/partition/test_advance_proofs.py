"""What makes a summary exact: each test fails where one of the conditions is left out."""

from __future__ import annotations

import pytest

from dissect.nats import Options
from dissect.nats.partition import survey
from natsync.protocol import Kind

from tests.dissector.partition.advancing import (
    NAME,
    ScriptedFlow,
    advances,
    go_on,
    msg,
    plain,
    pub,
    surveyed,
)
from tests.support.tcp_conversation import ACK, SYN


@pytest.fixture(autouse=True, params=[1, 256])
def settled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one packet, or never in these tests, a flow is surveyed for its summary only."""
    monkeypatch.setattr(survey, "_SETTLED_PACKETS", request.param)


_HINTED = Options(port={4222: Kind.CLIENT})
_ROUTE = b'CONNECT {"server_id":"NB","name":"b","cluster":"c","headers":true,"lnoc":true}\r\n'
_NEWS = b'INFO {"server_id":"NB","name":"b","cluster":"c","ip":"nats-route://10.0.0.2:6222/"}\r\n'
_DEDICATED = (
    b'INFO {"server_id":"NB","server_name":"b","cluster":"c","import":null,'
    b'"route_account":"A","ip":"nats-route://10.0.0.2:6222/"}\r\n'
)
_GATEWAY = b'INFO {"server_id":"NA","server_name":"a","gateway":"A","version":"2.10.0"}\r\n'
_INTO = b'CONNECT {"verbose":false,"name":"b","gateway":"B"}\r\n'


def test_a_greeting_that_changes_nothing_advances() -> None:
    flow = go_on(ScriptedFlow(greeted=False))
    start = flow.here
    go_on(flow)
    flow.say(0, b'CONNECT {"lang":"go"}\r\n')
    go_on(flow)
    assert advances(flow.segments, start, options=_HINTED)


def test_a_first_byte_that_may_be_a_keep_alive() -> None:
    flow = plain()
    flow.raw(1, b"MSG a.b 1 5\r\nhell")
    start = flow.here
    flow.raw(1, b"\0")
    flow.raw(1, b"\r\n" + msg(b"a.b", 1))
    go_on(flow)
    assert advances(flow.segments, start)


@pytest.mark.parametrize("side", [0, 1])
def test_a_kind_confirmed_within_a_chunk_leaves_earlier_rows_as_they_were_read(side: int) -> None:
    """What was read before is told as it was read."""
    flow = ScriptedFlow(greeted=False)
    for _ in range(20):
        flow.say(1, b"RMSG a.b c 5\r\nhello\r\n")
        flow.say(0, b"PING\r\n")
    start = flow.here
    for _ in range(20):
        flow.say(1, b"RMSG a.b c 5\r\nhello\r\n")
    flow.say(side, (_ROUTE, _NEWS)[side])
    for _ in range(20):
        flow.say(1, b"RMSG a.b c 5\r\nhello\r\n")
    advances(flow.segments, start)


def test_bytes_fed_at_the_end_are_parsed_in_the_context_of_their_arrival() -> None:
    """It is fed at the end, when the other side has said that lines are others now."""
    options = Options(port={4222: Kind.ROUTE})
    flow = ScriptedFlow(greeted=False)
    flow.raw(0, b"", SYN)
    flow.raw(1, b"", SYN | ACK)
    flow.say(0, _ROUTE)
    flow.say(0, b"PING\r\n")
    for _ in range(9):
        flow.say(1, b"PING\r\n")
        flow.say(0, b"PONG\r\n")
    start = flow.here
    for _ in range(9):
        flow.say(1, b"PING\r\n")
        flow.say(0, b"PONG\r\n")
    assert advances(flow.segments, start, options=options)
    flow.say(1, b"RMSG one two 900\r\nx")
    assert advances(flow.segments, start, options=options)
    flow.say(0, _DEDICATED)
    stop = flow.here
    flow.say(1, b"y" * 899 + b"\r\n")
    assert not advances(flow.segments, start, stop, options=options)


def test_an_account_with_a_dot_on_a_gateway() -> None:
    """A survey takes it for the subject of a route that names no accounts."""
    flow = ScriptedFlow(greeted=False)
    flow.raw(0, b"", SYN)
    flow.raw(1, b"", SYN | ACK)
    flow.say(1, _GATEWAY)
    flow.say(0, _INTO)
    flow.say(0, _GATEWAY.replace(b"NA", b"NB"))
    message = b"RMSG %b subject.x 5\r\nhello\r\n"
    for account, taken in ((b"plain", True), (b"dotted.one", False)):
        flow.say(0, message % account)
        start = flow.here
        for _ in range(20):
            flow.say(0, message % account)
        assert advances(flow.segments, start) is taken


def test_an_error_advances_alone_and_with_messages_after_it() -> None:
    flow = plain()
    start = flow.here
    go_on(flow).say(1, b"-ERR 'Slow Consumer'\r\n")
    assert advances(flow.segments, start)
    go_on(flow)
    assert advances(flow.segments, start)


def test_messages_before_and_after_those_of_the_session() -> None:
    flow = plain()
    start = flow.here
    go_on(flow).say(0, b"UNSUB 1\r\n")
    go_on(flow)
    assert advances(flow.segments, start)


@pytest.mark.parametrize("after", range(1, 12))
def test_sequence_numbers_that_wrap(after: int) -> None:
    prefix = plain()
    places = [
        2**32 - 700 * after - sum(s.length for s in prefix.segments if s.key == key)
        for key in {s.key: None for s in prefix.segments}
    ]
    flow = ScriptedFlow(places=(places[0], places[1]))
    flow.say(0, b"SUB a.b 1\r\nSUB r.* 2\r\n")
    flow.say(0, pub(b"orders.new") * 3)
    start = flow.here
    go_on(flow)
    wraps = [s.key for s in flow.segments[start:] if s.seq + s.length >= 2**32]
    assert len(set(wraps)) == 2
    assert advances(flow.segments, start)


@pytest.mark.parametrize("silence_s", [1, 25 * 3600])
@pytest.mark.parametrize("ahead_s", [0, 20 * 3600])
def test_a_silence_that_ends_a_flow_within_a_partition(silence_s: int, ahead_s: int) -> None:
    """`ahead_s`: a packet from before has a time that lies ahead, so that the flow itself goes on."""
    flow = plain()
    flow.raw(0, b"", after_ns=ahead_s * 10**9)
    flow.raw(0, b"", after_ns=-ahead_s * 10**9)
    start = flow.here
    go_on(flow).raw(0, b"", after_ns=silence_s * 10**9)
    go_on(flow)
    assert advances(flow.segments, start) is (silence_s == 1)


def test_a_flow_that_begins_has_no_summary() -> None:
    flow = plain()
    assert not surveyed(flow.segments)
    assert not surveyed(flow.segments[1:])
    assert NAME in surveyed(go_on(flow).segments[2:])


@pytest.mark.parametrize("size", [143, 144, 145])
def test_full_windows_are_counted(size: int) -> None:
    flow = ScriptedFlow(scale=4)
    flow.windows[0] = 9
    start = go_on(flow).here
    flow.raw(0, b"")
    flow.raw(1, msg(b"a.b", 1, b"x" * (size - len(msg(b"a.b", 1, b"x" * 100)) + 100)))
    assert flow.segments[-1].length == size
    assert advances(go_on(flow).segments, start)


@pytest.mark.parametrize(("window", "certain"), [(60, True), (44, False), (40, False)])
def test_a_window_that_may_be_full_before_it_is_known(window: int, certain: bool) -> None:
    """The receiver's latest window is in the state, not in the partition: it may be full after 707 bytes."""
    flow = ScriptedFlow(scale=4)
    flow.windows[0] = window
    start = go_on(flow).here
    flow.raw(1, msg(b"a.b", 1, b"x" * 690))
    assert flow.segments[-1].length == 707
    assert advances(go_on(flow).segments, start) is certain


@pytest.mark.parametrize("before", [False, True])
def test_nothing_is_passed_over_while_a_window_is_closed(before: bool) -> None:
    flow = go_on(ScriptedFlow())
    flow.windows[0] = 0
    if before:
        flow.raw(0, b"")
        flow.windows[0] = 100
    start = flow.here
    go_on(flow)
    assert not advances(flow.segments, start)


@pytest.mark.parametrize("side", [0, 1])
def test_a_flow_that_is_damaged_when_only_its_summary_is_kept(
    side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One direction searches for its next frame at every packet from which on the flow may be surveyed for
    its summary only."""
    flow = plain()
    start = flow.here
    go_on(flow, 4)
    flow.raw(side, b"++\r\n")
    for _ in range(4):
        flow.raw(1 - side, (msg(b"a.b", 1), pub(b"a.b"))[side])
    go_on(flow)
    for packets in range(1, len(flow.segments) - start):
        monkeypatch.setattr(survey, "_SETTLED_PACKETS", packets)
        advances(flow.segments, start)
