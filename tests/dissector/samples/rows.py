"""What properties over all sample captures need: the samples, and their rows made comparable."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from dissect.nats import AnomalyRecord, FrameRecord, SessionRecord
from dissect.nats.pipeline import records
from dissect.nats.schema.records import Record as Row

from tests.support.damage import Pcap, Record, pcap_bytes, read_pcap
from tests.support.paths import CAPTURES

PCAPS = sorted(path.name for path in CAPTURES.glob("*.pcap"))

Values = tuple[object, ...]


@cache
def sample(name: str) -> Pcap:
    return read_pcap((CAPTURES / name).read_bytes())


def rows(paths: Iterable[Path], tables: Collection[str] = ("frames",)) -> list[Row]:
    return list(records([str(path) for path in paths], tables))


def values_of(found: Iterable[Row], table: type[Row], but_for: Collection[str]) -> list[Values]:
    """The rows of one table as values without some columns."""
    names = [item.name for item in dataclasses.fields(table) if item.name not in but_for]
    return [tuple(getattr(row, name) for name in names) for row in found if isinstance(row, table)]


@cache
def known(name: str) -> tuple[Row, ...]:
    """Frames, sessions and anomalies of the sample as it is."""
    return tuple(rows([CAPTURES / name], ("frames", "sessions", "anomalies")))


def rewritten(folder: Path, name: str, changed: Iterable[Record]) -> Path:
    """The sample with other packets, under its own name."""
    path = folder / name
    path.write_bytes(pcap_bytes(sample(name).with_records(list(changed))))
    return path


PLACES = {"packet", "capture"}
TIMES = {"ts_ns", "number"}


def same_frames(name: str, paths: Iterable[Path], but_for: Collection[str] = PLACES) -> None:
    """The frames are those of the sample, value for value."""
    found, expected = (values_of(each, FrameRecord, but_for) for each in (rows(paths), known(name)))
    if "ts_ns" in but_for:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert found == expected


def same_sessions(name: str, paths: Iterable[Path], but_for: Collection[str]) -> None:
    """The sessions are those of the sample."""
    found = rows(paths, ["sessions"])
    assert values_of(found, SessionRecord, but_for) == values_of(
        known(name), SessionRecord, but_for
    )


def anomalies(found: Iterable[Row]) -> list[AnomalyRecord]:
    return [row for row in found if isinstance(row, AnomalyRecord)]


def frames(found: Iterable[Row]) -> list[FrameRecord]:
    return [row for row in found if isinstance(row, FrameRecord)]
