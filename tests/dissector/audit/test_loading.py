"""The rows that rules need, made by one process or by two."""

from __future__ import annotations

from collections import Counter

import pytest

from dissect.nats.audit.loading import loaded_records
from dissect.nats.capture import CaptureReport
from dissect.nats.options import Options

from tests.support.paths import CAPTURES

pytestmark = pytest.mark.usefixtures("worker_processes")

TABLES = ["frames", "sessions", "servers"]
PATHS = [str(CAPTURES / name) for name in ("auth-2.15.1.pcap", "core-2.15.1.pcap")]


def rows(options: Options, jobs: int, report: CaptureReport) -> Counter[str]:
    return Counter(map(repr, loaded_records(PATHS, TABLES, options, report, jobs)))


@pytest.mark.parametrize("separate", [False, True])
def test_two_processes_make_the_rows_of_one(separate: bool) -> None:
    options = Options(separate=separate)
    alone, together = CaptureReport(), CaptureReport()
    one = rows(options, 1, alone)
    assert {name.partition("(")[0] for name in one} == {
        "FrameRecord",
        "SessionRecord",
        "ServerRecord",
    }
    assert rows(options, 2, together) == one
    assert [file.packets for file in together.files] == [file.packets for file in alone.files]
