"""TLS secrets in a pcapng count for all of the capture, wherever in it they stand, except in a stream."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats import CaptureReport, FrameRecord, Options
from dissect.nats.capture.embedded_secrets import read_secrets
from dissect.nats.cli import cli
from dissect.nats.engine.dissection import Dissection
from dissect.nats.pipeline import records
from dissect.nats.schema.records import Record
from dissect.nats.secrets.key_log import KeyLog, KeyLogs

from tests.dissector.samples.rows import CAPTURES, sample
from tests.support.pcapwriter import Interface
from tests.support.pcapwriter import Record as Packet
from tests.support.pcapwriter import pcapng_file, with_secrets

NAME = "tls-keys-2.15.1.pcap"
KEYS = CAPTURES / "tls-keys-2.15.1.keylog"
SECRETS = KEYS.read_bytes()
PACKETS = [Packet(each.ts_ns, each.data, each.length) for each in sample(NAME).records]
MUCH = [Packet(PACKETS[-1].ts_ns, bytes(60_000))] * 3  # more than is read at once
FRAMES = 187
AT_THE_END = 0


def plain(packets: Sequence[Packet] = (*PACKETS, *MUCH), order: str = "<") -> bytes:
    return pcapng_file(packets, [Interface(sample(NAME).linktype, tsresol=9)], order)


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def rows(*paths: str, options: Options = Options()) -> list[Record]:
    return list(records(paths, ("frames", "sessions", "flows", "anomalies"), options))


def frames(found: list[Record]) -> int:
    return sum(isinstance(row, FrameRecord) for row in found)


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
@pytest.mark.parametrize("blocks", [1, 60, AT_THE_END], ids=["begin", "middle", "end"])
def test_the_place_of_the_secrets_changes_nothing(blocks: int, order: str, tmp_path: Path) -> None:
    path = tmp_path / "one.pcapng"
    wanted = rows(written(path, plain(order=order)), options=Options(keylog=[str(KEYS)]))
    content = with_secrets(plain(order=order), SECRETS, blocks, order)
    assert rows(written(path, content)) == wanted
    assert frames(wanted) == FRAMES
    assert rows(written(path, gzip.compress(content))) == wanted


def test_a_later_file_may_have_the_secrets(tmp_path: Path) -> None:
    middle = len(PACKETS) // 2
    first = written(tmp_path / "1.pcapng", plain(PACKETS[:middle]))
    second = with_secrets(plain([*PACKETS[middle:], *MUCH]), SECRETS, AT_THE_END)
    assert frames(rows(first, written(tmp_path / "2.pcapng", second))) == FRAMES
    assert frames(rows(first)) < FRAMES


def test_secrets_after_damage_are_not_read(tmp_path: Path) -> None:
    content = plain()
    damaged = content + b"\6\0\0\0\3\0\0\0" + with_secrets(plain([]), SECRETS)
    assert frames(rows(written(tmp_path / "one.pcapng", damaged))) < FRAMES


def test_a_stream_has_the_secrets_that_came_so_far() -> None:
    """Standard input can be read only once, a block at a time."""

    def count(blocks: int) -> int:
        content = with_secrets(plain(), SECRETS, blocks)
        done = CliRunner().invoke(cli, ["frames", "--format=jsonl", "-"], input=content)
        assert done.exit_code == 0
        return done.stdout.count("\n")

    assert count(1) == FRAMES > count(AT_THE_END)


def test_top_reads_them_too(tmp_path: Path) -> None:
    def shown(blocks: int) -> str:
        path = written(tmp_path / "one.pcapng", with_secrets(plain(), SECRETS, blocks))
        done = CliRunner().invoke(cli, ["top", "--once", "--format=jsonl", path])
        assert done.exit_code == 0
        return done.stdout

    assert shown(AT_THE_END) == shown(1)
    assert "greet" in shown(1)


def test_a_capture_without_tls_is_read_once(tmp_path: Path) -> None:
    looked: list[KeyLog] = []
    for name in ("core-2.15.1.pcap", NAME):
        key_logs = KeyLogs()
        dissection = Dissection(["frames"], Options(), key_logs=key_logs)
        source = dissection.packets([str(CAPTURES / name)], CaptureReport())
        blocks = [next(source)]
        key_logs.look_ahead_with(looked.append)
        assert list(dissection.parser.segments(chain(blocks, source)))
        assert looked == []  # before anybody asks
        assert not key_logs.may_have_secrets
        assert list(key_logs.find(bytes(32), "CLIENT_RANDOM")) == []
        assert looked.pop() is key_logs.embedded and not looked


def test_captures_without_a_mark_are_not_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissect.nats.capture.embedded_secrets.read_file", None)
    embedded = KeyLog()
    read_secrets([written(tmp_path / "a.pcapng", plain()), str(CAPTURES / NAME)], None, embedded)
    assert not embedded


def test_a_mark_on_the_border_of_two_blocks_is_found(tmp_path: Path) -> None:
    for size in range(131072 - 44, 131072 - 36):  # the file is read in blocks of 128 KiB
        filler = plain([Packet(1, bytes(size - len(plain([Packet(1, b"")])) & ~3))])
        path = written(tmp_path / "one.pcapng", with_secrets(filler, SECRETS, AT_THE_END))
        embedded = KeyLog()
        read_secrets([path], None, embedded)
        assert embedded
