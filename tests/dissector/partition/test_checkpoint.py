"""A dissection that is stopped and gone on with, anywhere, gives the rows of one that is not."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats import Options
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.partition.checkpoint import Checkpoints
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, Record
from dissect.nats.sessions import EntryQuota
from dissect.nats.tables import FROM_ENGINE
from dissect.nats.tcp.flow import undirected
from dissect.nats.types import Segment, Tick

from tests.dissector.samples.rows import PCAPS
from tests.support.graphs import difference
from tests.support.paths import CAPTURES
from tests.support.records import place_of
from tests.support.segments import segments

_TABLES = list(FROM_ENGINE)
_OPTIONS = Options()


def _ordered(rows: Iterable[Record]) -> list[Record]:
    return sorted(rows, key=lambda row: (row.__class__.__name__, place_of(row), repr(row)))


def _rows(released: Iterable[ReleasedRows]) -> Iterator[Record]:
    for some in released:
        yield from some.records


@cache
def _whole(name: str) -> list[Record]:
    return _ordered(records([str(CAPTURES / name)], _TABLES, _OPTIONS))


def _in_parts(name: str, sizes: Sequence[int]) -> list[Record]:
    """The rows where a new dissection takes over after as many segments, again and again."""
    return _parts_of(segments([str(CAPTURES / name)]), sizes)


def _parts_of(every: Iterable[Segment | Tick], sizes: Sequence[int]) -> list[Record]:
    source = iter(every)
    found: list[Record] = []
    dissection = Checkpoints(_TABLES, _OPTIONS)
    turn = 0
    while part := list(islice(source, sizes[turn % len(sizes)])):
        found += _rows(dissection.feed(part))
        states = dissection.save()
        dissection = Checkpoints(_TABLES, _OPTIONS)
        dissection.load(states.values())
        turn += 1
    return _ordered([*found, *_rows(dissection.finish())])


@pytest.mark.parametrize("name", PCAPS)
def test_rows_of_parts_are_the_rows_of_the_whole_capture(name: str) -> None:
    assert _in_parts(name, [29, 1, 83]) == _whole(name)


@pytest.mark.parametrize("name", ["lossy.pcap", "midstream.pcap", "snap96.pcap"])
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_rows_are_the_same_wherever_a_dissection_is_stopped_and_restored(
    name: str, sizes: list[int]
) -> None:
    assert _in_parts(name, sizes) == _whole(name)


def test_a_layer_whose_beginning_one_side_lacks_goes_on_after_a_stop() -> None:
    every: list[Segment | Tick] = []
    sent: Counter[bytes] = Counter()
    for segment in segments([str(CAPTURES / "tls-2.15.1.pcap")]):
        if isinstance(segment, Segment) and segment.payload:
            sent[segment.key] += 1
            if sent[segment.key] == 2 and not segment.payload.startswith(b"\x16\x03\x01"):
                continue  # the server's first records
        every.append(segment)
    whole = _parts_of(every, [len(every)])
    assert any(isinstance(row, AnomalyRecord) and row.anomaly == "lost" for row in whole)
    for size in range(1, 12):
        assert _parts_of(every, [size]) == whole


def test_flows_of_one_checkpoint_may_continue_in_different_dissections() -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    every = list(segments([path]))
    first = Checkpoints(_TABLES, _OPTIONS)
    found = list(_rows(first.feed(every[:300])))
    states = first.save()
    assert len(states) > 2
    chosen = set(sorted(states)[::2])
    for keys in (chosen, states.keys() - chosen):
        dissection = Checkpoints(_TABLES, _OPTIONS)
        dissection.load(states[key] for key in keys)
        # Flows that begin later belong to the second one.
        rest = [s for s in every[300:] if (_ends(s) in chosen) == (keys is chosen)]
        found += _rows(dissection.feed(rest))
        found += _rows(dissection.finish())
    assert _ordered(found) == _whole("core-2.15.1.pcap")


def _ends(segment: Segment) -> bytes:
    return undirected(segment.key)


def test_saving_states_does_not_change_the_dissection() -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    dissection = Checkpoints(_TABLES, _OPTIONS)
    found = []
    for segment in segments([path]):
        found += _rows(dissection.feed([segment]))
        dissection.save()
    assert _ordered([*found, *_rows(dissection.finish())]) == _whole("core-2.15.1.pcap")


@pytest.mark.parametrize("tables", [_TABLES, ["sessions"], ["frames"], ["requests", "anomalies"]])
@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "cluster-2.15.1.pcap", "lossy.pcap"])
def test_a_quiet_dissection_has_the_same_states_and_makes_no_rows(
    name: str, tables: list[str]
) -> None:
    every = list(segments([str(CAPTURES / name)]))
    loud = Checkpoints(tables, _OPTIONS)
    quiet = Checkpoints(tables, _OPTIONS, quiet=True)
    for start in range(0, len(every), 40):
        part = every[start : start + 40]
        list(loud.feed(part))
        assert not list(quiet.feed(part))
        states = quiet.save()
        for flow, state in loud.save().items():
            assert not difference(loud._unpacked(state), loud._unpacked(states[flow]))
    assert not list(quiet.finish())
    assert quiet._table_builder.quota.left == EntryQuota().left


def test_flows_that_are_dropped_give_back_what_they_held() -> None:
    every = list(segments([str(CAPTURES / "midstream.pcap")]))
    dissection = Checkpoints(_TABLES, _OPTIONS)
    used = 0
    for at, segment in enumerate(every):
        list(dissection.feed([segment]))
        used = max(used, dissection._connections.quota.used_bytes)
        if at % 9 == 0:
            states = dissection.save()
            dissection.drop(states)
            assert not dissection.save()
            assert dissection._table_builder.quota.left == EntryQuota().left
            assert not dissection._connections.quota.used_bytes
            dissection.load(states.values())
    assert used


def test_saved_states_do_not_contain_delivered_payloads() -> None:
    path = str(CAPTURES / "bulk-2.15.1.pcap")
    dissection = Checkpoints(["frames"], _OPTIONS)
    seen = 0
    for segment in segments([path]):
        seen += len(segment.payload)
        list(dissection.feed([segment]))
    kept = sum(len(zlib.decompress(state)) for state in dissection.save().values())
    assert seen > 150_000
    assert kept < 60_000
