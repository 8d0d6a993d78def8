"""One Spark session for all tests that need one, and the Java that it needs.

python -m tests.support.spark       # says in one line what to install, if there is no Java for it
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import DissectError
from dissect.nats.spark.launch.java import check_java

from tests.support.requirements import in_ci, missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Options of Java for programs that end soon: only the quick compiler, and only for what is called often; room
# for its code, which otherwise is searched for what may go; Spark's own classes are not verified.
JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:CompileThresholdScaling=4",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-XX:+UseSerialGC",
)

# Settings that make little data fast: two partitions, and no compiled queries.
# The tests of Spark took half of their time with Spark's own settings.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": " ".join(JAVA),
}


def lack() -> tuple[str, str] | None:
    """What is missing for Spark, and how to get it."""
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            return name, "pip install 'natsync[spark]'"
    try:
        check_java()
    except DissectError as error:
        return "Java for Spark", str(error)
    return None


def home(folder: Path) -> Path:
    """A home of Spark without the zip files of pyspark, for `SPARK_HOME`. With them, each of the many
    programs in which Spark runs Python compiles pyspark again, because a zip file keeps nothing compiled;
    without them, it imports the installed pyspark, which is the same."""
    import pyspark

    if there := os.environ.get("SPARK_HOME"):
        return Path(there)
    for name in ("bin", "jars"):
        (folder / name).symlink_to(Path(pyspark.__file__).with_name(name))
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two local workers. As many tasks share small pieces of captures as there are workers,
    since a task takes longer than what tests have it do; a test may set what programs have."""
    if lacking := lack():
        missing(*lacking)
    from dissect.nats.spark.submit import session
    from dissect.nats.spark.tasks import task_runner

    folder = tmp_path_factory.mktemp("spark")
    conf = {
        **SMALL,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "1g",
    }
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        with pytest.MonkeyPatch.context() as starting:
            starting.setenv("SPARK_HOME", str(home(tmp_path_factory.mktemp("home"))))
            # Where Java begins its workers look for modules first; `PYTHONPATH` is to say where they are.
            starting.chdir(folder)
            made = stack.enter_context(session("local[2]", conf))
        patch.setattr(task_runner, "_TASKS_A_CORE", 1)
        # Makes the connections that stay: no test is to be told that it left them behind.
        made.sparkContext.parallelize([1], 1).map(str).collect()
        yield made


def drop_views(spark: SparkSession) -> list[str]:
    """Drops the temporary views of a session, and returns their names."""
    there = [row["viewName"] for row in spark.sql("SHOW VIEWS").collect() if row["isTemporary"]]
    for name in there:
        spark.catalog.dropTempView(name)
    return there


@pytest.fixture(autouse=True)
def _no_view_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """All tests share one session: a view that one of them leaves behind is in the way of another."""
    yield
    if "spark" in request.fixturenames:
        left = drop_views(request.getfixturevalue("spark"))
        assert left == []


def main() -> int:
    """The exit status: 1 where Spark's tests cannot run and must."""
    lacking = lack()
    if lacking:
        print(
            f"the tests of Spark {'fail' if in_ci() else 'are skipped'}: {lacking[1]}",
            file=sys.stderr,
        )
    return 1 if lacking and in_ci() else 0


if __name__ == "__main__":
    sys.exit(main())
