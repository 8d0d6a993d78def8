"""Checks a master URL: it must be this machine, or a cluster that answers and has workers for the job.

Spark itself tries to reach a master for a minute, waits for workers forever, and writes the reasons only to
its log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...errors import SparkError
from ...output.arrow.types import pyarrow
from ..package import ship

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

_DIAL_MS = 5_000
_PATIENCE_S = 60  # a cluster that starts workers on demand takes half as long
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def is_local(master: str) -> bool:
    """Whether tasks run in threads and processes of this machine."""
    return re.match(r"local(\[|$)", master) is not None


def is_loopback(master: str) -> bool:
    """Whether no other machine takes part."""
    hosts = {host for host, _ in _addresses(master)}
    return is_local(master) or (bool(hosts) and hosts <= _LOOPBACK)


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports in the URL of a standalone cluster; none for other masters."""
    if not master.startswith("spark://"):
        return []
    pairs = [where.rpartition(":") for where in master.removeprefix("spark://").split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in pairs if host and port.isdigit()]


def check_master(gateway: JavaGateway, master: str) -> None:
    """Returns when one of the masters accepts a connection. Raises SparkError if none does."""
    from py4j.protocol import Py4JJavaError

    tried = []
    net = gateway.jvm.java.net
    for host, port in _addresses(master):
        dialled = net.Socket()
        try:
            dialled.connect(net.InetSocketAddress(host, port), _DIAL_MS)
            return
        except Py4JJavaError as error:
            tried.append(f"{host}:{port} ({_why(error)})")
        finally:
            dialled.close()
    if master.startswith("spark://"):
        raise SparkError(
            f"no Spark master answers at {', '.join(tried) or master}",
            "start one, or give its address as its web page has it: --master spark://HOST:PORT",
        )


def _why(error: Py4JJavaError) -> str:
    """The reason why there is no connection. For an unknown host, Java reports only its name."""
    if "UnknownHostException" in error.java_exception.toString():
        return "unknown host"
    return str(error.java_exception.getMessage())


def check_workers(context: SparkContext, patience_s: int = _PATIENCE_S) -> None:
    """Sends the package to the workers, and returns when one of them has shown that it can use it.
    Raises SparkError if none takes a task in time, and Spark's own error if one cannot use it."""
    from py4j.protocol import Py4JJavaError

    jvm = context._jvm
    assert jvm is not None
    one = jvm.java.util.ArrayList()
    one.add(1)
    counted = context._jsc.parallelize(one, 1).countAsync()
    try:
        counted.get(patience_s, jvm.java.util.concurrent.TimeUnit.SECONDS)
    except Py4JJavaError as error:
        if "TimeoutException" not in error.java_exception.toString():
            raise
        counted.cancel(True)
        raise SparkError(
            f"no worker of {context.master} took a task within {patience_s} s",
            "its web page shows whether there are workers, and whether they have the memory and cores "
            "that --conf asks for; they must reach this machine, see spark.driver.host",
        ) from None
    ship(context)
    context.parallelize([0], 1).map(_libraries).collect()


def _libraries(_: int) -> str:
    """The libraries of a worker, which needs this package to unpickle this function."""
    return str(pyarrow().__version__)
