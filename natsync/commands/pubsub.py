"""The commands `pub`, `request`, `rtt`, `sub` and `reply`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from click import BadParameter, command

from ..errors import ConnectionReconnectingError, Error, NextMsgTimeoutError, OptionError
from ..message import Msg, to_wire
from ..protocol import check_subscribe
from .command import DONE, FAILED, Command, Run
from .options import argument, count_option, header_option, option
from .output import Shown, flush, show
from .values import seconds, time, whole

if TYPE_CHECKING:
    from ..jetstream import ConsumerConfig
    from ..jetstream.configs import DeliverPolicy

__all__ = ["pub", "read_data", "reply", "request", "rtt", "sub"]

Headers = Iterable[tuple[str, str]]

STARTS: dict[str, DeliverPolicy] = {
    "all": "all",
    "new": "new",
    "last": "last",
    "last-per-subject": "last_per_subject",
}


def read_data(text: str) -> bytes:
    """Returns the payload that the command line gives: the bytes of `text`, or standard input for `-`."""
    if text != "-":
        return text.encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.read() if sys.stdin else b""


def grouped(headers: Headers) -> dict[str, list[str]] | None:
    """Returns the values of each header; None if there are none."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value)
    return found or None


@command("pub", cls=Command)
@argument("subject")
@argument("data", "The payload; - reads standard input.", default="")
@header_option
@count_option("Send it N times (1).", 1)
@option("--reply SUBJECT", "The reply subject.")
def pub(run: Run, subject: str, data: str, headers: Headers, count: int, reply: str | None) -> None:
    """Publish a message and wait until the server has processed it.

    If it is sent several times, a refusal of any fails.
    """
    payload, fields, reply = read_data(data), grouped(headers), reply or None
    for _ in range(count - 1):
        run.nc.publish(subject, payload, reply=reply, headers=fields)
    run.nc.publish_confirmed(subject, payload, reply=reply, headers=fields, timeout=run.timeout)
    run.done(subject=subject, published=count, data_bytes=len(payload))


@command("request", cls=Command, raw=True)
@argument("subject")
@argument("data", "The payload; - reads standard input.", default="")
@header_option
@count_option("Send it N times (1).", 1)
@option(
    "--replies N",
    "Wait for N replies to each request; 0: for all that arrive within --timeout.",
    whole,
)
@option("--stall SECONDS", "With --replies: stop when no reply arrives for SECONDS.", seconds)
def request(
    run: Run,
    subject: str,
    data: str,
    headers: Headers,
    count: int,
    replies: int | None,
    stall: float | None,
) -> int:
    """Send a request and print the reply, or several replies."""
    if stall and replies is None:
        raise OptionError("stall", "needs --replies")
    payload, fields = read_data(data), grouped(headers)
    for _ in range(count):
        if replies is None:
            msg = run.nc.request(subject, payload, timeout=run.timeout, headers=fields)
            _show_reply(run, msg)
            continue
        came = 0
        for msg in run.nc.request_many(
            subject,
            payload,
            timeout=run.timeout,
            max_msgs=replies or None,
            stall=stall,
            headers=fields,
        ):
            came += 1
            _show_reply(run, msg)
        if came < max(1, replies):
            wanted = f" of {replies}" if replies else ""
            stalled = f", or {stall:g} s after the last one" if stall else ""
            within = f"within {run.timeout:g} s{stalled}"
            run.reporter.tell(f"{came}{wanted} replies on {subject} {within}")
            return FAILED
    return FAILED if run.reporter.failed else DONE


def _show_reply(run: Run, msg: Msg) -> None:
    """Prints a reply, and reports an error that a service put into its headers: most have no body."""
    from ..micro import raise_for_error  # imported late: it takes long

    show(msg, run.form)
    try:
        raise_for_error(msg)
    except Error as error:  # a service's error, or headers that cannot be read
        run.reporter.error(error)


@command("rtt", cls=Command)
@count_option("Measure N times (1).", 1)
def rtt(run: Run, count: int) -> None:
    """Measure the round trip to the server."""
    for _ in range(count):
        took = run.nc.rtt(run.timeout)
        run.done(f"{took * 1e3:.3f} ms", rtt_ns=int(took * 1e9))
        flush()


_queue_option = option(
    "--queue GROUP", "Queue group: the server sends each message to one member.", default=""
)


def start(text: str) -> str | int | datetime:
    """Reads where to begin in a stream: one of STARTS, a sequence, or a time."""
    if text in STARTS:
        return text
    if text.isascii() and text.isdigit() and len(text) <= 20 and 0 < int(text) < 1 << 64:
        return int(text)
    try:
        return time(text)
    except BadParameter:
        known = ", ".join(STARTS)
        raise BadParameter(f"not {known}, a sequence, or a time: {text}") from None


