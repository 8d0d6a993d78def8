"""Decoder.skip: a gap within a body costs its bytes, and framing goes on after it.

The same for any frames and gaps is a law of test_properties.py.
"""

from __future__ import annotations

import pytest

from natsync.protocol import Decoder, HMsg, Msg, Ping, ProtocolError, Role

from tests.protocol.feeding import drain
from tests.protocol.table import H12

MSG = b"MSG a 1 5\r\n"
HMSG = b"HMSG a 1 12 15\r\n"


def skipping(before: bytes, gap: int, after: bytes, *, payloads: bool = True) -> list[object]:
    """What is read of `before`, a gap and `after`: frames, then sizes."""
    decoder = Decoder(Role.SERVER, payloads=payloads)
    decoder.feed(before)
    assert decoder.read() == []
    decoder.skip(gap)
    frames = decoder.read()
    decoder.feed(after)
    for more in drain(decoder):
        frames += more
    assert decoder.idle and frames[1] == Ping()
    message, _ = frames
    assert isinstance(message, (Msg, HMsg))
    assert message.total_bytes == frames[1].offset
    return [message, message.header_bytes, message.payload_bytes, message.missing_bytes]


@pytest.mark.parametrize("payloads", [True, False], ids=["payloads", "no payloads"])
@pytest.mark.parametrize(
    "before, gap, after, missing, payload",
    [
        (MSG, 0, b"hello\r\n", 0, b"hello"),
        (MSG, 5, b"\r\n", 5, b""),
        (MSG, 6, b"\n", 5, b""),
        (MSG, 7, b"", 5, b""),
        (MSG + b"he", 2, b"o\r\n", 2, b"heo"),
        (MSG + b"hello", 1, b"\n", 0, b"hello"),
        (MSG + b"hello", 2, b"", 0, b"hello"),
        (MSG + b"hello\r", 1, b"", 0, b"hello"),
    ],
)
def test_a_gap_in_a_payload(
    before: bytes, gap: int, after: bytes, missing: int, payload: bytes, payloads: bool
) -> None:
    kept = payload if payloads else b""
    got = skipping(before, gap, after + b"PING\r\n", payloads=payloads)
    assert got == [Msg(b"a", b"1", payload=kept), 0, 5, missing]


@pytest.mark.parametrize("payloads", [True, False], ids=["payloads", "no payloads"])
@pytest.mark.parametrize(
    "before, gap, after, missing, headers, payload",
    [
        (HMSG, 12, b"abc\r\n", 0, b"", b"abc"),
        (HMSG + H12[:4], 4, H12[8:] + b"abc\r\n", 0, b"", b"abc"),
        (HMSG + H12[:4], 9, b"bc\r\n", 1, b"", b"bc"),
        (HMSG + H12[:4], 13, b"", 3, b"", b""),
        (HMSG + H12, 1, b"bc\r\n", 1, H12, b"bc"),
        (HMSG + H12 + b"a", 4, b"", 2, H12, b"a"),
    ],
)
def test_a_gap_in_a_header_block(
    before: bytes,
    gap: int,
    after: bytes,
    missing: int,
    headers: bytes,
    payload: bytes,
    payloads: bool,
) -> None:
    kept = payload if payloads else b""
    got = skipping(before, gap, after + b"PING\r\n", payloads=payloads)
    assert got == [HMsg(b"a", b"1", headers=headers, payload=kept), 12, 3, missing]


def test_two_gaps_in_one_body() -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(b"MSG a 1 9\r\n1")
    decoder.read()
    decoder.skip(2)
    decoder.feed(b"45")
    assert decoder.read() == []
    decoder.skip(3)
    decoder.feed(b"9\r\n")
    (frame,) = decoder.read()
    assert (frame, getattr(frame, "missing_bytes")) == (Msg(b"a", b"1", payload=b"1459"), 5)


@pytest.mark.parametrize("fed", [b"", b"PI", b"PING\r\n", b"MSG a 1", b"MSG a 1 5\r\nhello\r\n"])
def test_a_gap_outside_a_body_cannot_be_skipped(fed: bytes) -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(fed)
    decoder.read()
    with pytest.raises(ValueError, match="only within the body"):
        decoder.skip(1)


@pytest.mark.parametrize("size", [-1, 8])
def test_a_gap_must_fit_into_the_body(size: int) -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(MSG)
    decoder.read()
    with pytest.raises(ValueError):
        decoder.skip(size)
    decoder.feed(b"h")
    with pytest.raises(ValueError):
        decoder.skip(1)
    assert decoder.read() == []
    decoder.skip(6)
    assert len(decoder.read()) == 1


def test_bytes_after_a_gap_are_still_checked() -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(MSG)
    decoder.read()
    decoder.skip(6)
    decoder.feed(b"X")
    with pytest.raises(ProtocolError, match="at byte 17: b'X'"):
        decoder.read()


def test_an_error_waits_until_what_a_gap_completed_is_read() -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(MSG)
    decoder.read()
    decoder.skip(7)
    decoder.feed(b"garbage")
    assert [frame.op for frame in decoder.read()] == ["MSG"]
    with pytest.raises(ProtocolError, match="at byte 18"):
        decoder.read()
