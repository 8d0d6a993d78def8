"""Files that come one after the other give the rows of one pass, wherever another process takes over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.capture import CaptureReport
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.errors import CaptureError
from dissect.nats.partition.complete_files import NewFiles, TakenFile
from dissect.nats.partition.continued import ContinuedDissection
from dissect.nats.pipeline import released

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES

TABLES = ("sessions", "requests", "flows", "deliveries")


def dissection(losses: list[str] | None = None) -> ContinuedDissection:
    on_loss = None if losses is None else losses.append
    return ContinuedDissection(TABLES, Options(), lambda text: None, on_loss)


def rows_of(source: Iterable[ReleasedRows]) -> list[str]:
    return [repr(row) for rows in source for row in rows.records]


def parts(folder: Path, name: str, count: int) -> list[TakenFile]:
    whole = read_pcap((CAPTURES / f"{name}.pcap").read_bytes())
    size = -(-len(whole.records) // count)
    found = []
    for number in range(count):
        some = whole.with_records(whole.records[number * size : (number + 1) * size])
        path = folder / f"part{number}.pcap"
        path.write_bytes(pcap_bytes(some))
        found.append(TakenFile(str(path), path.stat().st_size, number))
    return found


def whole(files: Sequence[TakenFile]) -> list[str]:
    return sorted(rows_of(released([one.path for one in files], TABLES)))


@pytest.mark.parametrize("name", ["core-2.15.1", "orders-2.15.1"])
def test_the_rows_are_those_of_one_pass(name: str, tmp_path: Path) -> None:
    files = parts(tmp_path, name, 4)
    found: list[str] = []
    current = dissection()
    for one in files:
        found += rows_of(current.files(NewFiles((one,)), CaptureReport()))
        state = current.save()
        current = dissection()
        current.load(state)
    assert sorted([*found, *rows_of(current.finish())]) == whole(files)


def test_a_file_that_grew_is_read_from_where_it_was_left(tmp_path: Path) -> None:
    first, second = parts(tmp_path, "core-2.15.1", 2)
    expected = whole([first, second])
    current, report = dissection(), CaptureReport()
    found = rows_of(current.files(NewFiles((first,)), report))
    content = Path(second.path).read_bytes()
    with open(first.path, "ab") as file:
        file.write(content[24:])
    longer = replace(first, size=Path(first.path).stat().st_size, packets=report.files[0].packets)
    found += rows_of(current.files(NewFiles((longer,)), CaptureReport()))
    found += rows_of(current.finish())
    assert sorted(found) == [row.replace("part1.pcap", "part0.pcap") for row in expected]


def test_a_file_that_is_gone_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    files = parts(tmp_path, "core-2.15.1", 3)
    Path(files[1].path).unlink()
    losses: list[str] = []
    report = CaptureReport()
    rows_of(dissection(losses).files(NewFiles(tuple(files)), report))
    assert [file.packets > 0 for file in report.files] == [True, False, True]
    assert losses == [f"{files[1].path}: no such file"]
    with pytest.raises(CaptureError, match="no such file"):
        rows_of(dissection().files(NewFiles(tuple(files)), CaptureReport()))
