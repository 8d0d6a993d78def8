"""Rows that the kernel makes have every column of the rows that Python makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from dissect.nats import Options
from dissect.nats.capture import reader
from dissect.nats.kernel import columns
from dissect.nats.kernel.frame_block import FrameBlock
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.kernel.state import R_FIELDS
from dissect.nats.pipeline import released

from tests.dissector.fuzzing.harms import NAMES, sample
from tests.dissector.fuzzing.kernel import Case, Count, difference
from tests.dissector.kernel.both import KERNEL
from tests.support.damage import Pcap, pcap_bytes, read_pcap
from tests.support.pcapwriter import Conversation, pcap_file

pytestmark = KERNEL

HEADERS = (
    b"NATS/1.0\r\nA: b\r\nC:d\r\n\r\n",
    b"NATS/1.0\r\nA:   \r\nEmpty:\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 404 No Messages\r\nA: b\r\n\r\n",
    b"NATS/1.0\r\n\xff: b\r\n\\xff: c\r\n\r\n",
    b"NATS/1.0\r\nBytes: \xff\xfe \r\nTab:\t x \t\r\n\r\n",
    b"NATS/1.0\r\n" + b"".join(b"N%d: %d\r\n" % (at, at) for at in range(40)) + b"\r\n",
    b"NATS/1.0\r\n folded\r\n\r\n",
)


def talk(frames: Iterator[bytes]) -> Pcap:
    """Messages from a client that Python has greeted."""
    conversation = Conversation().handshake()
    conversation.from_server(b'INFO {"server_id":"NS","client_id":7} \r\n')
    conversation.from_client(b'CONNECT {"lang":"go"}\r\n')
    conversation.from_client(b"PUB a 0\r\n\r\n")
    for frame in frames:
        conversation.from_client(frame)
    return read_pcap(pcap_file(conversation.records))


def blocks(pcap: Pcap, path: Path, size: int = 3000) -> list[FrameBlock]:
    path.write_bytes(pcap_bytes(pcap))
    with patch.dict(os.environ, {VARIABLE: "on"}), patch.object(reader, "BLOCK", size):
        source = released([str(path)], ["frames"], together=True, blocks=True)
        with closing(source):
            found = [record for rows in source for record in rows.records]
    return [record for record in found if isinstance(record, FrameBlock)]


@pytest.mark.parametrize("name", NAMES)
def test_the_frames_of_a_sample_are_the_same(name: str, tmp_path: Path) -> None:
    for options in (Options(), Options(kind=("route", "leafnode"))):
        for block in (1500, 1 << 17):
            case = Case(sample(name), (), ("frames",), block, options, reach=50)
            found = difference(case, tmp_path / "case", Count())
            assert not found, found


def test_headers_are_the_same_whatever_they_contain(tmp_path: Path) -> None:
    def frames() -> Iterator[bytes]:
        for number in range(40):
            for block in HEADERS:
                sizes = b"%d %d" % (len(block), len(block) + 2)
                yield b"HPUB s.%d %s\r\n" % (number, sizes) + block + b"xy\r\n"

    pcap = talk(frames())
    found = difference(Case(pcap, (), ("frames",), 3000), tmp_path / "case", Count())
    assert not found, found
    fields = [
        int(count) for block in blocks(pcap, tmp_path / "case") for count in block.numbers[R_FIELDS]
    ]
    assert {columns.READ_BY_PYTHON, 0, 2} <= {*fields}
    assert fields.count(2) > 60


def test_texts_that_are_not_utf_8_are_the_same(tmp_path: Path) -> None:
    pcap = talk(b"PUB \xff\xe9.%d in.\xc3 0\r\n\r\n" % number for number in range(300))
    assert blocks(pcap, tmp_path / "case")
    found = difference(Case(pcap, (), ("frames",), 3000), tmp_path / "case", Count())
    assert not found, found


def test_rows_are_taken_before_there_is_no_room(tmp_path: Path) -> None:
    subject = b"s" * 3000
    pcap = talk(b"PUB %s.%d 0\r\n\r\n" % (subject, number) for number in range(1500))
    assert len(blocks(pcap, tmp_path / "case", 1 << 17)) > 1
    found = difference(Case(pcap, (), ("frames",), 1 << 17), tmp_path / "case", Count())
    assert not found, found
