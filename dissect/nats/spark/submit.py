"""The only place where a SparkSession is made, for `nats-dissect spark` and whoever has none.

    with session("spark://master:7077", {"spark.executor.memory": "4g"}) as spark:
        ...

A session that the program already has (a notebook, a job of spark-submit) is used as it is, and left running.
Else one is started, whose Java says nothing on the terminal: what it said is put into a file where Spark
failed for a reason that is not known here. All that is wrong comes out as a DissectError.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, TYPE_CHECKING

from ..errors import MissingLibrary, SparkError
from .java import check_java
from .master import check_master, check_workers, is_local, is_loopback
from .spark_errors import fault_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

_SOURCES = Path(__file__).parents[3]
_INSTALLED = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
_COMPLAINT = re.compile(
    r"^(?:Exception in thread .*?: (.+)|((?:Error|Invalid|Unrecognized).+))$", re.MULTILINE
)


@contextmanager
def session(
    master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session of this program, or one for as long as the block. `master` None is what `conf`,
    spark-defaults.conf or spark-submit say, or else this machine. Raises DissectError, also for what the
    block lets through of Spark's errors."""
    check_libraries()
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # SparkSession.getActiveSession knows the sessions of one thread only.
    there = SparkContext._active_spark_context
    if there:
        log = None
        made: AbstractContextManager[SparkContext] = nullcontext(there)
    else:
        log = TemporaryFile()
        made = _context(master, conf or {}, log)
    with log or nullcontext(), _quiet():
        try:
            with _python(conf or {}), made as context:
                yield SparkSession(context)
        except (PySparkException, Py4JError) as error:
            fault = fault_of(error)
            if log and isinstance(fault, SparkError) and not fault.remedy:
                fault = SparkError(fault.reason, f"what Spark said is in {_kept(log)}")
            raise fault from error


def check_libraries() -> None:
    """Raises MissingLibrary where something is not installed that every job needs."""
    for name in ("pyspark", "pyarrow"):
        try:
            __import__(name)
        except ImportError:
            raise MissingLibrary(name, "spark") from None


def _said(log: IO[bytes]) -> bytes:
    """What Java wrote to the file. Its place, which is Java's as well, stays."""
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0)


def _kept(log: IO[bytes]) -> str:
    """Where a user can read it."""
    with NamedTemporaryFile(prefix="nats-dissect-spark-", suffix=".log", delete=False) as file:
        file.write(_said(log))
    return file.name


@contextmanager
def _quiet() -> Iterator[None]:
    """py4j says with a traceback that it was interrupted: that is what Ctrl-C is for."""

    def unasked(record: logging.LogRecord) -> bool:
        return record.msg != "KeyboardInterrupt while sending command."

    root = logging.getLogger()
    root.addFilter(unasked)
    try:
        yield
    finally:
        root.removeFilter(unasked)


@contextmanager
def _python(conf: Mapping[str, str]) -> Iterator[None]:
    """Workers run the Python that the user names, or this one: not what PATH has by that name."""
    name = "PYSPARK_PYTHON"
    before = os.environ.get(name)
    os.environ[name] = conf.get("spark.pyspark.python") or before or sys.executable
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


@contextmanager
def _context(master: str | None, conf: Mapping[str, str], log: IO[bytes]) -> Iterator[SparkContext]:
    """A context of our own, ready to work."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    first = {"spark.master": master, **conf} if master else conf
    gateway = SparkContext._gateway or _gateway(_conf(first), log)
    known = gateway.jvm.System.getProperty  # what files of settings say
    where = first.get("spark.master") or known("spark.master")
    check_master(gateway, where)
    interrupting = signal.getsignal(signal.SIGINT)
    own = {name: value for name, value in _defaults(where).items() if not known(name)}
    try:
        context = SparkContext(conf=_conf({**own, "spark.master": where, **conf}), gateway=gateway)
    except Py4JJavaError as error:
        raise SparkError(
            f"Spark does not start: {error.java_exception.getMessage()}", "see --master and --conf"
        ) from error
    with suppress(ValueError):  # in another thread than the main one nothing was changed
        # pyspark's own would first ask Java to stop, over a connection that is in the middle of a call.
        signal.signal(signal.SIGINT, interrupting)
    try:
        if not is_local(where):
            check_workers(context)
        yield context
    finally:
        with warnings.catch_warnings():
            # After Ctrl-C the connection may be of no use any more. Java ends with this program.
            warnings.filterwarnings(
                "ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning
            )
            context.stop()


def _conf(settings: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def _defaults(master: str) -> dict[str, str]:
    """Settings for who has none of his own."""
    found = {"spark.app.name": "nats-dissect"}
    if is_loopback(master):
        found |= {f"spark.driver.{name}": "127.0.0.1" for name in ("host", "bindAddress")}
    if is_local(master):
        found["spark.ui.enabled"] = "false"  # it would listen on every interface
        # What is shuffled are names and states of flows: Spark's 200 tasks would mostly start and end.
        found["spark.sql.shuffle.partitions"] = str(4 * (os.cpu_count() or 1))
        if _SOURCES.is_dir() and _SOURCES not in _INSTALLED:
            found["spark.executorEnv.PYTHONPATH"] = str(_SOURCES)
    return found


def _gateway(conf: SparkConf, log: IO[bytes]) -> JavaGateway:
    """Starts Java by way of spark-submit; under spark-submit, the Java that started this program."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return launch_gateway()  # type: ignore[no-untyped-call]  # pyspark gives it no types
    check_java()
    try:
        return launch_gateway(  # type: ignore[no-untyped-call]  # pyspark gives it no types
            conf, {"stdout": log, "stderr": log}
        )
    except PySparkRuntimeError as error:
        why = _COMPLAINT.search(_said(log).decode(errors="replace"))
        raise SparkError(
            f"Spark does not start: {(why[1] or why[2]) if why else error}",
            "see --master and --conf",
        ) from error
