"""What Spark says, shortened as it stands in its logs, becomes one line with a remedy."""

from __future__ import annotations

import pytest

from dissect.nats.errors import CaptureError
from dissect.nats.spark.spark_errors import fault_of, lacking

JAVA = """An error occurred while calling o12.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
"""


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "  File 'serializers.py', line 1\nModuleNotFoundError: No module named 'dissect'\n",
            "the workers have no module dissect; install natsync[spark] there, or ship it: python -m "
            "dissect.nats.spark.package natsync.zip, and spark-submit --py-files natsync.zip",
        ),
        (
            "ModuleNotFoundError: No module named 'pyarrow.lib'",
            "the workers have no module pyarrow; install pyarrow in the Python of every worker",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: "
            "3.11, PySpark cannot run",
            "the workers run Python 3.10, this is 3.11; name the Python of the workers with --conf "
            "spark.pyspark.python=PATH, of the same version",
        ),
        (
            'Caused by: java.io.IOException: Cannot run program "/opt/python": error=2, No such file',
            "a worker has no /opt/python; name the Python of the workers with --conf "
            "spark.pyspark.python=PATH",
        ),
        (
            "Traceback\n  File x\ndissect.nats.errors.CaptureError: a.pcap: no such file\n",
            "a.pcap: no such file",
        ),
        (
            "Caused by: java.io.IOException: No space left on device\n\tat x.y(Z.java)\n",
            "Spark failed: No space left on device",
        ),
    ],
)
def test_what_is_known(text: str, expected: str) -> None:
    assert str(fault_of(RuntimeError(JAVA + text))) == expected


def test_what_is_not_known() -> None:
    assert str(fault_of(RuntimeError("it\nbroke"))) == "Spark failed: it"
    assert str(fault_of(RuntimeError(""))) == "Spark failed: RuntimeError"


def test_our_own_stay() -> None:
    error = CaptureError("a", "b")
    assert fault_of(error) is error
    assert lacking("zstandard").remedy == "install zstandard in the Python of every worker"