@command("sub", cls=Command, timeout=None, raw=True)
@argument("subject")
@_queue_option
@count_option("Exit after N messages.")
@option("--stream NAME", "Print the stored messages of this stream, then new ones.")
@option(
    "--start WHERE",
    f"With --stream, where to begin: {', '.join(STARTS)}, a sequence, or a time (all).",
    start,
)
def sub(
    run: Run,
    subject: str,
    queue: str,
    count: int | None,
    stream: str | None,
    start: str | int | datetime | None,
) -> int:
    """Print messages as they arrive."""
    if stream is not None:
        if queue:
            raise OptionError("queue", "excludes --stream")
        ended = _sub_stream(run, subject, count, stream, start)
        return DONE if ended and not run.reporter.failed else FAILED
    if start:
        raise OptionError("start", "needs --stream")
    return _listen(run, subject, queue, count, lambda msg: None)


@command("reply", cls=Command, timeout=None, raw=True)
@argument("subject")
@argument("data", "The answer; without it, the payload of the request.", required=False)
@header_option
@_queue_option
@count_option("Exit after N messages.")
def reply(
    run: Run, subject: str, data: str | None, headers: Headers, queue: str, count: int | None
) -> int:
    """Print requests and answer them.

    It goes on after one that cannot be answered.
    """
    payload, fields = None if data is None else read_data(data), grouped(headers)

    def answer(msg: Msg) -> None:
        try:
            if msg.reply:
                msg.respond(msg.data if payload is None else payload, headers=fields)
        except Error as error:
            run.reporter.error(error)

    return _listen(run, subject, queue, count, answer)


def _listen(
    run: Run, subject: str, queue: str, count: int | None, act: Callable[[Msg], None]
) -> int:
    """Prints messages and calls `act` for each: `count` of them, or until none arrives for the timeout."""
    with run.nc.subscribe(subject, queue=queue, max_msgs=count) as sub:
        run.nc.flush()
        try:
            while count is None or sub.delivered < count:
                msg = sub.next_msg(run.timeout)
                show(msg, run.form, flushes=not sub.pending_msgs)
                act(msg)
        except NextMsgTimeoutError as error:
            if count is not None:
                run.reporter.error(error)
                return FAILED
        finally:  # before the subscription ends, which drops the pending messages, too
            lost = sub.dropped
            if lost:
                text = f"{lost} of {sub.received} messages dropped: they came too fast"
                run.reporter.tell(text)
    return FAILED if lost or run.reporter.failed else DONE


def _sub_stream(
    run: Run, subject: str, count: int | None, stream: str, begin: str | int | datetime | None
) -> bool:
    """Prints messages of a stream: `count` of them, or all until none arrives for the timeout. Returns False
    if fewer than `count` arrive."""
    from ..jetstream import InvalidStreamNameError  # imported late: it takes long
    from ..jetstream.names import check_stream_name

    try:
        check_stream_name(stream)
    except InvalidStreamNameError as error:
        raise OptionError("stream", str(error)) from None
    check_subscribe(to_wire(subject))

    def tell(error: Error) -> None:
        if not isinstance(error, ConnectionReconnectingError):  # which the reporter has written
            run.reporter.tell(error)

    with run.js.ordered_consumer(stream, _beginning(subject, begin)) as ordered:
        messages = ordered.messages(on_error=tell)
        try:
            while count is None or count > 0:
                msg = messages.next(run.timeout)
                found = msg.metadata
                place: dict[str, Shown] = {
                    "stream": found.stream,
                    "seq": found.stream_seq,
                    "time": found.timestamp.isoformat(),
                }
                show(msg, run.form, flushes=not found.num_pending, more=place)
                count = None if count is None else count - 1
        except NextMsgTimeoutError as error:
            if count is not None:
                run.reporter.error(error)
                return False
    return True


def _beginning(subject: str, begin: str | int | datetime | None) -> ConsumerConfig:
    from ..jetstream import ConsumerConfig

    if isinstance(begin, int):
        return ConsumerConfig(
            filter_subject=subject, deliver_policy="by_start_sequence", opt_start_seq=begin
        )
    if isinstance(begin, datetime):
        return ConsumerConfig(
            filter_subject=subject, deliver_policy="by_start_time", opt_start_time=begin
        )
    return ConsumerConfig(filter_subject=subject, deliver_policy=STARTS[begin or "all"])
