"""JetStream of another domain behind a leafnode, and of another account: real servers (nats.go:
jetstream/test, the tests that are named CrossDomains and CrossAccounts)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import natsync
from natsync.jetstream import ExternalStream, JetStream, StreamConfig, StreamSource
from natsync.kv import KeyNotFoundError, KeyValue, KeyValueConfig

from tests.jetstream.streams import durable, numbers
from tests.support.servers import NatsServer, StartServer, require_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("domains")]

STORE = "jetstream { store_dir: $FOLDER, domain: %s }\n"
ACCOUNTS = """
jetstream { store_dir: $FOLDER }
accounts {
    A: {
        jetstream: enabled, users: [{ user: a, password: a }]
        exports: [
            { service: "$JS.API.>", response_type: stream }
            { service: "$KV.>" }, { service: "$O.>" }, { service: "$JS.ACK.>" }, { service: "orders.>" }
            { stream: "inbox.i.>" }
        ]
    }
    I: {
        users: [{ user: i, password: i }]
        imports: [
            { service: { account: A, subject: "$JS.API.>" }, to: "fromA.>" }
            { service: { account: A, subject: "$KV.>" }, to: "fromA.$KV.>" }
            { service: { account: A, subject: "$JS.ACK.>" } }
            { service: { account: A, subject: "orders.>" } }
            { stream: { account: A, subject: "inbox.i.>" } }
        ]
    }
}
"""


@pytest.fixture(scope="module")
def domains() -> Iterator[tuple[JetStream, JetStream]]:
    """The hub's JetStream, on a connection to the hub, and the leaf's, on one to the leaf."""
    require_server("current")
    with ExitStack() as stack:
        hub = stack.enter_context(
            NatsServer(STORE % "hub" + "leafnodes { listen: 127.0.0.1:-1 }\n", name="hub")
        )
        remote = f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{hub.leaf_port}" }} ] }}\n'
        leaf = stack.enter_context(NatsServer(STORE % "leaf" + remote, name="leaf"))
        above, below = (stack.enter_context(natsync.connect(each.url)) for each in (hub, leaf))
        eventually(lambda: reaches(below.jetstream(domain="hub", timeout=0.5)))
        yield above.jetstream(), below.jetstream()


def reaches(js: JetStream) -> bool:
    try:
        return js.account_info().domain == "hub"
    except natsync.Error:
        return False


def of_hub(js: JetStream) -> JetStream:
    """The hub's JetStream, by way of the leaf."""
    return js.api.core.jetstream(domain="hub")  # type: ignore[attr-defined]  # it is a Client


def has(bucket: KeyValue, key: str, value: bytes | None) -> bool:
    try:
        return bucket.get(key).value == value
    except KeyNotFoundError:
        return value is None


def test_streams_that_follow_one_of_another_domain(
    domains: tuple[JetStream, JetStream], stream_name: str
) -> None:
    hub, leaf = domains
    hub.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.*"]))
    far = StreamSource(stream_name, external=ExternalStream.in_domain("hub"))
    mirror = leaf.create_stream(StreamConfig(f"{stream_name}-m", mirror=far))
    sourced = leaf.create_stream(StreamConfig(f"{stream_name}-s", sources=[far]))
    for number in range(3):
        hub.publish(f"{stream_name}.a", b"%d" % number)
    for stream in (mirror, sourced):
        eventually(lambda: stream.info().state.messages == 3)
        assert numbers(durable(stream).fetch(3)) == [0, 1, 2]


def test_a_consumer_of_another_domain(
    domains: tuple[JetStream, JetStream], stream_name: str
) -> None:
    hub, leaf = domains
    js = of_hub(leaf)
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.*"]))
    consumer = durable(stream)
    for number in range(5):
        js.publish(f"{stream_name}.a", b"%d" % number)
    found = consumer.fetch(5)
    assert numbers(found) == [0, 1, 2, 3, 4]
    assert {msg.metadata.domain for msg in found} <= {"hub", ""}
    for msg in found:
        msg.ack_sync()
    assert hub.consumer(stream_name, "c").info().num_ack_pending == 0
    assert numbers(js.ordered_consumer(stream_name).messages(), 5) == [0, 1, 2, 3, 4]


def test_a_bucket_mirrored_from_another_domain(
    domains: tuple[JetStream, JetStream], stream_name: str
) -> None:
    """Reading asks the mirror, writing goes to the origin."""
    hub, leaf = domains
    origin = hub.create_key_value(stream_name)
    origin.put("name", b"derek")
    origin.put("age", b"22")
    far = StreamSource(f"KV_{stream_name}", external=ExternalStream.in_domain("hub"))
    mirror = leaf.create_key_value(KeyValueConfig(f"{stream_name}-m", mirror=far))
    eventually(lambda: has(mirror, "name", b"derek"))
    mirror.put("name", b"rip")
    eventually(lambda: has(mirror, "name", b"rip"))
    assert origin.get("name").value == b"rip"
    mirror.delete("age")
    eventually(lambda: has(mirror, "age", None))
    with mirror.watch() as watch:
        assert [entry.value for entry in watch.initial(10) if entry.value] == [b"rip"]
    direct = of_hub(leaf).key_value(stream_name)
    direct.put("name", b"again")
    assert direct.get("name").value == b"again"
    assert sorted(mirror.keys()) == ["name"]


def test_objects_of_another_domain(domains: tuple[JetStream, JetStream], stream_name: str) -> None:
    hub, leaf = domains
    data = b"x" * 300_000
    of_hub(leaf).create_object_store(stream_name).put("big", data)
    assert hub.object_store(stream_name).get_bytes("big") == data
    assert of_hub(leaf).object_store(stream_name).get_bytes("big") == data


def test_another_account(start_server: StartServer) -> None:
    """Its API is imported under a prefix; replies come on an inbox prefix that it exports."""
    server = start_server(ACCOUNTS)
    with (
        natsync.connect(server.url, user="a", password="a") as owner,
        natsync.connect(server.url, user="i", password="i", inbox_prefix="inbox.i") as nc,
    ):
        own, js = owner.jetstream(), nc.jetstream(prefix="fromA")
        own.create_stream(StreamConfig("O", subjects=["orders.>"]))
        own.create_key_value("b").put("k", b"1")
        bucket = js.key_value("b")
        assert bucket.get("k").value == b"1"
        assert bucket.put("k", b"2") == 2
        with bucket.watch("k") as watch:
            entry = watch.next(10)
            assert entry and entry.value == b"2"
        assert list(bucket.keys()) == ["k"]
        assert bucket.update("k", b"3", 2) == 3 and own.key_value("b").get("k").value == b"3"
        bucket.purge("k")
        assert has(own.key_value("b"), "k", None)
        assert bucket.purge_deletes(older_than=-1) == 1 and own.key_value("b").status().values == 0
        for number in range(3):
            assert js.publish("orders.a", b"%d" % number).stream == "O"
        consumer = durable(js.stream("O"))
        for msg in consumer.fetch(3):
            msg.ack_sync()
        assert consumer.info().num_ack_pending == 0
