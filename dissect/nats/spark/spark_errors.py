"""Translates errors of Spark into one line that a user can act on.

The text of a Spark exception is pages of Java and Python. This module finds in it the faults that a user can
fix: workers that lack a library or run another Python, or a file that only one machine has.
"""

from __future__ import annotations

import re

from ..errors import DissectError, SparkError

_SHIP = (
    "install natsync[spark] there, or ship it: python -m dissect.nats.spark.package natsync.zip, and "
    "spark-submit --py-files natsync.zip"
)
_OURS = {"dissect", "natsync", "dpkt"}
# The exception of a worker, in the last line of its traceback.
_RAISED = re.compile(r"(?:^|\s)dissect\.nats\.errors\.\w+: (?P<text>.+)$", re.MULTILINE)
_LACKING = re.compile(r"ModuleNotFoundError: No module named '(?P<name>\w+)")
_PYTHONS = re.compile(
    r"PYTHON_VERSION_MISMATCH\W.*?version: (?P<worker>[\d.]+) than that in driver: (?P<driver>[\d.]+),"
)
_NO_PYTHON = re.compile(r'Cannot run program "(?P<path>[^"]+)"')
_CAUSE = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (?P<text>.+)$", re.MULTILINE)


def fault_of(error: Exception) -> DissectError:
    """The error as a DissectError."""
    if isinstance(error, DissectError):
        return error
    text = str(error)
    if found := _RAISED.search(text):
        return SparkError(found["text"])
    if found := _LACKING.search(text):
        return lacking(found["name"])
    if found := _PYTHONS.search(text):
        return SparkError(
            f"the workers run Python {found['worker']}, this is {found['driver']}",
            "name the Python of the workers with --conf spark.pyspark.python=PATH, of the same version",
        )
    if found := _NO_PYTHON.search(text):
        return SparkError(
            f"a worker has no {found['path']}",
            "name the Python of the workers with --conf spark.pyspark.python=PATH",
        )
    return SparkError(f"Spark failed: {_reason(text) or type(error).__name__}")


def lacking(module: str) -> SparkError:
    """The error if workers cannot import a module."""
    if module in _OURS:
        return SparkError(f"the workers have no module {module}", _SHIP)
    return SparkError(
        f"the workers have no module {module}", f"install {module} in the Python of every worker"
    )


def _reason(text: str) -> str:
    """The deepest cause, or else the first line."""
    causes = [found["text"].strip() for found in _CAUSE.finditer(text)]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return causes[-1] if causes else first
