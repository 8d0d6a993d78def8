"""Under gevent's monkey-patching, where threads are greenlets and epoll is gone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jetstream import JETSTREAM
from tests.support.requirements import missing
from tests.support.websocket_server import Form, running

pytestmark = pytest.mark.server

PROGRAM = """
from gevent import monkey
monkey.patch_all()
import sys, gevent, natsync

nc = natsync.connect(sys.argv[1])
nc.subscribe("svc", handler=lambda msg: msg.respond(b"re " + msg.data))
replies = []
gevent.joinall(
    [
        gevent.spawn(lambda n=n: replies.append(nc.request("svc", b"%d" % n, timeout=10).data))
        for n in range(20)
    ],
    raise_error=True,
)
assert sorted(replies) == sorted(b"re %d" % n for n in range(20)), replies
sub = nc.subscribe("a")
gevent.spawn_later(0.01, nc.publish, "a", b"later")
assert sub.next_msg(10).data == b"later"
futures = [nc.request_async("svc", b"x") for _ in range(10)]
assert {future.result(10).data for future in futures} == {b"re x"}
nc.drain(10)
"""

JETSTREAM_PROGRAM = """
from gevent import monkey
monkey.patch_all()
import sys, gevent, natsync
from natsync import micro
from natsync.jetstream import ConsumerConfig, StreamConfig

nc = natsync.connect(sys.argv[1])
js = nc.jetstream(timeout=10)
stream = js.create_stream(StreamConfig("S", storage="memory"))
consumer = stream.create_consumer(ConsumerConfig(durable_name="c"))

came = gevent.queue.Queue()
consuming = consumer.consume(lambda msg: (came.put(msg.data), msg.ack_sync(10)), workers=3)
ordered = js.ordered_consumer("S").messages()
gevent.joinall([gevent.spawn(js.publish, "S", b"%d" % n) for n in range(20)], raise_error=True)
futures = [js.publish_async("S", b"%d" % n, msg_id=str(n)) for n in range(20, 40)]
assert js.wait_all(10) and len({future.result().seq for future in futures}) == 20
assert sorted(int(came.get(timeout=10)) for _ in range(40)) == [*range(40)]
assert [ordered.next(10).metadata.stream_seq for _ in range(40)] == [*range(1, 41)]
consuming.drain(10)
assert consumer.info().num_ack_pending == 0

later = gevent.spawn(lambda: consumer.next(20).data)
gevent.spawn_later(0.01, js.publish, "S", b"later")
assert later.get(timeout=20) == b"later"

bucket = js.create_key_value("b")
with bucket.watch("k") as watch:
    assert watch.next(10) is None
    gevent.spawn_later(0.01, bucket.put, "k", b"v")
    assert watch.next(10).value == b"v"
store = js.create_object_store("o")
data = bytes(300_000)
store.put("x", data)
reads = [gevent.spawn(lambda: store.get_bytes("x")) for _ in range(5)]
gevent.joinall(reads, timeout=10, raise_error=True)
assert {read.value == data for read in reads} == {True}

with micro.add_service(nc, name="echo", version="1.0.0") as service:
    service.add_endpoint("say", lambda request: request.respond(request.data))
    assert nc.request("say", b"hi", timeout=10).data == b"hi"
running = consumer.consume(print)
nc.close(10)
assert not running.running
"""


# gevent replaces `ssl`, too. JetStream is above the transport.
@pytest.mark.parametrize(
    ("form", "program", "config"),
    [
        ("current", PROGRAM, ""),
        ("websocket", PROGRAM, ""),
        ("secure websocket", PROGRAM, ""),
        ("current", JETSTREAM_PROGRAM, JETSTREAM),
    ],
    ids=["core", "core, websocket", "core, secure websocket", "jetstream"],
)
def test_greenlets_share_a_connection(
    form: Form, program: str, config: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec("gevent") is None:
        missing("gevent", "pip install gevent")
    with running(form, tmp_path, config) as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, server.url],
            capture_output=True,
            text=True,
            timeout=50,
        )
    assert (done.returncode, done.stderr) == (0, "")
