"""Subjects, headers and names from `class Name(str, Enum)` stand for their values, in every package.

`format` of such a member gives its name (since Python 3.11), its `encode` and JSON the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import pytest

import natsync
from natsync import micro, streaming
from natsync.jetstream import ConsumerConfig, ExternalStream, StreamConfig
from natsync.kv import KeyValueConfig
from natsync.object_store import ObjectStoreConfig

from tests.support.fake_streaming import FakeStreaming
from tests.support.servers import NatsServer, require_server

pytestmark = pytest.mark.server


class Name(str, Enum):
    SUBJECT = "orders.new"
    ALL = "orders.>"
    ECHO = "echo"
    STREAM = "ORDERS"
    CONSUMER = "billing"
    BUCKET = "settings"
    KEY = "colour.wall"
    STORE = "pictures"
    OBJECT = "a/b.png"
    HEADER = "X-Kind"
    DOMAIN = "hub"
    PREFIX = "_MINE"
    CLUSTER = "fake"


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer("jetstream { store_dir: $FOLDER }") as running:
        yield running


def test_names_of_the_core_may_be_enum_members(server: NatsServer) -> None:
    with natsync.connect(server.url, inbox_prefix=Name.PREFIX) as nc:
        sub = nc.subscribe(Name.ALL, queue=Name.STREAM)
        nc.subscribe(Name.ECHO, handler=lambda msg: msg.respond(msg.reply.encode()))
        for _ in range(2):  # later messages take other paths
            nc.publish(Name.SUBJECT, reply=Name.ECHO, headers={Name.HEADER: Name.KEY})
            nc.publish(Name.SUBJECT, headers={Name.HEADER: "plain"})
            nc.publish_confirmed(Name.SUBJECT, reply=Name.ECHO)
            first, second, third = sub.messages(timeout=10, limit=3)
            assert (first.reply, first.headers.fields) == ("echo", (("X-Kind", "colour.wall"),))
            assert (second.reply, second.headers.fields) == ("", (("X-Kind", "plain"),))
            assert (third.subject, third.reply) == ("orders.new", "echo")
            assert nc.request(Name.ECHO).data.startswith(b"_MINE.")
        assert nc.new_inbox().startswith("_MINE.")


def test_names_of_jetstream_may_be_enum_members(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(
            StreamConfig(Name.STREAM, subjects=[Name.ALL], storage="memory", allow_direct=True)
        )
        try:
            assert js.stream(Name.STREAM).name == "ORDERS"
            js.publish(Name.SUBJECT, b"1", msg_id=Name.KEY, expected_stream=Name.STREAM)
            assert stream.get_last_msg(Name.SUBJECT, direct=True).data == b"1"
            config = ConsumerConfig(durable_name=Name.CONSUMER, filter_subject=Name.SUBJECT)
            stream.create_consumer(config)
            assert js.consumer(Name.STREAM, Name.CONSUMER).next(10).data == b"1"
            assert js.ordered_consumer(Name.STREAM).next(10).data == b"1"
        finally:
            js.delete_stream(Name.STREAM)
        assert ExternalStream.in_domain(Name.DOMAIN).api == "$JS.hub.API"
        assert nc.jetstream(domain=Name.DOMAIN).api.prefix == "$JS.hub.API"


def test_buckets_and_stores(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        js = nc.jetstream()
        kv = js.create_key_value(KeyValueConfig(Name.BUCKET, storage="memory"))
        try:
            kv.put(Name.KEY, b"green")
            assert js.key_value(Name.BUCKET).get(Name.KEY).value == b"green"
            assert [*kv.keys(Name.KEY)] == ["colour.wall"]
        finally:
            js.delete_key_value(Name.BUCKET)
        store = js.create_object_store(ObjectStoreConfig(Name.STORE, storage="memory"))
        try:
            store.put(Name.OBJECT, b"pixels")
            assert js.object_store(Name.STORE).get_bytes(Name.OBJECT) == b"pixels"
            assert [info.name for info in store.list()] == ["a/b.png"]
        finally:
            js.delete_object_store(Name.STORE)


def test_services_and_streaming(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        with micro.add_service(nc, Name.BUCKET, "1.0.0") as service:
            group = service.add_group(Name.ECHO)
            group.add_endpoint(Name.CONSUMER, lambda request: request.respond(b"yes"))
            assert nc.request("echo.billing").data == b"yes"
            assert micro.ServiceClient(nc).ping(Name.BUCKET, service.id)
        with FakeStreaming(server.url):
            with streaming.connect(Name.CLUSTER, Name.CONSUMER, nc=nc) as sc:
                assert sc.publish(Name.SUBJECT, b"1")
