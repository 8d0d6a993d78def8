"""What tasks of the data source say to the person at the driver: warnings on its stderr, and short errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from ...errors import DissectError
from ...output.sink import say

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

Warnings = tuple[str, ...]


class WarningParam(AccumulatorParam[Warnings]):
    """Collects texts; the driver says each once."""

    def zero(self, value: Warnings) -> Warnings:
        """No text."""
        return ()

    def addInPlace(self, value1: Warnings, value2: Warnings) -> Warnings:
        """Both texts."""
        new = [text for text in value2 if text not in value1]
        if TaskContext.get() is None:  # in the driver, to which Spark brings what tasks have added
            for text in new:
                say(text)
        return (*value1, *new)


_of_context: WeakKeyDictionary[SparkContext, Accumulator[Warnings]] = WeakKeyDictionary()


def warnings_of(context: SparkContext) -> Accumulator[Warnings]:
    """The accumulator of a Spark context, to which tasks add warnings."""
    if context not in _of_context:
        _of_context[context] = context.accumulator((), WarningParam())
    return _of_context[context]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Lets Spark show errors of this package without the traceback of a worker, which ends with them."""
    try:
        yield
    except DissectError:
        program = getattr(sys.modules["__main__"], "__spec__", None)
        if program and program.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
