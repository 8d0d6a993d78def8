"""Each call works for a user who may publish to exactly the subjects that the manual names for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import natsync
from natsync.jetstream import ConsumerConfig, JetStream, StreamConfig

from tests.support.jetstream import JETSTREAM
from tests.support.paths import ROOT
from tests.support.servers import NatsServer, require_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("permissions")]


def table() -> dict[str, list[str]]:
    """The subjects by call, as the manual has them."""
    page = (ROOT / "docs/jetstream.md").read_text(encoding="utf-8")
    rows = page.partition("| publishes to |\n|---|---|\n")[2].partition("\n\n")[0]
    cells = [row.strip("| ").split(" | ") for row in rows.splitlines()]
    return {call: re.findall(r"`([^`]+)`", subjects) for call, subjects in cells}


TABLE = table()
CONFIG = ConsumerConfig(durable_name="worker", ack_wait=5)
PUSH = ConsumerConfig(name="worker", deliver_subject="_INBOX.push", inactive_threshold=60)


def publish(js: JetStream) -> None:
    js.publish("orders.new", b"2")
    js.publish("orders.new", b"3", msg_id="3")
    js.publish_async("orders.new", b"4").result(10)


def create(js: JetStream) -> None:
    js.create_consumer("orders", CONFIG)
    js.create_or_update_consumer("orders", CONFIG)
    js.update_consumer("orders", replace(CONFIG, description="d"))


def filtered(js: JetStream) -> None:
    js.create_consumer("orders", replace(CONFIG, filter_subject="orders.new"))


def pull(js: JetStream) -> None:
    consumer = js.bind_consumer("orders", "worker", CONFIG)
    (msg,) = consumer.fetch(1, timeout=10)
    assert msg.data == b"1"
    msg.ack_sync()
    assert consumer.fetch(1, timeout=0.1) == []
    with js.bind_consumer("orders", "worker").messages(expires=1, heartbeat=0.4) as messages:
        with pytest.raises(natsync.NextMsgTimeoutError):
            messages.next(0.1)


def push(js: JetStream) -> None:
    with js.bind_push_consumer("orders", "worker", PUSH).messages() as messages:
        messages.next(10).ack_sync()


def ordered(js: JetStream) -> None:
    with js.ordered_consumer("orders").messages() as messages:
        assert messages.next(10).data == b"1"


def key_value(js: JetStream) -> None:
    js.key_value("settings").status()


def get_key(js: JetStream) -> None:
    assert js.bind_key_value("settings").get("k").value == b"1"


def get_revision(js: JetStream) -> None:
    assert js.bind_key_value("settings").get("k", revision=1).value == b"1"


def change_keys(js: JetStream) -> None:
    kv = js.bind_key_value("settings")
    kv.delete("k", revision=kv.update("k", b"3", kv.put("k", b"2")))
    kv.purge("k")


def create_key(js: JetStream) -> None:
    kv = js.bind_key_value("settings")
    kv.create("new", b"1")
    kv.delete("new")
    kv.create("new", b"2")


def watch_keys(js: JetStream) -> None:
    kv = js.bind_key_value("settings")
    assert [*kv.keys()] == ["k"] and len(kv.history("k")) == 1
    with kv.watch() as watcher:
        assert [entry.key for entry in watcher.initial(10)] == ["k"]


def object_store(js: JetStream) -> None:
    js.object_store("reports").status()


def object_info(js: JetStream) -> None:
    assert js.bind_object_store("reports").info("o").size == 1


def get_object(js: JetStream) -> None:
    assert js.bind_object_store("reports").get_bytes("o") == b"1"


def put_object(js: JetStream) -> None:
    store = js.bind_object_store("reports")
    store.put("o", b"2")
    store.delete("o")


def list_objects(js: JetStream) -> None:
    assert [info.name for info in js.bind_object_store("reports").list()] == ["o"]


CALLS: list[Callable[[JetStream], object]] = [
    publish,
    lambda js: js.consumer("orders", "worker"),
    create,
    filtered,
    lambda js: js.delete_consumer("orders", "worker"),
    pull,
    push,
    ordered,
    lambda js: js.create_stream(StreamConfig("orders", subjects=["orders.>"], allow_direct=True)),
    lambda js: js.stream("orders"),
    lambda js: js.bind_stream("orders").get_msg(1),
    lambda js: js.bind_stream("orders").get_msg(1, direct=True),
    lambda js: js.bind_stream("orders").get_last_msg("orders.new", direct=True),
    lambda js: js.bind_stream("orders").purge(),
    lambda js: js.bind_stream("orders").delete_msg(1),
    key_value,
    get_key,
    get_revision,
    change_keys,
    create_key,
    watch_keys,
    object_store,
    object_info,
    get_object,
    put_object,
    list_objects,
]
"""What each row of the table promises, in its order."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[NatsServer]:
    """A server with a user for each row of the table, who may do what the row says."""
    require_server("current")
    users = ["{ user: admin, password: p }"]
    for number, subjects in enumerate(TABLE.values()):
        listed = ", ".join(f'"{subject}"' for subject in subjects)
        users.append(
            f"{{ user: u{number}, password: p, permissions: {{ "
            f'publish: {{ allow: [{listed}] }}, subscribe: {{ allow: ["_INBOX.>"] }} }} }}'
        )
    with NatsServer(JETSTREAM + f"authorization {{ users: [ {', '.join(users)} ] }}\n") as running:
        yield running


