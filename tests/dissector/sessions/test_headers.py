"""Header blocks, as far as a session looks into them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.sessions.headers import header_error, status_of
from natsync.protocol import ProtocolError, parse_headers


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"NATS/1.0\r\n\r\n", ""),
        (b"NATS/1.0 503\r\n\r\n", ""),
        (b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n", ""),
        (b"NATS/1.0\r\nA: 1\r\n folded\r\n\r\n", ""),
        (b"NATS/1.0\nA:1\n\n", ""),
        (b"hello", "header block without NATS/1.0"),
        (b"NATS/1.0\r\nno colon\r\n\r\n", "header line without a colon"),
    ],
)
def test_a_broken_header_block_has_its_reason(block: bytes, reason: str) -> None:
    assert header_error(block) == reason


@given(st.text("NATS/1.0 \t\r\n:a5", max_size=40).map(str.encode), st.booleans())
def test_the_short_way_says_what_the_codec_says(rest: bytes, begun: bool) -> None:
    block = b"NATS/1.0\r\n" + rest if begun else rest
    try:
        parse_headers(block)
        reason = ""
    except ProtocolError as error:
        reason = error.reason
    assert header_error(block) == reason


def test_the_status_of_a_header_block_is_0_if_there_is_none() -> None:
    assert status_of(b"NATS/1.0 404 No Messages\r\n\r\n") == 404
    assert status_of(b"NATS/1.0\r\n\r\n") == 0
    assert status_of(b"no header block") == 0
