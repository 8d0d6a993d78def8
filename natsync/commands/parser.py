"""The parser of the command line: every command with its options."""

from __future__ import annotations

import argparse

from .arguments import (
    Commands,
    Help,
    add_data,
    add_form,
    add_json,
    connection_options,
    count,
    payload_size,
    seconds,
    whole,
    with_count,
)
from .bench import bench
from .pubsub import pub, reply, request, rtt, sub
from .reporting import ENVIRONMENT
from .stream_sub import STARTS, start

__all__ = ["make_parser"]

BENCH_COUNT = 100_000
BENCH_SIZE = 128
BENCH_SUBJECT = "natsync.bench"
EXIT_STATUS = """exit status:
  0    done
  1    failed: no connection, refused by the server, no responders, no reply, messages missing or dropped
  2    wrong usage
  130  interrupted

environment: """ + ", ".join(ENVIRONMENT.values())

GROUPS = {
    "stream": "JetStream streams: list, show, create, change, purge, read, delete",
    "consumer": "JetStream consumers: list, show, create, change, pause, delete",
    "streaming": "NATS Streaming (STAN) channels: publish, subscribe",
    "kv": "key-value buckets: list, show, create, change, delete; get, put, delete and watch keys",
    "object": "object stores: list, show, create, change, delete; put, get, link and watch objects",
    "service": "services: list, ping, show, measure",
}
"""Groups of commands. Each has a module of the same name, which is imported when the group is used."""


def make_parser(version: str) -> argparse.ArgumentParser:
    """Returns the parser of all commands. Connection options may stand before or after the command."""
    parser = argparse.ArgumentParser(
        prog="natsync",
        description="Talk to a NATS server.",
        epilog=EXIT_STATUS,
        formatter_class=Help,
        parents=[connection_options(None)],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"natsync {version}")
    command = Commands(parser)
    _add_talking(command)
    _add_listening(command)
    add_json(
        with_count(command("rtt", rtt, "measure the round trip to the server"), "measure N times")
    )
    _add_bench(command)
    for name, text in GROUPS.items():
        command.group(name, text)
    return parser


def _add_talking(command: Commands) -> None:
    publisher = command("pub", pub, "publish a message and wait until the server has processed it")
    requester = command(
        "request", request, "send a request and print the reply, or several replies"
    )
    for added in (publisher, requester):
        added.add_argument("subject")
        add_data(added, "", "the payload; - reads standard input")
        with_count(added, "send it N times (1)")
    publisher.add_argument("--reply", metavar="SUBJECT", help="the reply subject")
    add_json(publisher)
    requester.add_argument(
        "--replies",
        type=whole,
        metavar="N",
        help="wait for N replies to each request; 0: for all that arrive within --timeout",
    )
    requester.add_argument(
        "--stall",
        type=seconds,
        metavar="SECONDS",
        help="with --replies: stop when no reply arrives for SECONDS",
    )
    add_form(requester)


def _add_listening(command: Commands) -> None:
    subscriber = command("sub", sub, "print messages as they arrive", None, True)
    replier = command("reply", reply, "print requests and answer them", None, True)
    for added in (subscriber, replier):
        added.add_argument("subject")
        added.add_argument(
            "--queue",
            default="",
            metavar="GROUP",
            help="queue group: the server sends each message to one member",
        )
        with_count(added, "exit after N messages")
        add_form(added)
    subscriber.add_argument(
        "--stream", metavar="NAME", help="print the stored messages of this stream, then new ones"
    )
    subscriber.add_argument(
        "--start",
        type=start,
        metavar="WHERE",
        help=f"with --stream, where to begin: {', '.join(STARTS)}, a sequence, or a time (all)",
    )
    add_data(replier, None, "the answer; without it, the payload of the request")


def _add_bench(command: Commands) -> None:
    added = command(
        "bench",
        bench,
        "measure pub, sub (another process publishes), or request (natsync reply answers)",
    )
    added.add_argument("what", choices=("pub", "sub", "request"), help="what to measure")
    added.add_argument("subject", nargs="?", default=BENCH_SUBJECT, help=f"({BENCH_SUBJECT})")
    with_count(added, f"number of messages ({BENCH_COUNT})", BENCH_COUNT)
    added.add_argument(
        "--size",
        type=payload_size,
        default=BENCH_SIZE,
        metavar="BYTES",
        help=f"bytes of each message ({BENCH_SIZE})",
    )
    added.add_argument(
        "--at-once",
        type=count,
        default=1,
        metavar="N",
        help="with request: how many are in flight at once (1)",
    )
    add_json(added)
