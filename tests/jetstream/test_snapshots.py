"""Snapshots: taken, restored, damaged, and cut off."""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from dataclasses import replace

import pytest

import natsync
from natsync.jetstream import (
    APIError,
    ConsumerNotFoundError,
    InvalidResponseError,
    JetStream,
    SnapshotError,
    Stream,
    StreamConfig,
    StreamNotFoundError,
)

from tests.jetstream.streams import durable, filled
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


def bulky(js: JetStream, name: str) -> Stream:
    """A stream of 2 MiB that cannot be compressed."""
    stream = js.create_stream(StreamConfig(name, subjects=[f"{name}.>"]))
    for number in range(32):
        js.publish_async(f"{name}.{number % 3}", os.urandom(64 << 10))
    assert js.wait_all(20)
    return stream


def check_restored(js: JetStream, stream_name: str) -> None:
    """A stream is the same after its snapshot was restored."""
    stream = bulky(js, stream_name)
    consumer = durable(stream)
    for msg in consumer.fetch(5):
        msg.ack_sync()
    stored = {seq: stream.get_msg(seq).data for seq in range(1, 33)}
    state, archive = stream.info().state, io.BytesIO()
    info = stream.snapshot(archive, check=True)
    assert (info.config.subjects, info.state.messages) == ((f"{stream_name}.>",), 32)
    js.delete_stream(stream_name)
    archive.seek(0)
    restored = js.restore_stream(info, archive)
    assert restored.cached_info.state.last_ts == state.last_ts
    assert {seq: restored.get_msg(seq).data for seq in range(1, 33)} == stored
    assert restored.consumer("c").info().ack_floor.stream_seq == 5
    assert js.publish(f"{stream_name}.0").seq == 33


def test_a_restored_stream_is_the_same(js: JetStream, stream_name: str) -> None:
    check_restored(js, stream_name)


def test_a_stream_that_an_old_server_restores_is_the_same(
    old_js: JetStream, stream_name: str
) -> None:
    check_restored(old_js, stream_name)


