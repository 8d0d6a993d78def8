"""Answers to direct gets, and how times are written."""

from __future__ import annotations

import pytest

from natsync.jetstream import StreamConfig
from natsync.testing.memory.answers import direct_answers, stored_message, stream_info
from natsync.testing.memory.stream import MemoryStream

SECOND = 1_000_000_000


@pytest.fixture
def stream() -> MemoryStream:
    made = MemoryStream(StreamConfig("S", subjects=["s.*"], allow_direct=True), 0)
    for number in range(4):
        made.publish(b"s.%d" % (number % 2), b"", bytes(10), number * SECOND)
    return made


def lines(answers: list[tuple[bytes, bytes]]) -> list[bytes]:
    """The sequence of each message, or the status."""
    found = []
    for block, _ in answers:
        _, added, rest = block.partition(b"Nats-Sequence: ")
        found.append(rest.partition(b"\r\n")[0] if added else block.partition(b"\r\n")[0][9:])
    return found


@pytest.mark.parametrize(
    ("subject", "body", "expected"),
    [
        (b"s.1", b"", [b"4"]),
        (b"s.9", b"", [b"404 Message Not Found"]),
        (b"", b"", [b"408 Empty Request"]),
        (b"", b"{", [b"408 Malformed Request"]),
        (b"", b"[]", [b"408 Malformed Request"]),
        (b"", b'{"seq": 2}', [b"2"]),
        (b"", b'{"next_by_subj": "s.0", "seq": 2}', [b"3"]),
        (b"", b'{"seq": 2, "batch": 2}', [b"2", b"3", b"204 EOB"]),
        (b"", b'{"seq": 1, "batch": 9, "max_bytes": 60}', [b"1", b"2", b"204 EOB"]),
        (b"", b'{"batch": 9, "start_time": "1970-01-01T00:00:02Z"}', [b"3", b"4", b"204 EOB"]),
        (b"", b'{"multi_last": ["s.*"]}', [b"3", b"4", b"204 EOB"]),
        (b"", b'{"multi_last": ["s.*"], "up_to_seq": 2}', [b"1", b"2", b"204 EOB"]),
        (b"", b'{"multi_last": ["t"]}', [b"404 No Results"]),
    ],
)
def test_direct_gets_answer_as_a_server_does(
    stream: MemoryStream, subject: bytes, body: bytes, expected: list[bytes]
) -> None:
    assert lines(list(direct_answers(stream, subject, body))) == expected


def test_too_many_subjects() -> None:
    stream = MemoryStream(StreamConfig("S", subjects=["s.*"]), 0)
    for number in range(1025):
        stream.publish(b"s.%d" % number, b"", b"", 0)
    answers = list(direct_answers(stream, b"", b'{"multi_last": ["s.*"]}'))
    assert lines(answers) == [b"413 Too Many Results"]


def test_times_are_texts_in_utc(stream: MemoryStream) -> None:
    assert stored_message(stream.messages[2])["time"] == "1970-01-01T00:00:01Z"
    info = stream_info(stream, {}, 1_500_000_001)
    assert info["ts"] == "1970-01-01T00:00:01.500000001Z"
    assert stream_info(MemoryStream(StreamConfig("T"), 0), {}, 0)["state"]["first_ts"][:4] == "0001"
