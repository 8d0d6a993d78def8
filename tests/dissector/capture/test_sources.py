"""Inputs: files, folders, patterns and standard input; what is not a capture; which comes first."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture import CaptureReport, read_packets
from dissect.nats.errors import CaptureError
from natsync._extras import pip_install

from tests.support.pcapwriter import START_NS, Conversation, Record, pcap_file, pcapng_file
from tests.support.requirements import missing

try:
    import zstandard
except ImportError:
    missing("zstandard", "pip install 'natsync[zstd]'")

RECORDS = Conversation().handshake().from_client(b"PING\r\n").records


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def at(seconds: int) -> bytes:
    """A capture of one packet, which says when it was."""
    return pcap_file([Record(START_NS + seconds * 10**9, str(seconds).encode())])


@contextmanager
def may_open(files: int) -> Iterator[None]:
    """This process may open so many files more, however many other tests keep open in it."""
    resource = pytest.importorskip("resource")
    taken = {int(name) for name in os.listdir("/dev/fd")}
    free = (number for number in count() if number not in taken)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, files, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def read(*paths: str | Path) -> tuple[list[bytes], CaptureReport]:
    report = CaptureReport()
    packets = list(read_packets([str(path) for path in paths], report))
    return [packet.data for packet in packets], report


def refused(*paths: str | Path) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        read(*paths)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file whose contents are standard input once it is written."""
    path = tmp_path / "stdin"

    class Stdin:
        @property
        def buffer(self) -> io.BufferedIOBase:
            return io.BytesIO(path.read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin())
    return path


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (pcap_file(RECORDS), "pcap, microseconds"),
        (pcap_file(RECORDS, nanoseconds=True), "pcap, nanoseconds"),
        (pcapng_file(RECORDS), "pcapng"),
        (gzip.compress(pcap_file(RECORDS), mtime=0), "gzip pcap, microseconds"),
        (gzip.compress(pcapng_file(RECORDS), mtime=0), "gzip pcapng"),
        (zstd(pcap_file(RECORDS)), "zstd pcap, microseconds"),
        (lzma.compress(pcapng_file(RECORDS)), "xz pcapng"),
        (bz2.compress(pcapng_file(RECORDS)), "bzip2 pcapng"),
    ],
)
def test_a_format_is_known_by_its_first_bytes(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / "misleading.txt"
    path.write_bytes(data)
    packets, report = read(path)
    assert packets == [record.data for record in RECORDS]
    (file,) = report.files
    assert (file.path, file.capture, file.format) == (str(path), "misleading.txt", name)
    assert (file.packets, file.damage) == (len(RECORDS), None)
    assert file.size == file.position == report.size == report.position == len(data)
    assert file.finished


@pytest.mark.parametrize(
    "data", [pcap_file([]), pcapng_file([]), gzip.compress(pcap_file([]), mtime=0)]
)
def test_a_capture_without_packets_is_fine(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t").write_bytes(data)
    packets, report = read(tmp_path / "t")
    assert packets == []
    assert len(report.files) == 1 and not report.damaged


# Several inputs


def test_files_follow_each_other_in_time(tmp_path: Path) -> None:
    for name, data in (("a", at(3)), ("b", at(1)), ("c", pcap_file([])), ("d", at(2))):
        (tmp_path / name).write_bytes(data)
    packets, report = read(*(tmp_path / name for name in "abcd"))
    assert packets == [b"1", b"2", b"3"]
    assert [file.capture for file in report.files] == ["b", "d", "a", "c"]
    assert [file.packets for file in report.files] == [1, 1, 1, 0]
    assert [sum(file.linktypes.values()) for file in report.files] == [1, 1, 1, 0]


def test_numbers_count_from_one_in_each_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(at(1))
    (tmp_path / "b\udcff").write_bytes(at(2))  # no UTF-8
    packets = list(read_packets([str(tmp_path / "a"), str(tmp_path / "b\udcff")], CaptureReport()))
    assert [(packet.capture, packet.number) for packet in packets] == [("a", 1), ("b\\xff", 1)]


@pytest.mark.parametrize("again", ["{0}", "{0}/.", "{0}*"])
def test_a_folder_stands_for_its_captures(tmp_path: Path, again: str) -> None:
    (tmp_path / "b.pcap").write_bytes(at(1))
    (tmp_path / "a.pcap").write_bytes(at(2))
    (tmp_path / "notes.txt").write_text("about them")
    (tmp_path / "empty").touch()
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper/c.pcap").write_bytes(at(3))
    packets, report = read(tmp_path, again.format(tmp_path))
    assert packets == [b"1", b"2"] and len(report.passed_over) == 2
    assert report.passed_over[1].startswith(f"{tmp_path / 'notes.txt'}: not a capture")


def test_a_pattern_stands_for_the_names_that_match(tmp_path: Path) -> None:
    for name in ("a1.pcap", "a2.pcap", "b1.pcap"):
        (tmp_path / name).write_bytes(at(int(name[1])))
    assert read(tmp_path / "a*.pcap")[0] == [b"1", b"2"]
    assert refused(tmp_path / "z*.pcap").reason == "no file has such a name"


def test_a_name_that_looks_like_a_pattern_is_still_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].pcap").write_bytes(at(1))
    assert read(tmp_path / "a[1].pcap")[0] == [b"1"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(at(1))
    os.symlink(tmp_path / "a", tmp_path / "link")
    assert read(tmp_path, tmp_path / "a", tmp_path / "link")[0] == [b"1"]


def test_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / str(number)).write_bytes(at(number))
    with may_open(30):
        packets, _ = read(tmp_path)
    assert packets == [str(number).encode() for number in range(60)]


def test_captures_that_overlap_are_merged_by_time(tmp_path: Path) -> None:
    both = RECORDS, [replace(record, ts_ns=record.ts_ns + 1000) for record in RECORDS]
    for name, records in zip("ba", both, strict=True):
        (tmp_path / name).write_bytes(pcapng_file(records) if name == "a" else pcap_file(records))
    report = CaptureReport()
    packets = list(read_packets([str(tmp_path)], report))
    expected = [(name, number + 1) for number in range(len(RECORDS)) for name in "ba"]
    assert [(packet.capture, packet.number) for packet in packets] == expected
    assert [file.capture for file in report.files] == ["b", "a"]


def test_too_many_captures_that_overlap_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissect.nats.capture.merge.MOST_OPEN", 3)
    for name in "abcd":
        (tmp_path / name).write_bytes(pcap_file(RECORDS))
    error = refused(tmp_path)
    assert "captures overlap in time; put some of them together with mergecap" in str(error)
    (tmp_path / "d").write_bytes(at(10**6))
    assert len(read(tmp_path)[0]) == 3 * len(RECORDS) + 1


def test_more_files_that_overlap_than_a_process_may_open(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / str(number)).write_bytes(pcap_file(RECORDS))
    with may_open(30):
        error = refused(tmp_path)
    assert error.reason == "cannot be opened (Too many open files)"
    assert "mergecap" in error.remedy


def test_the_size_of_all_inputs_is_known_before_they_are_read(tmp_path: Path) -> None:
    for seconds in range(3):
        (tmp_path / str(seconds)).write_bytes(at(seconds))
    report = CaptureReport()
    packets = read_packets([str(tmp_path)], report)
    next(packets)
    assert report.size == 3 * len(at(1))
    assert report.position == len(at(1))
    assert [(file.capture, file.finished) for file in report.files] == [("0", False)]


def test_without_the_library_zstd_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.zst"
    path.write_bytes(zstd(pcap_file(RECORDS)))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    error = refused(path)
    assert error.reason == "the file is compressed with zstd"
    assert (
        error.remedy
        == f"zstandard is not installed; {pip_install('zstd')}, or unpack it with zstd -d"
    )
    (tmp_path / "good").write_bytes(at(1))
    packets, report = read(tmp_path)
    assert packets == [b"1"]
    assert [str(error) in reason for reason in report.unreadable] == [True]


# Standard input


def test_a_dash_reads_packets_of_standard_input(stdin: Path) -> None:
    stdin.write_bytes(pcap_file(RECORDS))
    packets, report = read("-")
    assert packets == [record.data for record in RECORDS]
    assert (report.files[0].path, report.files[0].capture) == ("-", "-")


@pytest.mark.parametrize("data", [at(2), pcap_file([])])
def test_standard_input_may_be_one_of_several(stdin: Path, tmp_path: Path, data: bytes) -> None:
    stdin.write_bytes(data)
    (tmp_path / "a").write_bytes(at(3))
    (tmp_path / "b").write_bytes(at(1))
    packets, report = read(tmp_path / "a", "-", tmp_path / "b")
    assert packets == ([b"1", b"2", b"3"] if data == at(2) else [b"1", b"3"])
    assert {file.capture: file.packets for file in report.files} == {
        "a": 1,
        "b": 1,
        "-": len(packets) - 2,
    }


def test_packets_come_out_of_standard_input_as_they_arrive() -> None:
    code = (
        "import sys; from dissect.nats.capture import CaptureReport, read_packets\n"
        "for packet in read_packets(['-'], CaptureReport()): print(packet.number, flush=True)"
    )
    run = [sys.executable, "-c", code]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        data = pcap_file(RECORDS)
        half = len(pcap_file(RECORDS[:2])) + 5
        child.stdin.write(data[:half])
        child.stdin.flush()
        assert [child.stdout.readline() for _ in range(2)] == [b"1\n", b"2\n"]
        child.stdin.write(data[half:])
        child.stdin.close()
        assert child.stdout.readlines()[-1] == f"{len(RECORDS)}\n".encode()


@pytest.mark.parametrize("alone", [True, False])
def test_a_named_pipe(tmp_path: Path, alone: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "later").write_bytes(at(2))
    copy = [
        sys.executable,
        "-c",
        "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())",
    ]
    with subprocess.Popen([*copy, str(pipe)], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.write(at(1))
        child.stdin.close()
        paths = [pipe] if alone else [tmp_path / "later", pipe]
        assert read(*paths)[0] == [b"1", b"2"][: len(paths)]


# What is not a capture


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"hello, world\n", "not a capture: it begins with b'hello, w'"),
        (b"\xd4\xc3\xb2\xa1" + bytes(19), "the file ends inside its header"),
        (b"\x0a\x0d\x0d\x0a\x1c\0\0\0", "the file ends inside its header"),
        (
            b"\x0a\x0d\x0d\x0a" + bytes(30),
            "not a capture: it begins with b'\\n\\r\\r\\n\\x00\\x00\\x00\\x00'",
        ),
        (b"\x28\xb5\x2f\xfd" + bytes(30), "the zstd data ends early"),
        (b"\x04\x22\x4d\x18" + bytes(30), "the file is compressed with lz4"),
        (b"PK\x03\x04" + bytes(30), "the file is a zip archive"),
        (b"day/1.pcap".ljust(257, b"\0") + b"ustar", "the file is a tar archive"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (gzip.compress(b"hello", mtime=0), "not a capture: it begins with b'hello'"),
        (gzip.compress(pcap_file(RECORDS), mtime=0)[:12], "the gzip data ends early"),
        (b"\x1f\x8b\x08garbage" * 9, "the gzip data is damaged"),
    ],
)
def test_what_is_no_capture_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(data)
    error = refused(path)
    assert (error.path, error.reason) == (str(path), reason)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert str(refused(tmp_path / "gone")) == f"{tmp_path / 'gone'}: no such file"


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: str, *_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "t").write_bytes(at(1))
    monkeypatch.setattr("builtins.open", deny)
    assert refused(tmp_path / "t").reason == "cannot be opened (Permission denied)"
    monkeypatch.setattr("os.listdir", deny)
    assert refused(tmp_path).reason == "cannot be read (Permission denied)"