def test_without_consumers(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    durable(stream)
    archive = io.BytesIO()
    info = stream.snapshot(archive, consumers=False)
    js.delete_stream(stream_name)
    archive.seek(0)
    with pytest.raises(ConsumerNotFoundError):
        js.restore_stream(info, archive).consumer("c")


def test_a_configuration_of_ones_own(js: JetStream, stream_name: str) -> None:
    archive = io.BytesIO()
    info = filled(js, stream_name, 3, storage="file").snapshot(archive)
    js.delete_stream(stream_name)
    archive.seek(0)
    config = replace(info.config, description="restored", max_age=3600.0)
    restored = js.restore_stream(replace(info, config=config), archive).cached_info
    assert (restored.config.description, restored.config.max_age) == ("restored", 3600.0)


def test_what_no_archive_is(js: JetStream, stream_name: str) -> None:
    stream = bulky(js, stream_name)
    archive = io.BytesIO()
    info = stream.snapshot(archive)
    whole = archive.getvalue()
    with pytest.raises(APIError, match="name already in use, cannot restore"):
        js.restore_stream(info, archive)
    js.delete_stream(stream_name)
    damaged = bytearray(whole)
    damaged[100_000] ^= 1  # a byte written over could be the same byte
    for data in (b"", b"junk", whole[: len(whole) // 2], bytes(damaged)):
        with pytest.raises(APIError, match="restore failed"):
            js.restore_stream(info, io.BytesIO(data))
        with suppress(StreamNotFoundError):  # 2.15 keeps what it has read
            js.delete_stream(stream_name)
    assert js.restore_stream(info, io.BytesIO(whole)).cached_info.state.messages == 32


def test_a_stream_that_is_not_there(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    js.delete_stream(stream_name)
    with pytest.raises(StreamNotFoundError):
        stream.snapshot(io.BytesIO())


def test_what_a_full_disk_says_is_raised(js: JetStream, stream_name: str) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        bulky(js, stream_name).snapshot(Full())


class Sender:
    """A server that answers a request for a snapshot, and sends `chunks`: each with its reply and its
    status."""

    def __init__(self, nc: natsync.Client, chunks: list[tuple[str, bytes, str]]) -> None:
        self._nc = nc
        self._chunks = chunks
        self.js = nc.jetstream(prefix=nc.new_inbox(), timeout=0.3)
        nc.subscribe(f"{self.js.api.prefix}.STREAM.INFO.S", handler=self._answer)
        nc.subscribe(f"{self.js.api.prefix}.STREAM.SNAPSHOT.S", handler=self._send)
        nc.flush()  # another client may ask

    def _answer(self, msg: natsync.Msg) -> None:
        msg.respond(b'{"config":{"name":"S"},"state":{"messages":1}}')

    def _send(self, msg: natsync.Msg) -> None:
        self._answer(msg)
        target = json.loads(msg.data)["deliver_subject"]
        for reply, data, status in self._chunks:
            block = f"NATS/1.0 {status}\r\n\r\n".encode() if status else b""
            line = f"{'H' if block else ''}PUB {target} {reply} "
            sizes = f"{len(block)} {len(block + data)}" if block else f"{len(data)}"
            self._nc._put(f"{line}{sizes}\r\n".encode() + block + data + b"\r\n", 0)


@pytest.mark.parametrize(
    ("chunks", "error", "text"),
    [
        ([("A.10.1", b"x", ""), ("A.10.3", b"x", "")], SnapshotError, "chunk 2 is missing"),
        ([("A.10.1", b"x", ""), ("", b"", "408 No Flow Response")], SnapshotError, "408 No Flow"),
        ([("A.10.1", b"x", "")], natsync.RequestTimeoutError, "STREAM.SNAPSHOT.S"),
    ],
)
def test_a_snapshot_that_is_not_whole(
    js_client: natsync.Client,
    chunks: list[tuple[str, bytes, str]],
    error: type[Exception],
    text: str,
) -> None:
    stream = Sender(js_client, chunks).js.stream("S")
    with pytest.raises(error, match=text):
        stream.snapshot(io.BytesIO())


def test_a_snapshot_ends_with_its_connection(
    js_server: NatsServer, js_client: natsync.Client
) -> None:
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:

        class Cutter(io.BytesIO):
            def write(self, data: object) -> int:
                proxy.cut()
                return 0

        sender = Sender(js_client, [("A.10.1", b"x", "")])
        stream = nc.jetstream(prefix=sender.js.api.prefix, timeout=20).stream("S")
        with pytest.raises(natsync.ConnectionReconnectingError):
            stream.snapshot(Cutter())


@pytest.mark.parametrize("answer", [b"{}", b'{"deliver_subject":7}', b"no"])
def test_a_restore_that_is_answered_by_somebody_else(
    js_client: natsync.Client, js: JetStream, answer: bytes
) -> None:
    info = js.create_stream(StreamConfig("answered")).cached_info
    other = js_client.jetstream(prefix=js_client.new_inbox())
    js_client.subscribe(
        f"{other.api.prefix}.STREAM.RESTORE.answered", handler=lambda msg: msg.respond(answer)
    )
    with pytest.raises(InvalidResponseError):
        other.restore_stream(info, io.BytesIO(b"x"))


def test_a_restore_without_an_end(js_client: natsync.Client, js: JetStream) -> None:
    info = js.create_stream(StreamConfig("endless")).cached_info
    other = js_client.jetstream(prefix=js_client.new_inbox())
    target = js_client.new_inbox()
    js_client.subscribe(target, handler=lambda msg: msg.respond(b""))
    js_client.subscribe(
        f"{other.api.prefix}.STREAM.RESTORE.endless",
        handler=lambda msg: msg.respond(json.dumps({"deliver_subject": target}).encode()),
    )
    with pytest.raises(InvalidResponseError, match="nothing at the end"):
        other.restore_stream(info, io.BytesIO(b"x"))


def test_a_restore_that_the_server_gives_up(js_client: natsync.Client, js: JetStream) -> None:
    """It does so where the next part of the file takes too long, or when it stops."""
    info = js.create_stream(StreamConfig("given_up")).cached_info
    other = js_client.jetstream(prefix=js_client.new_inbox())
    body = json.dumps({"deliver_subject": js_client.new_inbox()}).encode()
    js_client.subscribe(
        f"{other.api.prefix}.STREAM.RESTORE.given_up", handler=lambda msg: msg.respond(body)
    )
    with pytest.raises(SnapshotError, match="given_up failed: the server gave up the restore"):
        other.restore_stream(info, io.BytesIO(b"x"))


def test_a_name_is_no_file(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    with pytest.raises(TypeError, match="file must be an open binary file, not str"):
        stream.snapshot("archive")  # type: ignore[arg-type]  # a wrong call
    info = stream.snapshot(io.BytesIO())
    with pytest.raises(TypeError, match="file must be an open binary file, not str"):
        js.restore_stream(info, "archive")  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="info must be StreamInfo, not StreamConfig"):
        js.restore_stream(info.config, io.BytesIO())  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="subject must be str, not int"):
        stream.get_last_msg(3)  # type: ignore[arg-type]  # a wrong call
