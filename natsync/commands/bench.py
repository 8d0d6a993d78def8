"""`natsync bench`: measures how fast this client publishes, receives and requests, with this server.

The clock starts with the first message. It stops when the server has confirmed all messages (`pub`), at the
last message (`sub`), or at the last reply (`request`). CPU time is that of all threads of this process.
Before the clock starts, `pub` and `request` send nothing but the handshake, `sub` only subscribes.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter, process_time

from click import Choice, command

from .._engine.futures import ReplyFuture
from ..message import Msg
from .command import DONE, FAILED, Command, Run
from .options import argument, count_option, option
from .values import count as counted
from .values import payload_size

__all__ = ["bench"]

COUNT, SIZE, SUBJECT = 100_000, 128, "natsync.bench"

Figure = str | int | float
Figures = dict[str, Figure]


@command("bench", cls=Command)
@argument("what", "What to measure: pub, sub or request.", Choice(["pub", "sub", "request"]))
@argument("subject", f"The subject ({SUBJECT}).", default=SUBJECT)
@count_option(f"Number of messages ({COUNT}).", COUNT)
@option("--size BYTES", f"Bytes of each message ({SIZE}).", payload_size, default=SIZE)
@option("--at-once N", "With request: how many are in flight at once (1).", counted, default=1)
def bench(run: Run, what: str, subject: str, count: int, size: int, at_once: int) -> int:
    """Measure pub, sub (another process publishes), or request (natsync reply answers)."""
    if what == "pub":
        figures = _publish(run, subject, count, size)
    elif what == "sub":
        figures = _subscribe(run, subject, count)
    else:
        figures = _request(run, subject, count, size, at_once)
    run.done(_text(figures), **figures)
    short = figures["messages"] != count
    if short:
        run.reporter.tell(f"{figures['messages']} of {count} messages within {run.timeout:g} s")
    return FAILED if short or figures.get("dropped") else DONE


def _publish(run: Run, subject: str, count: int, size: int) -> Figures:
    data, publish = bytes(size), run.nc.publish
    clock = _Clock()
    for _ in range(count - 1):
        publish(subject, data)
    run.nc.publish_confirmed(subject, data, timeout=run.timeout)
    return clock.figures("pub", count, size)


def _subscribe(run: Run, subject: str, count: int) -> Figures:
    """The first message starts the clock, so it does not count in the rate."""
    with run.nc.subscribe(subject, max_msgs=count) as sub:
        run.nc.flush()
        run.reporter.tell(f"waiting for {count} messages on {subject}")
        size = len(sub.next_msg().data)
        clock = _Clock()
        for msg in sub.messages(run.timeout):
            size += len(msg.data)
            clock.stop()
        figures = clock.figures("sub", sub.delivered, size // sub.delivered, sub.delivered - 1)
        return {**figures, "dropped": sub.dropped}


def _request(run: Run, subject: str, count: int, size: int, at_once: int) -> Figures:
    """Keeps `at_once` requests in flight, and measures the latency of each."""
    nc, data = run.nc, bytes(size)
    took: list[float] = []
    under_way: deque[tuple[float, ReplyFuture[Msg]]] = deque()
    clock = _Clock()

    def take() -> None:
        started, future = under_way.popleft()
        future.result()
        took.append(perf_counter() - started)

    for _ in range(count):
        if at_once == 1:
            started = perf_counter()
            nc.request(subject, data, timeout=run.timeout)
            took.append(perf_counter() - started)
            continue
        under_way.append((perf_counter(), nc.request_async(subject, data, timeout=run.timeout)))
        if len(under_way) == at_once:
            take()
    while under_way:
        take()
    figures = clock.figures("request", len(took), size)
    took.sort()
    for name, part in (("min", 0.0), ("median", 0.5), ("p99", 0.99), ("max", 1.0)):
        figures[f"latency_{name}_ns"] = int(took[int(part * (len(took) - 1))] * 1e9)
    return figures


class _Clock:
    """Measures wall-clock time, from its creation to the last `stop`, and the CPU time of this process."""

    def __init__(self) -> None:
        self._wall = self._stopped = perf_counter()
        self._cpu = process_time()

    def stop(self) -> None:
        """Sets the end of the wall-clock time to now."""
        self._stopped = perf_counter()

    def figures(self, what: str, messages: int, size: int, timed: int | None = None) -> Figures:
        """Returns the figures of `messages` messages. The rate counts `timed` of them, or all."""
        if timed is None:
            timed = messages
            self.stop()
        seconds = self._stopped - self._wall
        rate = timed / seconds if seconds else 0.0
        return {
            "bench": what,
            "messages": messages,
            "data_bytes": size,
            "seconds": round(seconds, 6),
            "messages_per_second": round(rate, 1),
            "bytes_per_second": round(rate * size, 1),
            "cpu_ns_per_message": int((process_time() - self._cpu) / messages * 1e9),
        }


def _text(figures: Figures) -> str:
    """Returns the figures as one line of text."""
    parts = [
        f"{figures['bench']}: {figures['messages']} messages of {figures['data_bytes']} bytes",
        f"{float(figures['seconds']):.3f} s",
        f"{float(figures['messages_per_second']):,.0f}/s",
        f"{float(figures['bytes_per_second']) / 1e6:,.1f} MB/s",
        f"{float(figures['cpu_ns_per_message']) / 1e3:.1f} us CPU each",
    ]
    if "latency_median_ns" in figures:
        named = (f"{name} {_micro(figures, name)}" for name in ("min", "median", "p99", "max"))
        parts.append("latency " + " ".join(named) + " us")
    if figures.get("dropped"):
        parts.append(f"{figures['dropped']} dropped")
    return ", ".join(parts)


def _micro(figures: Figures, name: str) -> str:
    return f"{float(figures[f'latency_{name}_ns']) / 1e3:.0f}"
