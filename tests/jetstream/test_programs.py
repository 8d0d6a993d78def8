"""Whole programs: at the interpreter's exit, after a fork, and interrupted by signals."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from time import monotonic

import pytest

from natsync.jetstream import JetStream

from tests.jetstream.streams import durable, filled
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

BEGIN = """
import os, signal, sys, threading
import natsync
from natsync.jetstream import ConsumerConfig, MessagesClosedError
nc = natsync.connect(sys.argv[1])
js = nc.jetstream()
consumer = js.consumer(sys.argv[2], "c")
"""


def program(server: NatsServer, stream: str, code: str, stderr: str = "") -> list[str]:
    """The lines that a program prints, which must end well with nothing else than `stderr` on stderr."""
    quiet = [
        "-W",
        "ignore::ResourceWarning",
        "-W",
        "ignore::DeprecationWarning",
    ]  # of fork, from 3.12
    done = subprocess.run(
        [sys.executable, *quiet, "-c", BEGIN + dedent(code), server.url, stream],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, stderr)
    return done.stdout.splitlines()


@pytest.fixture
def stream(js: JetStream, stream_name: str) -> str:
    durable(filled(js, stream_name, 10))
    return stream_name


def test_exit_while_messages_are_handled(js_server: NatsServer, stream: str) -> None:
    lines = program(
        js_server,
        stream,
        """
        from time import monotonic
        begun = threading.Event()
        consumer.consume(lambda msg: (begun.set(), threading.Event().wait(60)), workers=2)
        js.ordered_consumer(sys.argv[2]).consume(lambda msg: None)
        messages = consumer.messages()
        assert begun.wait(10)
        print(monotonic())
        """,
        "a handler or callback still runs at the end of the program\n",
    )
    (end,) = lines
    assert monotonic() - float(end) < 10


def test_objects_that_outlive_the_modules(js_server: NatsServer, stream: str) -> None:
    """At exit Python empties the modules that are still there, the last imported first. With free threads all
    are there, and objects may live on; here because a module holds them that was imported before.
    """
    lines = program(
        js_server,
        stream,
        """
        nc.subscribe("echo", handler=lambda msg: msg.respond(b""))
        nc.flush()
        consumer.fetch(1)
        config = ConsumerConfig(name="p", deliver_subject="deliver")
        js.stream(sys.argv[2]).create_consumer(config)
        threading.held = [
            list(sys.modules.values()),
            nc,
            consumer,
            consumer.messages(),
            consumer.consume(lambda msg: None),
            js.ordered_consumer(sys.argv[2]).messages(),
            js.push_consumer(sys.argv[2], "p").messages(),
            nc.request_many("echo", timeout=20),
        ]
        print("ends")
        """,
    )
    assert lines == ["ends"]


def test_a_forked_child_fetches_on_a_connection_of_its_own(
    js_server: NatsServer, stream: str
) -> None:
    lines = program(
        js_server,
        stream,
        """
        print(len(consumer.fetch(2)), flush=True)
        messages = consumer.messages(max_msgs=2)
        messages.next(10)
        ordered = js.ordered_consumer(sys.argv[2])
        ordered.next(10)
        over = threading.Event()
        consuming = consumer.consume(lambda msg: over.wait(20), max_msgs=1)
        child = os.fork()
        if not child:
            try:
                messages.next(1)
            except natsync.ForkedError:
                print("the parent's", flush=True)
            try:
                ordered.next(1)
            except natsync.ForkedError:
                print("the parent's", flush=True)
            consuming.stop()
            print(len(consumer.fetch(2)), flush=True)
            ordered = js.ordered_consumer(sys.argv[2])
            print(len(ordered.fetch(10)), flush=True)
            nc.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(messages.next(10).metadata.stream_seq)
        print(ordered.next(10).metadata.stream_seq)
        over.set()
        nc.close()
        """,
    )
    assert lines == ["2", "the parent's", "the parent's", "2", "10", "4", "2"]


@pytest.mark.parametrize("what", ["messages", "ordered", "fetch"])
def test_a_signal_handler_ends_it(js_server: NatsServer, stream: str, what: str) -> None:
    lines = program(
        js_server,
        stream,
        f"""
        reader = {{
            "messages": lambda: consumer.messages(),
            "ordered": lambda: js.ordered_consumer(sys.argv[2]).messages(),
            "fetch": lambda: None,
        }}["{what}"]()
        """
        """
        def stop(*_):
            if reader:
                reader.stop()
            else:
                raise SystemExit(0)
        signal.signal(signal.SIGTERM, stop)
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM]).start()
        seen = 0
        for msg in reader or iter(lambda: consumer.fetch(100, timeout=20), None):
            seen += 1
        print(seen)
        """,
    )
    assert lines == ([] if what == "fetch" else ["10"])


def test_stores_and_services_after_a_fork_and_at_exit(js_server: NatsServer, stream: str) -> None:
    """What the child makes is its own; watches and services of the parent go on in the parent alone."""
    lines = program(
        js_server,
        stream,
        """
        from natsync import micro
        bucket = js.create_key_value(sys.argv[2])
        store = js.create_object_store(sys.argv[2])
        service = micro.add_service(nc, name=sys.argv[2], version="1.0.0")
        service.add_endpoint(sys.argv[2] + "-echo", lambda request: request.respond(request.data))
        watch = bucket.watch()
        print(watch.next(10), flush=True)
        bucket.put("k", b"parent")
        print(watch.next(10).value, flush=True)
        child = os.fork()
        if not child:
            try:
                watch.next(10)
            except natsync.ForkedError:
                print("the parent's", flush=True)
            print(bucket.get("k").value, flush=True)
            bucket.put("k", b"child")
            store.put("x", b"child")
            with bucket.watch() as own:
                print(own.next(10).value, flush=True)
            print(nc.request(sys.argv[2] + "-echo", b"to the parent", timeout=10).data, flush=True)
            nc.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(watch.next(10).value, store.get_bytes("x"))
        # Nothing is closed: the exit of the interpreter must do.
        """,
    )
    assert lines == [
        "None",
        "b'parent'",
        "the parent's",
        "b'parent'",
        "b'child'",
        "b'to the parent'",
        "b'child' b'child'",
    ]
