"""A stream: information in parts, purging, its consumers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import natsync
from natsync.jetstream import ConsumerConfig, JetStream, StreamConfig

pytestmark = pytest.mark.server


def fill(nc: natsync.Client, subject: str, count: int) -> None:
    for future in [nc.request_async(f"{subject}.{number}", b"x") for number in range(count)]:
        future.result(5)


def test_purge_by_subject_sequence_and_keep(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    fill(js_client, stream_name, 10)
    assert stream.purge(subject=f"{stream_name}.3") == 1
    assert stream.purge(seq=3) == 2
    assert stream.purge(keep=5) == 2
    assert stream.info().state.messages == 5
    assert stream.purge() == 5
    assert stream.purge(subject=f"{stream_name}.*", keep=1) == 0
    for call in (
        lambda subject: stream.purge(subject=subject),
        lambda subject: stream.get_msg(1, subject=subject),
        lambda subject: stream.get_last_msg(subject),
        lambda subject: stream.get_msgs(subject=subject),
        lambda subject: stream.get_last_msgs([subject]),
        lambda subject: stream.info(subjects_filter=subject),
        js.streams,
        js.stream_names,
    ):
        with pytest.raises(natsync.ProtocolError, match="'a b'"):
            call("a b")
    with pytest.raises(natsync.ProtocolError, match="empty"):
        stream.get_last_msg("")
    with pytest.raises(natsync.OptionError, match="excludes seq"):
        stream.purge(seq=3, keep=3)


def test_info_with_subjects_and_deleted_messages(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    fill(js_client, stream_name, 4)
    stream.purge(subject=f"{stream_name}.1")
    assert stream.info().state.subjects == {}
    info = stream.info(deleted_details=True, subjects_filter=f"{stream_name}.*")
    assert info.state.subjects == {f"{stream_name}.{number}": 1 for number in (0, 2, 3)}
    assert (info.state.deleted, info.state.num_deleted) == ((2,), 1)
    assert stream.cached_info is info


def test_subjects_in_pages_are_put_together(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    """A server sends 100,000 at a time; this responder, two."""
    js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    fill(js_client, stream_name, 5)
    call = f"STREAM.INFO.{stream_name}"
    whole: dict[str, Any] = js.api.request(call, {"subjects_filter": ">"})
    counts = sorted(whole["state"]["subjects"].items())

    def answer(msg: natsync.Msg) -> None:
        offset = json.loads(msg.data or b"{}").get("offset", 0)
        page = {**whole["state"], "subjects": dict(counts[offset : offset + 2])}
        msg.respond(json.dumps({**whole, "total": 5, "offset": offset, "state": page}).encode())

    with js_client.subscribe(f"pages.{stream_name}.>", handler=answer):
        paged = js_client.jetstream(prefix=f"pages.{stream_name}").stream(stream_name)
        assert len(paged.cached_info.state.subjects) == 2  # the same page again ends the list
        assert paged.info(subjects_filter=">").state.subjects == dict(counts)


def test_consumers_are_listed(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    for name in ("a", "b"):
        stream.create_consumer(ConsumerConfig(durable_name=name))
    assert sorted(stream.consumer_names()) == ["a", "b"]
    assert sorted(info.name for info in stream.consumers()) == ["a", "b"]
    assert stream.info().state.consumer_count == 2
    stream.delete_consumer("a")
    assert list(stream.consumer_names()) == ["b"]
