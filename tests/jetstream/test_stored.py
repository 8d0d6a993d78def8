"""Messages read from a stream without a consumer, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import natsync
from natsync.jetstream import (
    APIError,
    InvalidResponseError,
    JetStream,
    MessageNotFoundError,
    NoDirectGetError,
    Stream,
    StreamConfig,
    UnsupportedError,
)
from natsync.jetstream.api import API
from natsync.jetstream.stored import direct_get, direct_get_batch, get_msg
from natsync.message import Msg
from natsync.options import PENDING_BYTES_LIMIT

from tests.jetstream.streams import filled, publish_block, publish_status
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


@pytest.fixture
def stream(js: JetStream, stream_name: str) -> Stream:
    stream = js.create_stream(
        StreamConfig(stream_name, subjects=[f"{stream_name}.>"], allow_direct=True)
    )
    for number in range(1, 6):
        subject = f"{stream_name}.{number % 2}"
        js.publish(subject, b"%d" % number, headers={"n": str(number), "Nats-Subject": "mine"})
    return stream


@pytest.mark.parametrize("direct", [False, True])
def test_a_message_by_sequence_and_by_subject(stream: Stream, direct: bool) -> None:
    msg = stream.get_msg(2, direct=direct)
    assert (msg.subject, msg.seq, msg.data) == (f"{stream.name}.0", 2, b"2")
    assert msg.headers.to_dict() == {"n": ["2"], "Nats-Subject": ["mine"]}
    assert msg.stream == stream.name
    assert abs(datetime.now(timezone.utc) - msg.time) < timedelta(minutes=1)
    assert stream.get_msg(2, subject=f"{stream.name}.1", direct=direct).seq == 3
    assert stream.get_last_msg(f"{stream.name}.0", direct=direct).seq == 4
    with pytest.raises(MessageNotFoundError):
        stream.get_msg(99, direct=direct)
    with pytest.raises(MessageNotFoundError):
        stream.get_last_msg(f"{stream.name}.9", direct=direct)


def test_headers_that_servers_add_are_kept_where_a_message_has_them(
    js: JetStream, stream: Stream
) -> None:
    """As a stream has them that stores what another one publishes again (ADR-28)."""
    names = ("Stream", "Subject", "Sequence", "Time-Stamp", "Num-Pending", "Last-Sequence")
    headers = {f"Nats-{name}": ["77"] for name in (*names, "UpTo-Sequence")}
    subject = f"{stream.name}.2"
    js.publish(subject, b"x", headers=headers)
    for msg in (
        stream.get_msg(6),
        stream.get_msg(6, direct=True),
        stream.get_last_msg(subject, direct=True),
        *stream.get_msgs(seq=6),
        *stream.get_last_msgs([subject]),
    ):
        assert msg.headers.to_dict() == headers
        assert (msg.subject, msg.seq, msg.pending) == (subject, 6, 0)


def test_a_message_that_was_published_with_a_status(
    old_js: JetStream, old_js_server: NatsServer, stream_name: str
) -> None:
    """A server before 2.14 keeps the status; that does not make the message an answer without one."""
    filled(old_js, stream_name, 0, allow_direct=True)
    publish_status(old_js_server, f"{stream_name}.0", "404 Not Found")
    msg = old_js.stream(stream_name).get_last_msg(f"{stream_name}.0", direct=True)
    assert (msg.seq, msg.data, len(msg.headers)) == (1, b"", 0)


@pytest.mark.parametrize("line", [b"no colon", b"no colon\r\nNats-Stream: other"])
def test_headers_that_cannot_be_read(
    js: JetStream,
    js_server: NatsServer,
    stream: Stream,
    line: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The message is there without them, and a batch goes on after it."""
    publish_block(js_server, f"{stream.name}.2", b"NATS/1.0\r\n%s\r\n\r\n" % line)
    for direct in (False, True):
        msg = stream.get_last_msg(f"{stream.name}.2", direct=direct)
        assert (msg.subject, msg.seq, len(msg.headers)) == (f"{stream.name}.2", 6, 0)
        assert msg.stream == stream.name
    js.publish(f"{stream.name}.3")
    assert [(msg.seq, msg.pending) for msg in stream.get_msgs(seq=5)] == [(5, 2), (6, 1), (7, 0)]
    assert caplog.text.count(f"message 6 on {stream.name}.2 has headers that cannot be read") == 3


