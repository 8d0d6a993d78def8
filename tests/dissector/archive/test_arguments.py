"""The options of an archive."""

from __future__ import annotations

from dissect.nats.archive.arguments import ARCHIVED, ArchiveOptions
from dissect.nats.tables import TABLES


def test_an_archive_has_every_table_that_needs_no_end() -> None:
    across = {name for name, table in TABLES.items() if table.layer and table.layer.across}
    assert {*ARCHIVED} == TABLES.keys() - across
    assert ArchiveOptions().tables == ARCHIVED


def test_with_finish_no_file_waits() -> None:
    assert ArchiveOptions(settle=1.5).settle_ns == 1_500_000_000
    assert ArchiveOptions(settle=1.5, finish=True).settle_ns == 0