@pytest.mark.parametrize("number", range(len(TABLE)), ids=list(TABLE))
def test_a_call_needs_the_permissions_of_its_row_and_all_of_them(
    guarded: NatsServer, number: int
) -> None:
    assert len(CALLS) == len(TABLE)
    call, subjects = CALLS[number], [*TABLE.values()][number]
    reported: list[Exception] = []
    with natsync.connect(guarded.url, user="admin", password="p") as admin:
        prepare(admin.jetstream(), call)
        seen = [admin.subscribe(subject) for subject in subjects]
        admin.flush()
        with natsync.connect(
            guarded.url, user=f"u{number}", password="p", on_error=reported.append
        ) as nc:
            call(nc.jetstream())
            nc.flush()
        assert reported == []
        for sub in seen:  # each permission has a use
            assert sub.next_msg(10)


def test_a_reader_that_may_not_ask_about_its_consumer_goes_on(guarded: NatsServer) -> None:
    """When heartbeats are missing, it asks the server whether the consumer is still there."""
    reader = CALLS.index(pull)
    with natsync.connect(guarded.url, user=f"u{reader}", password="p") as nc:
        consumer = nc.jetstream().bind_consumer("orders", "worker")
        with pytest.raises(natsync.PermissionsViolationError):
            consumer.info()
        consumer._source.check(10)


def prepare(js: JetStream, call: Callable[[JetStream], object]) -> None:
    """Makes a stream, a consumer, a bucket and a store with a message each."""
    for name in [*js.stream_names()]:
        js.delete_stream(name)
    js.create_stream(StreamConfig("orders", subjects=["orders.>"], allow_direct=True))
    js.publish("orders.new", b"1")
    if call not in (create, filtered):
        js.create_consumer("orders", PUSH if call is push else CONFIG)
    js.create_key_value("settings").put("k", b"1")
    js.create_object_store("reports").put("o", b"1")


def test_what_is_bound_knows_its_name_alone(js: JetStream) -> None:
    stream = js.bind_stream("s")
    assert (stream.name, stream.cached_info.state.messages) == ("s", 0)
    consumer = js.bind_consumer("s", "c")
    assert (consumer.stream_name, consumer.name, consumer.config) == ("s", "c", ConsumerConfig())
    with pytest.raises(natsync.jetstream.NotPushConsumerError):
        js.bind_push_consumer("s", "c", ConsumerConfig())
    assert (js.bind_key_value("b").bucket, js.bind_object_store("b").bucket) == ("b", "b")
    for wrong in (
        lambda: js.bind_stream("a.b"),
        lambda: js.bind_consumer("s", ""),
        lambda: js.bind_key_value("a.b"),
        lambda: js.bind_object_store("a.b"),
    ):
        with pytest.raises(natsync.Error):
            wrong()
    with pytest.raises(TypeError, match="config must be ConsumerConfig"):
        js.bind_consumer("s", "c", "config")  # type: ignore[arg-type]  # a wrong call