def test_the_last_message_of_a_pattern(stream: Stream) -> None:
    assert stream.get_last_msg(f"{stream.name}.*").seq == 5
    with pytest.raises(natsync.ProtocolError, match="wildcard"):
        stream.get_last_msg(f"{stream.name}.*", direct=True)


def test_many_messages_in_order(stream: Stream) -> None:
    assert [msg.seq for msg in stream.get_msgs()] == [1, 2, 3, 4, 5]
    some = list(stream.get_msgs(seq=2, subject=f"{stream.name}.1", batch=1))
    assert [(msg.seq, msg.pending) for msg in some] == [(3, 1)]
    long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
    assert [msg.seq for msg in stream.get_msgs(start_time=long_ago, batch=2)] == [1, 2]
    with pytest.raises(MessageNotFoundError):
        list(stream.get_msgs(subject="other"))
    with pytest.raises(natsync.OptionError, match="excludes seq"):
        stream.get_msgs(seq=1, start_time=long_ago)
    with pytest.raises(natsync.OptionError, match="start_time: must have a time zone"):
        stream.get_msgs(start_time=datetime.now())
    with pytest.raises(natsync.OptionError, match="up_to_time: must have a time zone"):
        stream.get_last_msgs([">"], up_to_time=datetime.now())
    with pytest.raises(TypeError, match="start_time must be a datetime, not str"):
        stream.get_msgs(start_time="now")  # type: ignore[arg-type]  # on purpose


def test_the_last_message_of_each_subject(stream: Stream) -> None:
    pattern = [f"{stream.name}.>"]
    assert [msg.seq for msg in stream.get_last_msgs(pattern)] == [4, 5]
    assert [msg.seq for msg in stream.get_last_msgs(pattern, up_to_seq=3)] == [2, 3]
    assert [msg.seq for msg in stream.get_last_msgs(pattern, up_to_time=stream.get_msg(4).time)][
        -1
    ] in (3, 4)
    with pytest.raises(natsync.OptionError, match="list with at least one"):
        stream.get_last_msgs(f"{stream.name}.>")


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda stream: stream.get_msg(0), "seq: must be from 1 to"),
    (lambda stream: stream.get_msg(2**64, direct=True), "seq: must be from 1 to"),
    (lambda stream: stream.delete_msg(0), "seq: must be from 1 to"),
    (lambda stream: stream.purge(seq=-1), "seq: must be from 0 to"),
    (lambda stream: stream.purge(keep=-1), "keep: must be from 0 to"),
    (lambda stream: stream.purge(subject=5), "subject must be str, not int"),
    (lambda stream: stream.get_msgs(seq=-1), "seq: must be from 0 to"),
    (lambda stream: stream.get_msgs(batch=0), "batch: must be from 1 to"),
    (lambda stream: stream.get_msgs(max_bytes=-1), "max_bytes: must be from 0 to"),
    (lambda stream: stream.get_msgs(subject=5), "subject must be str, not int"),
    (lambda stream: stream.get_last_msgs(5), "subjects must be a list, not int"),
    (lambda stream: stream.get_last_msgs([5]), "subject must be str, not int"),
    (lambda stream: stream.get_last_msgs([">"], up_to_seq=-1), "up_to_seq: must be from 0 to"),
    (lambda stream: stream.get_last_msgs([">"], batch=-1), "batch: must be from 0 to"),
    (lambda stream: stream.info(subjects_filter=5), "subjects_filter must be str, not int"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_what_the_server_cannot_read_is_not_sent(
    stream: Stream, call: Callable[[Any], object], text: str
) -> None:
    with pytest.raises((natsync.OptionError, TypeError), match=text):
        call(stream)


def test_a_deleted_message_is_gone(stream: Stream) -> None:
    stream.delete_msg(2)
    stream.delete_msg(3, erase=True)
    assert stream.info(deleted_details=True).state.deleted == (2, 3)
    for seq in (2, 77):
        with pytest.raises(APIError):
            stream.delete_msg(seq)


def test_direct_get_has_to_be_allowed(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    js.publish(stream_name)
    with pytest.raises(NoDirectGetError, match=stream_name):
        stream.get_msg(1, direct=True)
    with pytest.raises(NoDirectGetError):
        list(stream.get_msgs())


def test_an_old_server_has_no_batches(old_js: JetStream, stream_name: str) -> None:
    stream = old_js.create_stream(StreamConfig(stream_name, allow_direct=True))
    old_js.publish(stream_name, b"x", headers={"k": "v"})
    for direct in (False, True):
        msg = stream.get_msg(1, direct=direct)
        assert (msg.data, msg.headers.to_dict()) == (b"x", {"k": ["v"]})
    with pytest.raises(UnsupportedError, match=r"batch needs nats-server 2\.11 or later"):
        list(stream.get_msgs())


@pytest.fixture
def api(js_client: natsync.Client) -> API:
    return API(js_client, None, "fake", 0.5)


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b'{"message":{}}',
        b'{"message":{"subject":"a","seq":1,"time":"now"}}',
        b'{"message":{"subject":"a","seq":1,"time":"0001-01-01T00:00:00+10:00"}}',
        b'{"message":{"subject":"a","seq":1,"time":"2026-01-01T00:00:00Z","data":"#"}}',
        b'{"message":{"subject":"a","seq":1,"time":"2026-01-01T00:00:00Z","hdrs":"#"}}',
        b'{"message":{"subject":1,"seq":1,"time":"2026-01-01T00:00:00Z"}}',
    ],
)
def test_a_message_that_is_none_is_named(api: API, answer: bytes) -> None:
    def respond(msg: Msg) -> None:
        msg.respond(answer)

    with api.core.subscribe("fake.>", handler=respond):
        with pytest.raises(InvalidResponseError, match=r"fake\.STREAM\.MSG\.GET\.a"):
            get_msg(api, "a", {"seq": 1})
        with pytest.raises(InvalidResponseError, match="without its sequence"):
            direct_get(api, "a", {"seq": 1})