def test_a_folder_without_captures_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).reason == "no file in this folder is a capture"
    (tmp_path / "notes.txt").write_text("nothing yet")
    assert refused(tmp_path).path == str(tmp_path)


def test_one_that_is_no_capture_is_refused_before_any_packet(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(at(1))
    (tmp_path / "b").write_text("text")
    report = CaptureReport()
    with pytest.raises(CaptureError):
        next(read_packets([str(tmp_path / "a"), str(tmp_path / "b")], report))
    assert report.files == []


# Damage


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", zstd)])
def test_packed_data_that_ends_early_gives_what_is_there(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    records = [replace(RECORDS[0], ts_ns=START_NS + count) for count in range(1000)]
    records += [Record(START_NS + 1000, random.Random(1).randbytes(200_000))]
    packed = pack(pcap_file(records))
    (tmp_path / "t").write_bytes(packed[:-1000])
    packets, report = read(tmp_path / "t")
    assert len(packets) == 1000
    (file,) = report.damaged
    assert file.damage is not None
    assert file.damage.startswith(f"the {name} data ends early in packet 1001, at byte ")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_capture_or_refused(data: bytes) -> None:
    check_any(data)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([pcap_file([]), pcapng_file([])]), st.booleans())
def test_any_bytes_after_a_good_start_are_read(rest: bytes, start: bytes, packed: bool) -> None:
    check_any(gzip.compress(start + rest, mtime=0) if packed else start + rest)


def check_any(data: bytes) -> None:
    """Packets, or CaptureError, and nothing else."""

    class Stdin:
        buffer = io.BytesIO(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", Stdin())
        report = CaptureReport()
        try:
            packets = list(read_packets(["-"], report))
        except CaptureError as error:
            assert error.path == "-"
        else:
            assert len(packets) <= report.files[0].packets


@pytest.mark.parametrize(
    ("head", "name", "what", "remedy"),
    [
        (b"02:01:43.316184 IP 10.0.0.1.4222 > ", "a.txt", "tcpdump's text", "tcpdump -w"),
        (b"2026-11-21 02:01:43.316184 IP6 ::1", "a.txt", "tcpdump's text", "tcpdump -w"),
        (b"02:01:43.316184 lo    In  IP 127.0.0.1", "a.txt", "tcpdump's text", "tcpdump -w"),
        (bytes(72) + b"\2\0\2\xc0" + bytes(8), "a.etl", "an ETW trace", "etl2pcapng"),
        (bytes(40), "a.erf", "an ERF capture", "editcap"),
        (b"\xac\1\0\x1c" + bytes(40), "a.pcap", "a pcap of an Ixia device", "editcap"),
    ],
)
def test_files_of_other_programs_are_named_with_the_way_out(
    head: bytes, name: str, what: str, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(head)
    with pytest.raises(CaptureError) as caught:
        list(read_packets([str(path)], CaptureReport()))
    assert what in str(caught.value) and remedy in str(caught.value)
