"""Chooses the Python of Spark's workers, which must have this package.

PySpark starts `python3` from PATH by default. If a notebook's kernel runs in a virtual environment that was
not activated, `python3` is another one, and its workers die with "No module named 'dissect'".
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from ...errors import SparkError
from .master import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 60
_REMEDY = f"set PYSPARK_PYTHON={sys.executable} before the session is made, or leave it unset"


def set_worker_python(spark: SparkSession) -> None:
    """Makes workers on this machine run this Python, unless the user has named another one
    (PYSPARK_PYTHON, `spark.pyspark.python`). Raises SparkError if that one lacks this package. The
    Python of a cluster's workers is checked by the first task."""
    context = spark.sparkContext
    if not is_local(context.master or ""):
        return
    named = context.getConf().get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if named is None:
        context.pythonExec = sys.executable
    elif named != sys.executable:
        check_python(named)


@cache
def check_python(path: str) -> None:
    """Raises SparkError if a Python of this machine cannot import this package."""
    try:
        done = subprocess.run(
            [path, "-c", "import dissect.nats, dpkt, pyarrow"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkError(
            f"the workers' Python {path} cannot be run ({type(error).__name__})", _REMEDY
        )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SparkError(f"the workers' Python {path} lacks this package: {why}", _REMEDY)