ADDED = {
    "Nats-Stream": "a",
    "Nats-Subject": "b",
    "Nats-Sequence": "1",
    "Nats-Time-Stamp": "2026-01-01T00:00:00Z",
}
"""The headers of a response to a direct get, in the order in which servers write them."""


def test_a_plain_answer_without_a_time_is_named(api: API) -> None:
    """As servers write them, read without a header parser."""
    added = {**ADDED, "Nats-Time-Stamp": "yesterday"}
    with api.core.subscribe("fake.>", handler=lambda msg: msg.respond(b"x", headers=added)):
        with pytest.raises(InvalidResponseError, match="without its sequence and time"):
            direct_get(api, "a", {"seq": 1})
        added.update(ADDED)
        msg = direct_get(api, "a", {"seq": 1})
    assert (msg.stream, msg.subject, msg.seq, len(msg.headers)) == ("a", "b", 1, 0)


def test_a_batch_that_stops_is_a_timeout(api: API) -> None:
    def respond(msg: Msg) -> None:
        msg.respond(b"x", headers={**ADDED, "Nats-Num-Pending": "1"})

    with api.core.subscribe("fake.>", handler=respond):
        came = direct_get_batch(api, "a", {"batch": 2})
        assert next(came).data == b"x"
        with pytest.raises(natsync.RequestTimeoutError):
            next(came)


def test_a_batch_that_is_read_slowly_loses_no_message(js_client: natsync.Client) -> None:
    """It may be larger than what a subscription keeps: the server decides how much it sends."""
    count, payload = PENDING_BYTES_LIMIT // 500_000 + 10, bytes(500_000)

    def respond(msg: Msg) -> None:
        for left in range(count, 0, -1):
            msg.respond(payload, headers={**ADDED, "Nats-Num-Pending": str(left)})

    before = js_client.stats.in_msgs
    with js_client.subscribe("fake.>", handler=respond):
        came = direct_get_batch(API(js_client, None, "fake", 20.0), "a", {"batch": count})
        assert next(came).pending == count
        eventually(lambda: js_client.stats.in_msgs - before > count)
        assert [next(came).pending for _ in range(count - 1)] == [*range(count - 1, 0, -1)]
        came.close()
