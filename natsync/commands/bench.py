"""`natsync bench`: measures how fast this client publishes, receives and requests, with this server.

The clock starts with the first message. It stops when the server has confirmed all messages (`pub`), at the
last message (`sub`), or at the last reply (`request`). CPU time is that of all threads of this process.
Before the clock starts, `pub` and `request` send nothing but the handshake, `sub` only subscribes.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable
from time import perf_counter, process_time

from .._engine.futures import ReplyFuture
from ..client import Client
from ..message import Msg
from .output import print_json, print_line
from .pubsub import DONE, FAILED
from .reporting import Reporter

__all__ = ["bench"]

Figure = str | int | float
Figures = dict[str, Figure]


def bench(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Runs one measurement and prints it."""
    run: Callable[[Client, argparse.Namespace, Reporter], Figures] = _RUNS[args.what]
    figures = run(nc, args, reporter)
    if args.json:
        print_json(figures)
    else:
        print_line(_text(figures))
    short = figures["messages"] != args.count
    if short:
        reporter.tell(f"{figures['messages']} of {args.count} messages within {args.timeout:g} s")
    return FAILED if short or figures.get("dropped") else DONE


def _publish(nc: Client, args: argparse.Namespace, reporter: Reporter) -> Figures:
    data, subject, count = bytes(args.size), args.subject, args.count
    clock = _Clock()
    for _ in range(count - 1):
        nc.publish(subject, data)
    nc.publish_confirmed(subject, data, timeout=args.timeout)
    return clock.figures("pub", count, args.size)


def _subscribe(nc: Client, args: argparse.Namespace, reporter: Reporter) -> Figures:
    """The first message starts the clock, so it does not count in the rate."""
    with nc.subscribe(args.subject, max_msgs=args.count) as sub:
        nc.flush()
        reporter.tell(f"waiting for {args.count} messages on {args.subject}")
        size = len(sub.next_msg().data)
        clock = _Clock()
        for msg in sub.messages(args.timeout):
            size += len(msg.data)
            clock.stop()
        figures = clock.figures("sub", sub.delivered, size // sub.delivered, sub.delivered - 1)
        return {**figures, "dropped": sub.dropped}


def _request(nc: Client, args: argparse.Namespace, reporter: Reporter) -> Figures:
    """Keeps `--at-once` requests in flight, and measures the latency of each."""
    data, subject = bytes(args.size), args.subject
    took: list[float] = []
    under_way: deque[tuple[float, ReplyFuture[Msg]]] = deque()
    clock = _Clock()

    def take() -> None:
        started, future = under_way.popleft()
        future.result()
        took.append(perf_counter() - started)

    for _ in range(args.count):
        if args.at_once == 1:
            started = perf_counter()
            nc.request(subject, data, timeout=args.timeout)
            took.append(perf_counter() - started)
            continue
        under_way.append((perf_counter(), nc.request_async(subject, data, timeout=args.timeout)))
        if len(under_way) == args.at_once:
            take()
    while under_way:
        take()
    figures = clock.figures("request", len(took), args.size)
    took.sort()
    for name, part in (("min", 0.0), ("median", 0.5), ("p99", 0.99), ("max", 1.0)):
        figures[f"latency_{name}_ns"] = int(took[int(part * (len(took) - 1))] * 1e9)
    return figures


_RUNS: dict[str, Callable[[Client, argparse.Namespace, Reporter], Figures]] = {
    "pub": _publish,
    "sub": _subscribe,
    "request": _request,
}


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
