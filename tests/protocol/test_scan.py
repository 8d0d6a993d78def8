"""Scan: whole frames out of one buffer and nothing of what is not whole; it keeps no state of its own."""

from __future__ import annotations

import pytest

from natsync.protocol import Context, Frame, Info, Kind, Limits, Msg, Ping, ProtocolError, Role
from natsync.protocol.grammar import grammar
from natsync.protocol.scan import check_end, scan

from tests.protocol.feeding import sizes
from tests.protocol.table import CLIENT, SERVER

STREAM = b"PING\r\nMSG a 1 2\r\nab\r\nHMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\nPONG\r\n"
ENDS = [0, 6, 21, 52, 58]


def scanned(
    data: bytes, start: int = 0, base: int = 0, keep: bool = True, context: Context = SERVER
) -> tuple[int, list[Frame]]:
    out: list[Frame] = []
    return scan(data, start, base, grammar(context, Limits()), keep, out), out


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_every_prefix_gives_its_whole_frames(keep: bool) -> None:
    for size in range(len(STREAM) + 1):
        end, frames = scanned(STREAM[:size], keep=keep)
        assert end == max(edge for edge in ENDS if edge <= size)
        assert [frame.offset for frame in frames] == ENDS[: len(frames)]


@pytest.mark.parametrize("start", ENDS)
def test_it_begins_anywhere_and_counts_from_its_base(start: int) -> None:
    end, frames = scanned(STREAM, start, base=1000)
    assert end == len(STREAM)
    assert [frame.offset for frame in frames] == [
        1000 + edge for edge in ENDS[:-1] if edge >= start
    ]


def test_payloads_that_are_not_kept_have_their_size() -> None:
    _, frames = scanned(STREAM, keep=False)
    assert frames[1] == Msg(b"a", b"1")
    assert [sizes(frame) for frame in frames[1:3]] == [(0, 2, 0), (12, 1, 0)]


@pytest.mark.parametrize("stop", [b"INFO {}\r\n", b"CONNECT {}\r\n"])
def test_it_stops_behind_what_may_change_the_rules(stop: bytes) -> None:
    context = CLIENT if stop.startswith(b"C") else Context(Role.SERVER, Kind.ROUTE)
    end, frames = scanned(b"PING\r\n" + stop + b"PONG\r\n", context=context)
    assert end == 6 + len(stop)
    assert [frame.op for frame in frames] == ["PING", stop.split()[0].decode()]


def test_frames_before_an_error_are_given() -> None:
    out: list[Frame] = []
    with pytest.raises(ProtocolError, match="at byte 112: b'PIN!'"):
        scan(b"PING\r\nPING\r\nPIN!\n", 0, 100, grammar(SERVER, Limits()), True, out)
    assert out == [Ping(), Ping()]


@pytest.mark.parametrize("end", [b"", b"\r", b"\r\n"])
def test_a_good_end_of_a_body(end: bytes) -> None:
    check_end(end, 5)


@pytest.mark.parametrize(
    "end, offset", [(b"\n", 5), (b"x", 5), (b"\n\r", 5), (b"\r\r", 6), (b"\rx", 6)]
)
def test_a_bad_end_of_a_body(end: bytes, offset: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_end(end, 5)
    assert caught.value.offset == offset
    assert caught.value.snippet == end[offset - 5 : offset - 4]


def test_info_is_one_of_the_stops() -> None:
    assert scanned(b"INFO {}\r\nINFO {}\r\n") == (9, [Info(b"{}")])
