"""Scan: whole frames out of one buffer and nothing of what is not whole; it keeps no state of its own."""

from __future__ import annotations

from io import BytesIO

import pytest

from natsync.protocol import Context, Frame, Info, Kind, Limits, Msg, Ping, ProtocolError, Role
from natsync.protocol.grammar import Grammar, grammar
from natsync.protocol.scan import check_end, scan

from tests.protocol.feeding import sizes
from tests.protocol.table import CLIENT, SERVER

STREAM = b"PING\r\nMSG a 1 2\r\nab\r\nHMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\nPONG\r\n"
SIZES = ("total_bytes", "payload_bytes", "header_bytes", "missing_bytes")
ENDS = [0, 6, 21, 52, 58]


def scanned(
    data: bytes, start: int = 0, base: int = 0, keep: bool = True, context: Context = SERVER
) -> tuple[int, list[Frame]]:
    out: list[Frame] = []
    words = grammar(context, Limits())
    return scan(BytesIO(data), start, len(data), base, words, keep, out), out


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_every_prefix_gives_its_whole_frames(keep: bool) -> None:
    for size in range(len(STREAM) + 1):
        end, frames = scanned(STREAM[:size], keep=keep)
        assert end == max(edge for edge in ENDS if edge <= size)
        assert [frame.offset for frame in frames] == ENDS[: len(frames)]


@pytest.mark.parametrize("stale", [STREAM, STREAM[3:], b"\r\n" * 30, b"x" * 60])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_what_lies_behind_the_end_is_not_read(stale: bytes, keep: bool) -> None:
    for size in range(len(STREAM) + 1):
        stream = BytesIO(STREAM[:size] + b"\n" + stale)
        out: list[Frame] = []
        end = scan(stream, 0, size, 0, Grammar(SERVER, Limits()), keep, out)
        assert (end, out) == scanned(STREAM[:size], keep=keep)


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
def test_it_stops_after_what_may_change_the_rules(stop: bytes) -> None:
    context = CLIENT if stop.startswith(b"C") else Context(Role.SERVER, Kind.ROUTE)
    end, frames = scanned(b"PING\r\n" + stop + b"PONG\r\n", context=context)
    assert end == 6 + len(stop)
    assert [frame.op for frame in frames] == ["PING", stop.split()[0].decode()]


def test_frames_before_an_error_are_given() -> None:
    out: list[Frame] = []
    with pytest.raises(ProtocolError, match="at byte 112: b'PIN!'"):
        scan(BytesIO(b"PING\r\nPING\r\nPIN!\n"), 0, 17, 100, grammar(SERVER, Limits()), True, out)
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


FORMS = [
    (SERVER, b"MSG a.%d 1 2\r\nab\r\n"),
    (SERVER, b"MSG a.%d 1 re.ply 2\r\nab\r\n"),
    (SERVER, b"HMSG a.%d 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
    (SERVER, b"HMSG a.%d 1 re.ply 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
    (SERVER, b"msg a.%d\t1 2\r\nab\r\n"),
    (SERVER, b"MSG a.%%d 1 3000\r\n%b\r\n" % bytes(3000)),
    (CLIENT, b"PUB a.%d 2\r\nab\r\n"),
    (CLIENT, b"HPUB a.%d re.ply 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
    (Context(Role.SERVER, Kind.ROUTE), b"RMSG A a.%d + re.ply q1 q2 2\r\nab\r\n"),
    (Context(Role.SERVER, Kind.ROUTE), b"LMSG LC A a.%d re.ply 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
    (Context(Role.SERVER, Kind.ROUTE, dedicated=True), b"RMSG a.%d re.ply 2\r\nab\r\n"),
    (Context(Role.SERVER, Kind.LEAFNODE), b"LMSG a.%d re.ply 2\r\nab\r\n"),
    (Context(Role.SERVER, Kind.LEAFNODE), b"HMSG a.%d 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
]


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize("context, form", FORMS)
def test_lines_that_never_repeat_give_the_same_frames(
    context: Context, form: bytes, keep: bool
) -> None:
    """Read where lines are learned, and where they are not, they are as the grammar has them."""
    words = Grammar(context, Limits())
    wires = [form % number for number in range(2000)]
    out: list[Frame] = []
    for at in range(0, len(wires), 100):
        data = b"".join(wires[at : at + 100])
        assert scan(BytesIO(data), 0, len(data), 0, words, keep, out) == len(data)
    assert not words.seen.learning or b"\t" in form
    for number, frame in enumerate(out):
        line, body = wires[number].split(b"\n", 1)
        plain, size, header_size, total = Grammar(context, Limits()).read(line + b"\n")
        kept = body[:size] if keep else body[:header_size]
        wanted = plain.placed(frame.offset, total, kept)
        assert frame == wanted
        assert [getattr(frame, name) for name in SIZES] == [getattr(wanted, name) for name in SIZES]
    assert len(out) == len(wires)


@pytest.mark.parametrize(
    "wire, message",
    [
        (b"MSG b 1 2\r\nabX\n", "no CR LF after a body at byte 13: b'X'"),
        (b"MSG b 1 65\r\n\r\n%b\r\n" % bytes(63), "body of 65 bytes is over the limit of 64"),
        (b"MSG b 1 2x\r\nab\r\n", "MSG with a number that is not 1 to 9 digits"),
        (b"HMSG b 1 4 3\r\nabc\r\n", "HMSG with a header size above the total size"),
        (b"MSG b 2\r\nab\r\n", "MSG with 2 arguments"),
        (b"MSG %b 1 2\r\nab\r\n" % (b"x" * 200), "control line over the limit of 100 bytes"),
    ],
)
def test_a_bad_frame_among_lines_that_never_repeat(wire: bytes, message: str) -> None:
    words = Grammar(SERVER, Limits(100, 64))
    good = b"".join(b"MSG a.%d 1 2\r\nab\r\n" % number for number in range(2000))
    scan(BytesIO(good), 0, len(good), 0, words, True, [])
    assert not words.seen.learning
    out: list[Frame] = []
    data = b"MSG a 1 0\r\n\r\n" + wire
    with pytest.raises(ProtocolError, match=message):
        scan(BytesIO(data), 0, len(data), -13, words, True, out)
    assert out == [Msg(b"a", b"1")]
