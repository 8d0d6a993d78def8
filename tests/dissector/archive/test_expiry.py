"""Old files of an archive are removed, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from dissect.nats.archive.expiry import expire

DAY_NS = 86_400 * 10**9
NOW_NS = 20_000 * DAY_NS + 5  # 2024-10-04
LAST = "2024-10-01"


def put(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def test_days_that_are_over_for_long_are_removed(tmp_path: Path) -> None:
    kept = [
        put(tmp_path, f"frames/date={LAST}/00-000000001.parquet"),
        put(tmp_path, "frames/date=2030-01-01/00-000000001.parquet"),
        put(tmp_path, "frames/date=2024-09-29/part-00000-000.parquet"),  # of a Spark job
        put(tmp_path, "frames/date=today/00-000000001.parquet"),
        put(tmp_path, "letters/date=2024-09-30/00-000000001.parquet"),
        put(tmp_path, "_nats-dissect.archive/record.json"),
    ]
    put(tmp_path, "frames/date=2024-09-30/23-000000001.parquet")
    put(tmp_path, "frames/date=2024-09-29/00-000000001-12.parquet")
    put(tmp_path, "sessions/date=0001-01-01/00-1234567890.parquet")
    assert expire(str(tmp_path), 3, NOW_NS) == 3
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not (tmp_path / "frames" / "date=2024-09-30").exists()
    assert expire(str(tmp_path), 3, NOW_NS) == 0
    assert expire(str(tmp_path), 36_500, NOW_NS) == 0


def test_rows_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    folder = "subscriptions/date=__HIVE_DEFAULT_PARTITION__"
    old, new = (put(tmp_path, f"{folder}/00-00000000{number}.parquet") for number in (1, 2))
    for path, days in ((old, 4), (new, 2)):
        os.utime(path, ns=(NOW_NS - days * DAY_NS,) * 2)
    assert expire(str(tmp_path), 3, NOW_NS) == 1
    assert [path.name for path in new.parent.iterdir()] == [new.name]
