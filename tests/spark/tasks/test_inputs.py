"""What tasks work on: a timeline has its own time range and its own TLS secrets."""

from __future__ import annotations

from pathlib import Path

from dissect.nats.capture.time_range import TimeRange
from dissect.nats.options import Options
from dissect.nats.partition.partitions import partitions_of, ranges_with_secrets
from dissect.nats.schema.records import SessionRecord
from dissect.nats.spark.api import _divided
from dissect.nats.spark.tasks.inputs import JobSpec, Timeline, WholeTimelines
from dissect.nats.spark.tasks.stages import DecodeCounts, decode

from tests.support.damage import read_pcap
from tests.support.partitioned import in_one, indexed, planned
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Interface, Record, pcapng_file, with_secrets

SAMPLE = str(CAPTURES / "core-2.15.1.pcap")
TLS = CAPTURES / "tls-keys-2.15.1.pcap"
SPEC = JobSpec(frozenset({"sessions"}), Options())


def test_packets_of_all_partitions_are_read_in_the_time_range() -> None:
    partitions = planned([SAMPLE], 8192)
    times = [place[0] for run in SPEC.packets(*partitions) for place in run.places]
    assert times == sorted(record.ts_ns for record in read_pcap(Path(SAMPLE).read_bytes()).records)
    window = TimeRange(times[10], times[-10])
    inside = SPEC.within(Timeline(partitions, window)).packets(*partitions)
    assert [place[0] for run in inside for place in run.places] == times[10:-10]


def test_secrets_of_one_timeline_decrypt_no_other(tmp_path: Path) -> None:
    sample = read_pcap(TLS.read_bytes())
    packets = [Record(each.ts_ns, each.data, each.length) for each in sample.records]
    with_keys = tmp_path / "with-keys.pcapng"
    plain = pcapng_file(packets, [Interface(sample.linktype, tsresol=9)])
    with_keys.write_bytes(with_secrets(plain, TLS.with_suffix(".keylog").read_bytes()))
    timelines = []
    for path in (str(with_keys), str(TLS)):
        walked = indexed([path], 1 << 20)
        timelines.append(Timeline(partitions_of(walked), secrets=ranges_with_secrets(walked)))
    for number, decrypted in ((0, True), (1, False), (0, True)):
        rows = decode(SPEC, WholeTimelines(timelines), number, [], [], DecodeCounts())
        found = [row for some in rows for row in some.records if isinstance(row, SessionRecord)]
        assert found and all(bool(row.frames_originator) == decrypted for row in found)


def test_a_whole_timeline_has_the_rows_of_layers_across_sessions() -> None:
    tables = ("sessions", "servers", "paths")
    inputs = WholeTimelines([Timeline(planned([SAMPLE], 8192))])
    counts = DecodeCounts()
    spec = JobSpec(frozenset(tables), Options())
    rows = [row for some in decode(spec, inputs, 0, [], [], counts) for row in some.records]
    assert sorted(map(repr, rows)) == sorted(map(repr, in_one([SAMPLE], tables)))


def test_a_timeline_above_the_share_of_a_core_is_cut() -> None:
    cut = Timeline(planned([SAMPLE], 8192))
    whole = Timeline(planned([SAMPLE], 1 << 20))
    assert _divided([cut], 2) == ([], [cut])
    assert _divided([cut, cut], 2) == ([cut, cut], [])
    assert _divided([cut, whole, cut], 4) == ([whole], [cut, cut])
    assert _divided([cut, cut], None) == ([], [cut, cut])
