"""Spark's classes as Java has them in memory, in a file that each Java maps instead of reading the classes.

Java needs a third less work for a small job this way. The file (application class data sharing, JEP 350) is
made once by `python -m tests.support.spark`, and kept outside the tree in `$XDG_CACHE_HOME/natsync-tests`.
Without it everything works, and takes longer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.paths import CAPTURES
from tests.support.streaming_programs import built_programs

# Java says on its output where a file does not fit.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# Java refuses the file if a jar has another time than before, which it has wherever it is installed again.
_JARS_TIME = 1_577_836_800


def java_option() -> str:
    """The option for Java; an empty text where there is no file."""
    path = _archive()
    return f"-XX:SharedArchiveFile={path} {_SILENT}" if path and path.exists() else ""


def make_archive(java_options: str) -> None:
    """Makes the file, unless it is there: runs a job, and keeps what Java then has. Takes half a minute."""
    path, jars = _archive(), _jars()
    if path is None or jars is None:
        return
    for jar in jars.glob("*.jar"):
        os.utime(jar, (_JARS_TIME, _JARS_TIME))
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    being_made = path.with_name(f"{path.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{java_options} -XX:ArchiveClassesAtExit={being_made}"
    try:
        with TemporaryDirectory() as folder:
            _run_job(folder)
        if being_made.exists():
            being_made.rename(path)
    finally:
        being_made.unlink(missing_ok=True)


def _run_job(folder: str) -> None:
    """What most tests do, until Java has ended."""
    from pyspark import SparkContext

    from dissect.nats.spark.api import dissect, read
    from dissect.nats.spark.options.job_options import JobOptions
    from dissect.nats.spark.submit import session

    from tests.support.spark import settings

    out = f"{folder}/tables"
    paths = [str(CAPTURES / name) for name in ("core-2.15.1.pcap", "lossy.pcap")]
    with session("local[2]", settings(folder)) as spark:
        dissect(spark, paths, ["sessions", "servers"], JobOptions(chunk_bytes=1 << 14), out)
        read(spark, paths, "frames", chunk_size=1 << 13).createOrReplaceTempView("frames")
        spark.read.parquet(f"{out}/sessions").createOrReplaceTempView("sessions")
        counted = "SELECT op, count(*) AS n FROM frames JOIN sessions USING (session) GROUP BY op"
        spark.sql(f"{counted} HAVING op LIKE 'P%' ORDER BY n").collect()
    java = SparkContext._gateway.proc  # type: ignore[union-attr]  # the session has just used it
    java.stdin.close()
    java.wait(120)


def _jars() -> Path | None:
    spec = find_spec("pyspark")
    return Path(spec.origin).parent / "jars" if spec and spec.origin else None


def _archive() -> Path | None:
    """The file for this Java, this Spark and its place; None without them."""
    home, jars = os.environ.get("JAVA_HOME"), _jars()
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if jars is None or java is None or not os.path.exists(java):
        return None
    program = os.path.realpath(java)
    told = f"{program} {os.stat(program).st_mtime_ns} {version('pyspark')} {jars}"
    return built_programs() / f"spark-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"
