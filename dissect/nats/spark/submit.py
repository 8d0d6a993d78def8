"""Provides the SparkSession of `nats-dissect spark` and of programs that have none.

    with session("spark://master:7077", {"spark.executor.memory": "4g"}) as spark:
        ...

A session that the program already has (in a notebook, or under spark-submit) is used unchanged, and stays
running. Otherwise one is started. Its Java prints nothing on the terminal; if Spark fails for an unknown
reason, the output of Java is kept in a file. Lines of this package in it, such as those of a stream about
files that came late, are shown. All errors are raised as DissectError.
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
from typing import IO, TYPE_CHECKING

from ..errors import SparkError, imported
from .launch.java import check_java
from .launch.java_output import java_log, lines_shown, log_bytes, save_log
from .launch.master import check_master, check_workers, is_local, is_loopback
from .spark_errors import fault_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JVMView
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
    """The session of this program, or a new one for the duration of the block. If `master` is None,
    it comes from `conf`, spark-defaults.conf or spark-submit; by default it is this machine. Raises
    DissectError, also for Spark's errors that leave the block."""
    check_libraries()
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # SparkSession.getActiveSession knows only the sessions of one thread.
    there = SparkContext._active_spark_context
    made: AbstractContextManager[SparkContext] = (
        nullcontext(there) if there else _context(master, conf or {}, java_log())
    )
    with _quiet(), nullcontext() if there else lines_shown(java_log()):
        try:
            with _python(conf or {}), made as context:
                yield SparkSession(context)
        except (PySparkException, Py4JError) as error:
            fault = fault_of(error)
            if not there and isinstance(fault, SparkError) and not fault.remedy:
                messages = save_log(java_log())
                fault = SparkError(fault.reason, f"Spark's messages are in {messages}")
            raise fault from error


def check_libraries() -> None:
    """Raises MissingLibrary if a library that every job needs is not installed."""
    for name in ("pyspark", "pyarrow"):
        imported(name, "spark")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the traceback that py4j prints when it is interrupted."""

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
    """Makes workers run the Python that the user named, or this one, instead of `python3` from PATH."""
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
    """A new context, checked and ready."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    first = {"spark.master": master, **conf} if master else conf
    gateway = SparkContext._gateway or _gateway(_conf(first), log)
    known = gateway.jvm.System.getProperty  # has the settings of spark-defaults.conf
    where = first.get("spark.master") or known("spark.master")
    check_master(gateway, where)
    interrupting = signal.getsignal(signal.SIGINT)
    unset = (None, "pyspark-shell")  # the name that Spark gives to a program without one
    own = {name: value for name, value in _defaults(where).items() if known(name) in unset}
    settings = _conf({**own, "spark.master": where, **conf}, gateway.jvm)
    try:
        context = SparkContext(conf=settings, gateway=gateway)
    except Py4JJavaError as error:
        raise SparkError(
            f"Spark does not start: {error.java_exception.getMessage()}", "see --master and --conf"
        ) from error
    with suppress(ValueError):  # outside the main thread, pyspark has changed nothing
        # pyspark's own handler would first ask Java to stop, over a connection that is in the middle of a
        # call.
        signal.signal(signal.SIGINT, interrupting)
    try:
        if not is_local(where):
            check_workers(context)
        yield context
    finally:
        with warnings.catch_warnings():
            # After Ctrl-C the connection may be unusable. Java ends with this program.
            warnings.filterwarnings(
                "ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning
            )
            context.stop()


def _conf(settings: Mapping[str, str], jvm: JVMView | None = None) -> SparkConf:
    """These settings and, of a Java that runs, those that it has."""
    from pyspark import SparkConf

    return SparkConf(_jvm=jvm).setAll(list(settings.items()))


def _defaults(master: str) -> dict[str, str]:
    """Settings that apply unless the user has set them."""
    found = {"spark.app.name": "nats-dissect"}
    if is_loopback(master):
        found |= {f"spark.driver.{name}": "127.0.0.1" for name in ("host", "bindAddress")}
    if is_local(master):
        found["spark.ui.enabled"] = "false"  # it would listen on every interface
        # Only keys and states of flows are shuffled. Most of Spark's default of 200 tasks would have nothing
        # to do.
        found["spark.sql.shuffle.partitions"] = str(4 * (os.cpu_count() or 1))
        if _SOURCES.is_dir() and _SOURCES not in _INSTALLED:
            found["spark.executorEnv.PYTHONPATH"] = str(_SOURCES)
    return found


def _gateway(conf: SparkConf, log: IO[bytes]) -> JavaGateway:
    """Starts Java through spark-submit; under spark-submit, connects to the Java that started this
    program."""
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
        why = _COMPLAINT.search(log_bytes(log).decode(errors="replace"))
        raise SparkError(
            f"Spark does not start: {(why[1] or why[2]) if why else error}",
            "see --master and --conf",
        ) from error
