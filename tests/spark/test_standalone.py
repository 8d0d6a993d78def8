"""A standalone cluster whose workers lack the package, which is shipped: the tables are the same, even
if a worker is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dissect.nats.pipeline import records

from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing
from tests.support.spark import lack

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

JOB = "from dissect.nats.cli import main; main()"


def test_tables_by_two_workers(tmp_path: Path) -> None:
    if lacking := lack():
        missing(*lacking)
    from pyarrow import parquet

    from tests.support.standalone import HOME, cluster

    paths = [str(CAPTURES / name) for name in ("core-2.15.1.pcap", "bulk-2.15.1.pcap")]
    expected = sorted((row.session, row.number) for row in records(paths, ["frames"]))
    for folder in ("cluster", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "job.py").write_text(JOB)
    module = [sys.executable, "-m"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    subprocess.run(
        [*module, "dissect.nats.spark.package", "natsync.zip"], cwd=tmp_path, env=env, check=True
    )
    with cluster(tmp_path / "cluster") as started:
        shipped = ["--master", started.url, "--conf", "spark.executor.memory=512m"]
        submit = [
            str(HOME / "bin" / "spark-submit"),
            *shipped,
            "--py-files",
            "natsync.zip",
            "job.py",
        ]
        programs = {
            "command": ([*module, "dissect.nats", "spark", *shipped], env),
            # The driver, too, has the package from the zip alone.
            "submit": ([*submit, "spark"], {**env, "PYTHONPATH": ""}),
        }
        for name, (program, environment) in programs.items():
            done = subprocess.run(
                [*program, *paths, "--out", f"elsewhere/{name}", "--chunk-size", "64k"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            # spark-submit has what Python says on stderr on its own standard output.
            assert f"{len(expected)} frames, " in done.stdout + done.stderr
            rows = parquet.read_table(tmp_path / "elsewhere" / name / "frames").to_pylist()
            assert sorted((row["session"], row["number"]) for row in rows) == expected


def test_tables_though_a_worker_is_killed(tmp_path: Path) -> None:
    if lacking := lack():
        missing(*lacking)
    sizes = ["--files", "5", "--megabytes", "2", "--skew", "3", "--chunk", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.on_cluster", str(tmp_path), *sizes, "--jobs", "killed"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]  # else the rows are others
    assert json.loads(done.stdout)["lost_a_worker"]
