"""Streams that take from other streams, rewrite and publish again; lists longer than a page. On a real
server."""

from __future__ import annotations

from dataclasses import replace

import pytest

import natsync
from natsync.jetstream import (
    APIError,
    JetStream,
    RePublish,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)

from tests.support.jetstream import JETSTREAM
from tests.support.servers import StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_a_mirror_follows_and_can_be_promoted(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.*"]))
    for number in range(5):
        js.publish(f"{stream_name}.{number % 2}", b"%d" % number)
    source = StreamSource(stream_name, filter_subject=f"{stream_name}.1")
    mirror = js.create_stream(StreamConfig(f"{stream_name}-m", mirror=source))
    eventually(lambda: mirror.info().state.messages == 2)
    assert mirror.get_last_msg(f"{stream_name}.1").data == b"3"
    js.delete_stream(stream_name)
    config = replace(mirror.info().config, mirror=None, subjects=[f"{stream_name}.*"])
    assert js.update_stream(config).info().mirror is None
    assert js.publish(f"{stream_name}.1").stream == f"{stream_name}-m"


def test_sources_are_gathered_under_new_subjects(js: JetStream, stream_name: str) -> None:
    for side in ("a", "b"):
        js.create_stream(
            StreamConfig(f"{stream_name}-{side}", subjects=[f"{stream_name}.{side}.>"])
        )
        js.publish(f"{stream_name}.{side}.1")
    moved = SubjectTransform(f"{stream_name}.b.>", f"{stream_name}.moved.>")
    sources = [
        StreamSource(f"{stream_name}-a"),
        StreamSource(f"{stream_name}-b", subject_transforms=[moved]),
    ]
    both = js.create_stream(StreamConfig(stream_name, sources=sources))
    eventually(lambda: both.info().state.messages == 2)
    info = both.info(subjects_filter=">")
    assert set(info.state.subjects) == {f"{stream_name}.a.1", f"{stream_name}.moved.1"}
    assert {source.name for source in info.sources} == {f"{stream_name}-a", f"{stream_name}-b"}


@pytest.mark.parametrize("headers_only", [False, True])
def test_stored_messages_are_published_again(
    js: JetStream, js_client: natsync.Client, stream_name: str, headers_only: bool
) -> None:
    republish = RePublish(f"{stream_name}.>", f"again.{stream_name}.>", headers_only=headers_only)
    js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"], republish=republish))
    with js_client.subscribe(f"again.{stream_name}.>") as again:
        js.publish(f"{stream_name}.a", b"data")
        msg = again.next_msg(5)
    assert (msg.headers["Nats-Stream"], msg.headers["Nats-Sequence"]) == (stream_name, "1")
    assert msg.data == (b"" if headers_only else b"data")


def test_subjects_are_rewritten(js: JetStream, stream_name: str) -> None:
    transform = SubjectTransform(f"{stream_name}.in.*", f"{stream_name}.out.{{{{wildcard(1)}}}}")
    config = StreamConfig(stream_name, subjects=[f"{stream_name}.>"], subject_transform=transform)
    stream = js.create_stream(config)
    js.publish(f"{stream_name}.in.7")
    assert stream.get_msg(1).subject == f"{stream_name}.out.7"


def test_what_the_server_refuses_is_in_its_words(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    for config, words in (
        (StreamConfig(stream_name, storage="memory"), "already in use"),
        (StreamConfig(f"{stream_name}-r", num_replicas=3), "replicas > 1 not supported"),
        (StreamConfig(f"{stream_name}-d", discard_new_per_subject=True), "discard new per subject"),
    ):
        with pytest.raises(APIError) as caught:
            js.create_stream(config)
        assert words in caught.value.description and caught.value.err_code


def test_lists_longer_than_a_page(start_server: StartServer) -> None:
    """The server's pages have 256 streams."""
    server = start_server(JETSTREAM)
    with natsync.connect(server.url) as nc:
        js = nc.jetstream()
        names = [f"s{number:03}" for number in range(300)]
        for name in names:
            js.create_stream(StreamConfig(name, storage="memory"))
        assert sorted(info.config.name for info in js.streams()) == names
        assert sorted(js.stream_names()) == names
