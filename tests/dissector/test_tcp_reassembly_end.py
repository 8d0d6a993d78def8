"""When all bytes of a stream are known to be there."""

from __future__ import annotations

from dissect.nats.anomalies import Anomaly
from dissect.nats.tcp.reassembly import Stream

from tests.support.segments import BASE, oddities, opened, segment
from tests.support.tcp_conversation import ACK, FIN


def test_a_stream_is_complete_with_everything_before_its_fin() -> None:
    stream = opened()
    assert not stream.is_complete
    stream.push(segment(BASE + 4, b"\r\n", ACK | FIN))
    assert not stream.is_complete
    stream.push(segment(BASE, b"PING"))
    assert stream.is_complete
    late = stream.push(segment(BASE + 4, b"\r\n")) + stream.push(segment(BASE + 7, b"more"))
    assert oddities(late) == [(Anomaly.DATA_AFTER_FIN, 7, 4)] and stream.finish() == []


def test_a_stream_without_its_first_byte_is_not_complete() -> None:
    stream = Stream()
    stream.push(segment(BASE, b"", ACK | FIN))
    assert not stream.is_complete
