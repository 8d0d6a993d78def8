"""TLS with a key log: every cipher suite, damaged, without secrets, in pieces, and hostile."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats import FrameRecord, Options
from dissect.nats.cli import cli
from dissect.nats.engine.connections import ConnectionTable
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, Record, SessionRecord
from dissect.nats.secrets.key_log import KeyLogs
from dissect.nats.transport.layer import LayerOptions
from dissect.nats.transport.tls.layer import LAYER, TlsTransform
from dissect.nats.types import Chunk, Direction, Gap, Item

from tests.dissector.fuzzing.layers import begun
from tests.dissector.samples.rows import CAPTURES, rewritten, sample
from tests.dissector.samples.test_packets import shuffled
from tests.support.packets import place_of
from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Interface
from tests.support.pcapwriter import Record as Packet
from tests.support.pcapwriter import pcapng_file, with_secrets
from tests.support.requirements import missing
from tests.support.segments import packet_events, segments

pytestmark = pytest.mark.usefixtures("worker_processes")

NAME = "tls-keys-2.15.1.pcap"
KEYS = str(CAPTURES / "tls-keys-2.15.1.keylog")
OPTIONS = Options(keylog=[KEYS])
TRUTH = json.loads((CAPTURES / "truth.json").read_text())[NAME]["connections"]

SERVER_PORTS = (4222, 4223, 8443)
LINKS, LINK_PORTS = "tls-links.pcapng", (6221, 7221, 7222, 7422)

Content = tuple[object, ...]


def rows(path: Path | str, options: Options = OPTIONS) -> list[Record]:
    return list(records([str(path)], ("frames", "sessions", "anomalies"), options))


def contents(found: list[Record]) -> Counter[Content]:
    names = {row.session: row.originator for row in found if isinstance(row, SessionRecord)}
    return Counter(
        (names[row.session], row.sender, row.op, row.subject, row.total_bytes)
        for row in found
        if isinstance(row, FrameRecord)
    )


def test_every_suite_says_what_its_client_says() -> None:
    found = rows(CAPTURES / NAME)
    sessions = {row.originator: row for row in found if isinstance(row, SessionRecord)}
    assert sessions.keys() == TRUTH.keys()
    for originator, row in sessions.items():
        assert row.client_name == TRUTH[originator]["name"]
        assert dict(row.frames_originator or {}) == TRUTH[originator]["originator"]
        assert dict(row.frames_responder or {}) == TRUTH[originator]["responder"]
    assert Counter(row.transport for row in sessions.values()) == {"tls": 11, "websocket+tls": 1}
    assert not [row for row in found if isinstance(row, AnomalyRecord)]


def test_links_between_servers_say_what_the_servers_trace_says() -> None:
    """A route, two gateways and a leafnode, with their secrets in the capture."""
    truth = json.loads((CAPTURES / "truth.json").read_text())["tls-links.pcapng"]["connections"]
    found = rows(CAPTURES / "tls-links.pcapng", Options())
    sessions = {row.originator: row for row in found if isinstance(row, SessionRecord)}
    assert sessions.keys() == truth.keys()
    layers = []
    for originator, row in sessions.items():
        assert row.kind == truth[originator]["kind"]
        sent = Counter(row.frames_originator)
        if row.kind != "client":
            layers.append(f"{row.kind} {row.transport} {row.tls_version} {row.compression or ''}")
            del sent["INFO"]  # which no trace lists
        assert sent == truth[originator]["originator"]
    assert sorted(layers) == [
        "gateway tls 1.2 ",
        "gateway tls 1.2 ",
        "leafnode tls 1.3 ",
        "route tls 1.3 s2",
    ]
    assert not [row for row in found if isinstance(row, AnomalyRecord)]


def test_the_sums_of_every_layer_close() -> None:
    layered = 0
    groups = packet_events(segments([str(CAPTURES / NAME)]), OPTIONS)
    for connection, _ in (pair for group in groups for pair in group.connections):
        if connection.over:
            for way in Direction:
                layers = connection.framing.stack.byte_counts(way)
                before = connection.flow.side(way).stream.offset - layers["tls"].span
                assert 0 <= before < 600
                assert layers["tls"].skipped == layers["tls"].missing == 0
                if "websocket" in layers:
                    assert layers["websocket"].span == layers["tls"].carried
                layered += 1
    assert layered == 24


def test_one_packet_less_costs_little_and_nothing_is_invented(tmp_path: Path) -> None:
    truth = contents(rows(CAPTURES / NAME))
    packets = sample(NAME).records
    places = [place_of(record, sample(NAME).linktype) for record in packets]
    payload = [at for at, place in enumerate(places) if place and place.length]
    lost: list[int] = []
    for at in random.Random(5).sample(payload, 25):
        path = rewritten(tmp_path, NAME, [*packets[:at], *packets[at + 1 :]])
        found = contents(rows(path))
        assert not found - truth, f"without packet {at + 1}"
        lost.append((truth - found).total())
    assert sorted(lost)[len(lost) // 2] <= 3
    assert max(lost) <= 21  # a hello: all of a connection


def test_packets_in_disorder_give_the_same_frames(tmp_path: Path) -> None:
    truth = contents(rows(CAPTURES / NAME))
    for seed in range(3):
        path = rewritten(tmp_path, NAME, shuffled(NAME, random.Random(seed)))
        assert contents(rows(path)) == truth


def test_a_snap_length_costs_the_records_that_it_cuts(tmp_path: Path) -> None:
    truth = contents(rows(CAPTURES / NAME))
    cut = [Packet(r.ts_ns, r.data[:500], r.length) for r in sample(NAME).records]
    found = rows(rewritten(tmp_path, NAME, cut))
    assert not contents(found) - truth
    assert contents(found).total() > truth.total() / 4


@pytest.mark.parametrize("size", [5_000, 30_000])
def test_the_stages_of_spark_give_the_same_rows(size: int) -> None:
    paths = [str(CAPTURES / NAME)]
    assert in_partitions(paths, size, options=OPTIONS) == in_one(paths, options=OPTIONS)


@pytest.mark.parametrize("size", [3_000, 5_000, 30_000, 1 << 20])
@pytest.mark.parametrize("blocks", [40, 0], ids=["middle", "end"])
def test_the_stages_of_spark_give_the_same_rows_wherever_the_secrets_are(
    size: int, blocks: int, tmp_path: Path
) -> None:
    paths = [str(embedded(tmp_path, blocks))]
    found = in_one(paths)
    assert in_partitions(paths, size) == found
    assert len(found) > 187


def test_several_processes_give_the_same_lines() -> None:
    def lines(jobs: int) -> str:
        command = ["frames", "--format=jsonl", f"--jobs={jobs}", f"--keylog={KEYS}"]
        return CliRunner().invoke(cli, [*command, str(CAPTURES / NAME)]).stdout

    assert lines(2) == lines(1)
    assert lines(1).count("\n") == 187


def test_a_key_log_may_grow_while_a_live_capture_is_read(tmp_path: Path) -> None:
    data, log = (CAPTURES / NAME).read_bytes(), tmp_path / "keys.log"
    log.touch()
    command = ["frames", "--format", "jsonl", "--keylog"]
    program = [sys.executable, "-m", "dissect.nats", *command, str(log), "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin and running.stdout and running.stderr
        running.stdin.write(data[:2000])
        running.stdin.flush()
        lines = [
            running.stdout.readline()
        ]  # in clear: it has looked for secrets by now, and found none
        log.write_bytes(Path(KEYS).read_bytes())
        running.stdin.write(data[2000 : len(data) // 2])
        running.stdin.flush()
        while json.loads(lines[-1])["op"] != "PONG":  # encrypted
            lines.append(running.stdout.readline())
        assert running.poll() is None
        running.stdin.write(data[len(data) // 2 :])
        running.stdin.close()
        lines += running.stdout.readlines()
        running.stderr.read()
    whole = CliRunner().invoke(cli, [*command, KEYS, str(CAPTURES / NAME)])
    expected = whole.stdout.replace(f'"{NAME}"', '"-"').encode()
    assert b"".join(lines) == expected


def embedded(folder: Path, blocks: int = 1) -> Path:
    """The sample as a pcapng with its secrets after this many blocks; without, at the end, after more than is
    read at once."""
    packets = [Packet(each.ts_ns, each.data, each.length) for each in sample(NAME).records]
    if not blocks:
        packets += [Packet(packets[-1].ts_ns, bytes(60_000))] * 3
    plain = pcapng_file(packets, [Interface(sample(NAME).linktype, tsresol=9)])
    path = folder / "keys.pcapng"
    path.write_bytes(with_secrets(plain, Path(KEYS).read_bytes(), blocks))
    return path


def test_secrets_in_a_pcapng_are_used_without_asking(tmp_path: Path) -> None:
    path = embedded(tmp_path)
    assert contents(rows(path, Options())) == contents(rows(CAPTURES / NAME))
    done = CliRunner().invoke(cli, ["frames", "--format=jsonl", "--jobs=2", str(path)])
    assert done.stdout.count("\n") == 187  # each process reads them itself


def test_secrets_of_one_capture_decrypt_no_other(tmp_path: Path) -> None:
    """The same connections, in one process: with secrets and without, in one dissection and in two."""
    with_keys, without = embedded(tmp_path), CAPTURES / NAME
    alone = rows(without, Options())
    assert not contents(alone) == contents(rows(with_keys, Options()))
    assert rows(without, Options()) == alone
    separate = Options(separate=True)
    found = list(records([str(with_keys), str(without)], ("flows",), separate))
    assert found == [
        *records([str(with_keys)], ("flows",)),
        *records([str(without)], ("flows",)),
    ]


def test_a_capture_of_several_files_shares_its_secrets(tmp_path: Path) -> None:
    """A file without secrets that goes on with the connections of one that has them."""
    first = embedded(tmp_path)
    packets = sample(NAME).records
    middle = len(packets) // 2
    kept = [Packet(each.ts_ns, each.data, each.length) for each in packets[:middle]]
    plain = pcapng_file(kept, [Interface(sample(NAME).linktype, tsresol=9)])
    first.write_bytes(with_secrets(plain, Path(KEYS).read_bytes()))
    second = rewritten(tmp_path, NAME, packets[middle:])
    found = list(records([str(first), str(second)], ("frames", "sessions"), Options()))
    assert contents(found) == contents(rows(CAPTURES / NAME))


def plaintexts(name: str, keys: str) -> Iterator[tuple[bytes, bytes]]:
    """What both sides of each connection sent in TLS: client, server."""
    for sent in begun(name, b"\x16\x03\x01"):
        assert LAYER.transforms
        made = LAYER.transforms(LayerOptions(KeyLogs((keys,))))
        ends: Counter[Direction] = Counter()
        texts = {way: b"" for way in Direction}
        for number, (way, data) in enumerate(sent):
            found = [(way, made[way].feed(Chunk(number, number, "t", ends[way], data)))]
            found.append((way.other, made[way.other].resume()))
            for sender, items in found:
                texts[sender] += b"".join(each.data for each in items if isinstance(each, Chunk))
            ends[way] += len(data)
        yield texts[Direction.ORIGINATOR], texts[Direction.RESPONDER]


@pytest.mark.parametrize("name, ports, count", [(NAME, SERVER_PORTS, 12), (LINKS, LINK_PORTS, 4)])
def test_tshark_decrypts_the_same_bytes(name: str, ports: tuple[int, ...], count: int) -> None:
    program = shutil.which("tshark")
    if program is None:
        missing("tshark", "apt-get install tshark")
    path = CAPTURES / name
    keys = str(path.with_suffix(".keylog"))
    ours = list(plaintexts(name, keys))
    command = [program, "-n", "-q", "-r", str(path), "-o", f"tls.keylog_file:{keys}"]
    command += [f"-dtcp.port=={port},tls" for port in ports]
    command += [f"-zfollow,tls,raw,{number}" for number in range(len(ours))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs: dict[int, tuple[bytes, bytes]] = {}
    for block in done.stdout.split("Filter: tcp.stream eq ")[1:]:
        number, sender, _, *lines = block.splitlines()  # the lines of the other side are indented
        lines = [line for line in lines if not line.startswith(("=", "Follow"))]
        first = bytes.fromhex("".join(line for line in lines if not line.startswith("\t")))
        second = bytes.fromhex("".join(line for line in lines if line.startswith("\t")))
        is_server = int(sender.rpartition(":")[2]) in ports
        theirs[int(number)] = (second, first) if is_server else (first, second)
    assert len(ours) == count and all(map(all, ours))
    assert theirs == dict(enumerate(ours))


def test_without_its_secrets_a_connection_is_a_session_with_opaque_bytes(tmp_path: Path) -> None:
    keys = tmp_path / "other.keylog"
    keys.write_text("CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48 + "\n")
    found = rows(CAPTURES / NAME, Options(keylog=[str(keys)]))
    sessions = [row for row in found if isinstance(row, SessionRecord)]
    known = [row for row in rows(CAPTURES / NAME, Options()) if isinstance(row, SessionRecord)]
    assert [row.session for row in sessions] == [row.session for row in known]
    assert {row.transport for row in sessions} == {"tls"}
    assert all(row.skipped_bytes for row in sessions)


def test_a_saved_connection_has_no_secret() -> None:
    secrets = [
        bytes.fromhex(line.split()[2])
        for line in Path(KEYS).read_text().splitlines()
        if line[:1] != "#"
    ]
    table = ConnectionTable(OPTIONS)
    states = []
    for segment in segments([str(CAPTURES / NAME)]):
        for _ in table.feed([segment]):
            states.append(pickle.dumps(list(table.alive.values())))
    assert len(states) > 100 and secrets
    assert not any(secret in state for state in states for secret in secrets)


def test_a_key_log_that_is_not_there_is_one_line() -> None:
    done = CliRunner().invoke(cli, ["frames", "--keylog=nowhere.log", str(CAPTURES / NAME)])
    assert done.exit_code == 2
    assert "nowhere.log: the key log cannot be read: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.integers(1, 90),
            st.sampled_from(
                [
                    b"\x16\x03\x01\x00\x30" + b"h" * 48,
                    b"\x17\x03\x03\x00\x20",
                    b"\x14\x03\x03\x00\x01\x01",
                ]
            ),
        ),
        max_size=10,
    )
)
def test_any_bytes_are_accounted_for(parts: list[bytes | int]) -> None:
    assert LAYER.transforms
    made = LAYER.transforms(LayerOptions(KeyLogs((KEYS,))))[Direction.RESPONDER]
    assert isinstance(made, TlsTransform)
    end = 0
    found: list[Item] = []
    for part in parts:
        if isinstance(part, int):
            found += made.feed(Gap(end, end, "t.pcap", end, part))
            end += part
        else:
            found += made.feed(Chunk(end, end, "t.pcap", end, part))
            end += len(part)
        found += made.resume()
    found += made.finish()
    assert made.counts.span == end
    assert not [each for each in found if isinstance(each, Chunk)]
