"""What decoding may cost: limits come before memory, unwanted payloads nothing, and each byte a few copies.

How fast it is, is measured in tests/bench.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from natsync.protocol import Decoder, Info, Limits, ProtocolError, Role
from natsync.protocol import decoder as module

from tests.protocol.feeding import by_bytes, read
from tests.protocol.table import H12, SERVER

MB = 1 << 20


@pytest.fixture
def peak() -> Iterator[None]:
    """Counts memory from here on; `most_used` tells the peak."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def most_used() -> int:
    return tracemalloc.get_traced_memory()[1]


def test_a_body_that_is_not_wanted_is_not_held(peak: None) -> None:
    decoder = Decoder(Role.CLIENT, payloads=False, limits=Limits(payload=200 * MB))
    chunk = bytes(MB)
    decoder.feed(b"HPUB a 12 %d\r\n%b" % (200 * MB, H12))
    assert decoder.read() == []
    for _ in range(199):
        decoder.feed(chunk)
        assert decoder.read() == []
    decoder.feed(chunk[:-12] + b"\r\n")
    (frame,) = decoder.read()
    assert most_used() < 5 * MB
    assert getattr(frame, "headers") == H12
    assert getattr(frame, "payload_bytes") == 200 * MB - 12


def test_a_control_line_without_end_is_refused_before_it_fills_the_memory(peak: None) -> None:
    decoder = Decoder(Role.SERVER)
    chunk = b"x" * 65536
    decoder.feed(b'INFO {"')
    fed = 7
    with pytest.raises(ProtocolError, match="control line over the limit of 1048576 bytes"):
        while fed < 100 * MB:
            decoder.feed(chunk)
            fed += len(chunk)
            decoder.read()
    assert fed <= MB + 2 * len(chunk)
    assert most_used() < 4 * MB


def test_a_body_over_the_limit_is_refused_on_its_control_line(peak: None) -> None:
    decoder = Decoder(Role.CLIENT, limits=Limits(payload=1000))
    decoder.feed(b"PUB a 1001\r")
    assert decoder.read() == []
    decoder.feed(b"\n")
    with pytest.raises(ProtocolError, match="body of 1001 bytes is over the limit of 1000"):
        decoder.read()
    assert most_used() < MB


def test_a_promised_body_takes_no_memory_before_it_comes(peak: None) -> None:
    decoder = Decoder(Role.CLIENT, limits=Limits(payload=999_999_999))
    decoder.feed(b"PUB a 999999999\r\nx")
    assert decoder.read() == []
    assert decoder.body_left == 999_999_999 - 1 + 2
    assert most_used() < MB


class Counted(bytearray):
    """A buffer that counts the bytes copied into it and out of it."""

    copied = 0

    def __iadd__(self, other: Any) -> Counted:  # type: ignore[misc]  # only += is counted
        Counted.copied += len(other)
        super().__iadd__(other)
        return self

    def __getitem__(self, key: Any) -> Any:
        taken = super().__getitem__(key)
        Counted.copied += len(taken)
        return taken

    def __bytes__(self) -> bytes:
        Counted.copied += len(self)
        return bytes(memoryview(self))


@pytest.mark.parametrize(
    "wire",
    [
        b"INFO {%b}\r\n" % (b"x" * 50_000),
        b"MSG a 1 50000\r\n%b\r\n" % bytes(50_000),
        b"MSG %b 1 2\r\nab\r\n" % (b"s" * 50_000),
        b"PING\r\n" * 8000,
        b"INFO {}\r\n" * 5000,
    ],
    ids=["long line", "long body", "long subject", "many lines", "many INFO"],
)
def test_bytes_fed_one_by_one_are_copied_a_few_times_each(
    wire: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "bytearray", Counted, raising=False)
    monkeypatch.setattr(Counted, "copied", 0)
    reading = read(by_bytes(wire), SERVER)
    assert reading.tiles() and reading.end == len(wire)
    assert len(wire) <= Counted.copied <= 16 * len(wire)


def test_many_stops_in_one_piece_copy_no_rest() -> None:
    decoder = Decoder(Role.SERVER, None)
    decoder.feed(b"INFO {}\r\n" * 200_000)
    assert decoder.read() == [Info(b"{}")]
    tracemalloc.start()
    for _ in range(100):
        decoder.read()
    used = most_used()
    tracemalloc.stop()
    assert used < MB
    assert decoder.offset == 101 * 9
