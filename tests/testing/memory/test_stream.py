"""Streams with a clock of the test's own: ids, times to live, markers, interest."""

from __future__ import annotations

import pytest

from natsync.jetstream import StreamConfig
from natsync.testing.memory.problems import Problem
from natsync.testing.memory.stream import MemoryStream, duration_ns, fields_of

SECOND = 1_000_000_000


def headers(**fields: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()]
    return f"NATS/1.0\r\n{''.join(lines)}\r\n".encode()


def test_an_id_counts_for_a_while() -> None:
    stream = MemoryStream(StreamConfig("S", duplicate_window=10.0), 0)
    block = headers(Nats_Msg_Id="a")
    assert stream.publish(b"S", block, b"", 0) == (1, False)
    assert stream.publish(b"S", block, b"", 10 * SECOND) == (1, True)
    assert stream.publish(b"S", block, b"", 11 * SECOND) == (2, False)


def test_messages_expire() -> None:
    stream = MemoryStream(StreamConfig("S", max_age=10.0, allow_msg_ttl=True), 0)
    stream.publish(b"S", b"", b"", 0)
    stream.publish(b"S", headers(Nats_TTL="3"), b"", 0)
    stream.publish(b"S", headers(Nats_TTL="never"), b"", 5 * SECOND)
    assert stream.expire(2 * SECOND) == 3 * SECOND
    assert stream.expire(3 * SECOND) == 10 * SECOND and list(stream.messages) == [1, 3]
    assert stream.expire(10 * SECOND) == 15 * SECOND and stream.first_seq == 3
    assert stream.expire(15 * SECOND) is None and (stream.first_seq, stream.bytes) == (4, 0)


def test_a_marker_tells_of_it() -> None:
    config = StreamConfig("S", allow_msg_ttl=True, subject_delete_marker_ttl=2.0)
    stream = MemoryStream(config, 0)
    stream.publish(b"S", headers(Nats_TTL="1s"), b"", 0)
    assert stream.expire(SECOND) is None
    last = stream.last(b"S")
    assert last and fields_of(last.headers)[b"Nats-Marker-Reason"] == b"MaxAge"
    stream.expire(3 * SECOND)
    assert stream.last(b"S") is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"90", 90 * SECOND),
        (b"1h30m", 5400 * SECOND),
        (b"1500ms", 1_500_000_000),
        (b"1.5s", 1_500_000_000),
        (b"soon", None),
        (b"", None),
        (b"-1s", None),
    ],
)
def test_times_are_those_of_go(text: bytes, ns: int | None) -> None:
    assert duration_ns(text) == ns


@pytest.mark.parametrize("ttl", ["0", "1ms", "soon"])
def test_times_that_cannot_be(ttl: str) -> None:
    stream = MemoryStream(StreamConfig("S", allow_msg_ttl=True), 0)
    with pytest.raises(Problem) as caught:
        stream.publish(b"S", headers(Nats_TTL=ttl), b"", 0)
    assert caught.value.err_code == 10165 and stream.last_seq == 0


def test_nobody_wants_it() -> None:
    stream = MemoryStream(StreamConfig("S", retention="interest"), 0)
    assert stream.publish(b"S", b"", b"", 0) == (1, False)
    assert not stream.messages and stream.last_seq == 1


def test_headers_that_cannot_be_read_are_kept() -> None:
    stream = MemoryStream(StreamConfig("S"), 0)
    stream.publish(b"S", b"NATS/1.0\r\nno colon\r\n\r\n", b"x", 0)
    assert stream.messages[1].headers == b"NATS/1.0\r\nno colon\r\n\r\n"
    assert fields_of(b"nonsense") == {}
