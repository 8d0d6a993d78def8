"""Publishing with acknowledgement: ids, expectations, TTL, counters, schedules, refusals, what is no
PubAck."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

import natsync
from natsync import ConnectionReconnectingError, OptionError
from natsync.jetstream import (
    APIError,
    InvalidPubAckError,
    JetStream,
    MessageTTLError,
    NoStreamResponseError,
    PubAck,
    PublishOptions,
    Schedule,
    StoreFailedError,
    Stream,
    StreamConfig,
    UnsupportedError,
    WrongLastMsgIdError,
    WrongLastSequenceError,
    WrongStreamError,
)
from natsync.jetstream.publishing import _heads, read_ack
from natsync.message import Msg

from tests.jetstream.streams import TIMEOUT, LeaderlessStream
from tests.support.jetstream import JETSTREAM
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer, StartServer

if TYPE_CHECKING:
    from typing_extensions import Unpack

pytestmark = pytest.mark.server


@pytest.fixture
def stream(js: JetStream, stream_name: str) -> Stream:
    return js.create_stream(
        StreamConfig(stream_name, subjects=[f"{stream_name}.>"], allow_rollup_hdrs=True)
    )


def test_a_message_is_stored_and_numbered(js: JetStream, stream: Stream) -> None:
    assert js.publish(f"{stream.name}.a", b"one") == PubAck(stream.name, 1)
    assert js.publish(f"{stream.name}.a", headers={"k": ["v", "w"]}).seq == 2
    stored = stream.get_msg(2)
    assert (stored.data, stored.headers.get_all("k")) == (b"", ["v", "w"])


def test_a_whole_message_is_stored(js: JetStream, stream: Stream, stream_name: str) -> None:
    """Without its reply subject, where the acknowledgement would go; with options of JetStream."""
    msg = Msg(f"{stream_name}.a", b"1", reply="elsewhere", headers={"k": "v"})
    first = js.publish(msg, msg_id="1")
    assert js.publish(msg, msg_id="1").duplicate
    assert js.publish_async(msg).result(TIMEOUT).seq == first.seq + 1
    for seq in (first.seq, first.seq + 1):
        stored = stream.get_msg(seq)
        assert (stored.data, stored.headers.get("k")) == (b"1", "v")
    with pytest.raises(TypeError, match="a Msg is sent alone"):
        js.publish(msg, headers={"k": "w"})


def test_an_id_is_stored_once(js: JetStream, stream: Stream) -> None:
    first = js.publish(f"{stream.name}.a", b"one", msg_id="1")
    again = js.publish(f"{stream.name}.a", b"other", msg_id="1", headers={"k": "v"})
    assert (first.duplicate, again.duplicate, again.seq) == (False, True, first.seq)
    assert stream.info().state.messages == 1


def test_expectations_that_hold_and_that_do_not(js: JetStream, stream: Stream) -> None:
    subject = f"{stream.name}.a"
    js.publish(subject, expected_last_subject_seq=0, expected_last_seq=0, msg_id="1")
    js.publish(subject, expected_last_seq=1, expected_last_msg_id="1", expected_stream=stream.name)
    js.publish(
        f"{stream.name}.b",
        expected_last_subject_seq=2,
        expected_last_subject_seq_subject=f"{stream.name}.*",
    )
    refused: list[tuple[PublishOptions, type[APIError]]] = [
        ({"expected_last_seq": 1}, WrongLastSequenceError),
        ({"expected_last_subject_seq": 1}, WrongLastSequenceError),
        ({"expected_last_msg_id": "7"}, WrongLastMsgIdError),
        ({"expected_stream": "other"}, WrongStreamError),
    ]
    for options, kind in refused:
        with pytest.raises(kind) as caught:
            js.publish(subject, **options)
        if isinstance(caught.value, WrongLastSequenceError):
            assert caught.value.last_seq in (2, 3)
    assert stream.info().state.messages == 3


def test_a_rollup_leaves_the_last_message(js: JetStream, stream: Stream) -> None:
    for subject in ("a", "a", "b"):
        js.publish(f"{stream.name}.{subject}")
    js.publish(f"{stream.name}.a", rollup="sub")
    assert stream.info(subjects_filter=">").state.subjects == {
        f"{stream.name}.a": 1,
        f"{stream.name}.b": 1,
    }
    js.publish(f"{stream.name}.a", rollup="all")
    assert stream.info().state.messages == 1


def test_publishing_where_no_stream_listens_raises(js: JetStream, stream_name: str) -> None:
    with pytest.raises(NoStreamResponseError, match="no stream takes messages on") as caught:
        js.publish(f"{stream_name}.none")
    assert isinstance(caught.value, natsync.NoRespondersError)
    assert isinstance(caught.value.__cause__, natsync.NoRespondersError)


def test_a_publish_is_tried_again_while_there_is_no_leader(
    js: JetStream, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    def create_at_the_fourth(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            js.create_stream(StreamConfig(stream_name))

    monkeypatch.setattr(js.api, "pause", create_at_the_fourth)
    with pytest.raises(NoStreamResponseError):
        js.publish(stream_name)
    assert pauses == [0.25, 0.25]
    assert js.publish(stream_name, msg_id="1").seq == 1


def test_a_publish_is_tried_as_often_as_asked(js: JetStream, stream_name: str) -> None:
    """As nats.go: TestPublish, with RetryAttempts and RetryWait."""
    with ThreadPoolExecutor(1) as pool:
        stored = pool.submit(
            js.publish, stream_name, timeout=30, retry_attempts=10_000, retry_wait=0.01
        )
        assert not wait([stored], 0.1).done
        js.create_stream(StreamConfig(stream_name))
        assert stored.result(20).seq == 1
    js.delete_stream(stream_name)
    with pytest.raises(NoStreamResponseError):
        js.publish(stream_name, retry_attempts=0, retry_wait=30, timeout=59)
    for wrong in ({"retry_attempts": -1}, {"retry_wait": -1.0}, {"retry_wait": float("nan")}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            js.publish(stream_name, **wrong)  # type: ignore[arg-type]  # wrong calls
    with pytest.raises(TypeError, match="retry_attempts must be int"):
        js.publish(stream_name, retry_attempts="1")  # type: ignore[arg-type]  # a wrong call


def test_with_an_id_it_is_tried_until_the_server_says_that_there_is_no_stream(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    with pytest.raises(NoStreamResponseError):
        js.publish(stream_name, msg_id="1", timeout=1000)
    with LeaderlessStream(js_client) as stream:
        assert stream.js.publish(stream.subject, msg_id="1", timeout=60).seq == 9
        assert stream.listed >= 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slow_network_does_not_hide_that_there_is_no_stream(
    js_server: NatsServer, stream_name: str, is_async: bool
) -> None:
    """Its round trip takes longer than the pause between attempts."""
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        js = nc.jetstream()
        proxy.link().to_client.delay(0.3)
        with pytest.raises(NoStreamResponseError):
            if is_async:
                js.publish_async(stream_name, msg_id="1", timeout=1000).result(TIMEOUT)
            else:
                js.publish(stream_name, msg_id="1", timeout=1000)


def test_a_full_stream_says_so(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name, max_msgs=1, discard="new"))
    js.publish(stream_name)
    with pytest.raises(StoreFailedError, match="maximum messages exceeded"):
        js.publish(stream_name)


def test_a_ttl_is_seconds_or_never(js: JetStream, stream: Stream, stream_name: str) -> None:
    with pytest.raises(MessageTTLError):
        js.publish(f"{stream.name}.a", ttl=5)
    lasting = js.create_stream(StreamConfig(f"{stream_name}-ttl", allow_msg_ttl=True))
    for ttl, header in ((5, "5"), (1.5, "1500ms"), ("never", "never")):
        ack = js.publish(lasting.name, ttl=ttl)  # type: ignore[arg-type]  # each is one of the union
        assert lasting.get_msg(ack.seq).headers["Nats-TTL"] == header


def test_a_counter_counts(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name, allow_msg_counter=True, allow_direct=True))
    assert js.publish(stream_name, incr=3).value == 3
    assert js.publish(stream_name, incr=-5).value == -2
    assert js.publish(stream_name, incr=10**40).value == 10**40 - 2


def test_a_scheduled_message_is_stored_as_asked(js: JetStream, stream_name: str) -> None:
    subjects = [f"{stream_name}.>"]
    config = StreamConfig(stream_name, subjects=subjects, allow_msg_schedules=True)
    stream = js.create_stream(config)
    at = datetime.now(timezone.utc) + timedelta(hours=1)
    ack = js.publish(f"{stream_name}.plan", b"x", schedule=Schedule(at, f"{stream_name}.done"))
    headers = stream.get_msg(ack.seq).headers
    assert headers["Nats-Schedule-Target"] == f"{stream_name}.done"
    with pytest.raises(APIError):
        js.publish(f"{stream_name}.plan", schedule=Schedule("@sometimes", f"{stream_name}.done"))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"msg_id": ""}, natsync.OptionError, "msg_id: must not be empty"),
        ({"msg_id": 7}, TypeError, "msg_id must be str, not int"),
        ({"msg_id": "a\r\nb"}, natsync.ProtocolError, ""),
        ({"expected_last_seq": -1}, natsync.OptionError, "must be from 0"),
        ({"expected_last_seq": "1"}, TypeError, "expected_last_seq must be int, not str"),
        ({"expected_last_subject_seq_subject": "a"}, natsync.OptionError, "needs expected_last"),
        ({"ttl": 0.5}, natsync.OptionError, "ttl: must be at least 1 second"),
        ({"ttl": 1e10}, natsync.OptionError, "ttl: must be less than 272 years"),
        ({"ttl": "5s"}, TypeError, "ttl must be a number of seconds, not str"),
        ({"schedule": "@at noon"}, TypeError, "schedule must be Schedule, not str"),
        ({"id": "1"}, TypeError, "publish() got an unexpected keyword argument 'id'"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_the_call(
    js: JetStream, options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        js.publish("nobody.hears.this", **options)  # type: ignore[arg-type]  # on purpose
    assert words in str(caught.value)


def test_an_old_server_would_store_what_it_does_not_know(
    old_js: JetStream, stream_name: str
) -> None:
    old_js.create_stream(StreamConfig(stream_name))
    assert old_js.publish(stream_name, msg_id="1").seq == 1
    refused: list[PublishOptions] = [
        {"ttl": 5},
        {"incr": 1},
        {"schedule": Schedule(5, "a")},
        {"expected_last_subject_seq": 0, "expected_last_subject_seq_subject": "a.>"},
    ]
    for options in refused:
        with pytest.raises(UnsupportedError, match=r"needs nats-server 2\.1\d or later"):
            old_js.publish(stream_name, **options)
    assert old_js.stream(stream_name).info().state.messages == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", InvalidPubAckError),
        (b"+OK", InvalidPubAckError),
        (b"[1]", InvalidPubAckError),
        (b'{"seq":1}', InvalidPubAckError),
        (b'{"stream":"a","seq":"1"}', InvalidPubAckError),
        (b'{"stream":"a","seq":1,"val":"x"}', InvalidPubAckError),
        (b'{"error":{"code":400},"stream":"a","seq":0}', APIError),
    ],
)
def test_another_responder_is_named(
    js: JetStream,
    js_client: natsync.Client,
    stream_name: str,
    answer: bytes,
    error: type[Exception],
) -> None:
    def respond(msg: Msg) -> None:
        msg.respond(answer)

    with js_client.subscribe(stream_name, handler=respond):
        with pytest.raises(error):
            js.publish(stream_name)


@pytest.mark.parametrize(
    ("data", "ack"),
    [
        (b'{"stream":"a","seq":7}', PubAck("a", 7)),
        (b'{"stream":"a", "seq":7}', PubAck("a", 7)),
        (b'{"stream":"a","seq":7,"duplicate": true}', PubAck("a", 7, True)),
        (b'{"stream":"a\\u0026b","domain":"hub","seq":7}', PubAck("a&b", 7, domain="hub")),
        (b'{"stream":"a","seq":7,"val":"-3"}', PubAck("a", 7, value=-3)),
        (
            b'{"stream":"a","seq":7,"batch":"b","count":2}',
            PubAck("a", 7, batch_id="b", batch_count=2),
        ),
    ],
)
def test_acknowledgements_of_all_servers(data: bytes, ack: PubAck) -> None:
    assert read_ack(data, "a") == ack
    later = data.replace(b":7", b":18446744073709551615")
    assert read_ack(later, "a") == ack._replace(seq=18446744073709551615)


@pytest.mark.parametrize(
    "tail", [b"", b"}", b"7", b"7]", b"7}}", b"7_1}", b" }", b"-}", b"7.5}", b'"7"}', b"9" * 9999]
)
def test_an_acknowledgement_that_only_begins_like_one_is_none(tail: bytes) -> None:
    head = b'{"stream":"begun","seq":'
    assert read_ack(head + b"6}", "a") == PubAck("begun", 6)
    with pytest.raises(InvalidPubAckError):
        read_ack(head + tail, "a")


def test_acknowledgements_of_very_many_streams() -> None:
    for number in range(600):
        assert read_ack(b'{"stream":"s%d","seq":1}' % number, "a") == PubAck(f"s{number}", 1)
    long = "s" * 1000
    for _ in range(2):
        assert read_ack(b'{"stream":"%b","seq":1}' % long.encode(), "a") == PubAck(long, 1)
    assert len(_heads) <= 256 and all(len(head) <= 512 for head in _heads)


def test_silence_is_a_timeout_of_the_whole_call(js: JetStream, js_client: natsync.Client) -> None:
    with js_client.subscribe("silent"):
        with pytest.raises(natsync.RequestTimeoutError, match=r"silent within 0\.05 s"):
            js.publish("silent", timeout=0.05)


def test_with_an_id_it_outlives_a_restart_of_the_server(
    start_server: StartServer, stream_name: str
) -> None:
    server = start_server(JETSTREAM)
    with natsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(StreamConfig(stream_name))
        server.stop()
        future = nc.request_async("nobody.there", timeout=0.05)
        with pytest.raises(natsync.Error):
            future.result(5)
        server.start()
        assert js.publish(stream_name, msg_id="1").seq == 1


def test_an_attempt_that_nobody_answers_is_made_again_with_an_id(
    js: JetStream, js_client: natsync.Client, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a leader that was killed with what had reached it."""
    monkeypatch.setattr("natsync.jetstream.publishing.ATTEMPT", 0.02)
    monkeypatch.setattr("natsync.jetstream.publish_window.ATTEMPT", 0.02)
    asked = []
    answers = True

    def answer_from_the_third_on(msg: Msg) -> None:
        asked.append(msg)
        if answers and len(asked) >= 3:
            msg.respond(b'{"stream":"s","seq":9}')

    with js_client.subscribe(stream_name, handler=answer_from_the_third_on):
        assert js.publish(stream_name, msg_id="1").seq == 9 and len(asked) >= 3
        asked.clear()
        assert js.publish_async(stream_name, msg_id="1").result(5).seq == 9 and len(asked) >= 3
        answers = False
        with pytest.raises(natsync.RequestTimeoutError, match=r"within 0\.2 s"):
            js.publish(stream_name, msg_id="1", timeout=0.2)


@pytest.mark.parametrize("call", ["publish", "publish_async"])
def test_what_may_be_stored_is_never_reported_as_refused(
    js: JetStream, js_client: natsync.Client, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A subscriber receives the first attempt and does not answer; nobody receives the later ones."""
    for module in ("publishing", "publish_window"):
        monkeypatch.setattr(f"natsync.jetstream.{module}.ATTEMPT", 0.05)
    subject = js_client.new_inbox()
    with js_client.subscribe(subject, max_msgs=1):
        with pytest.raises(natsync.RequestTimeoutError, match=r"within 1\.5 s"):
            if call == "publish":
                js.publish(subject, msg_id="1", timeout=1.5)
            else:
                js.publish_async(subject, msg_id="1", timeout=1.5).result(10)


def publish_async(js: JetStream, subject: str, **options: Unpack[PublishOptions]) -> PubAck:
    return js.publish_async(subject, **options).result()


@pytest.mark.parametrize("publish", [JetStream.publish, publish_async])
@pytest.mark.parametrize("expected", [{"expected_last_subject_seq": 0}, {"expected_last_seq": 0}])
def test_a_message_that_meets_itself(
    js_server: NatsServer,
    js_client: natsync.Client,
    stream: Stream,
    publish: Callable[..., PubAck],
    expected: PublishOptions,
) -> None:
    """Its acknowledgement is lost, and it is published again. The server refuses that, as something is
    stored already; but it is not true that nothing of it is."""
    subject = f"{stream.name}.a"
    with Proxy(js_server.host, js_server.port) as proxy:
        cuts = [proxy.cut]  # only the first time
        with (
            js_client.subscribe(subject, handler=lambda msg: cuts and cuts.pop()()),
            natsync.connect(proxy.url, reconnect_wait=0.01) as nc,
        ):
            js_client.flush()
            proxy.link().to_client.swallow()
            with pytest.raises(ConnectionReconnectingError):
                publish(nc.jetstream(), subject, msg_id="1", **expected)
            assert stream.info().state.messages == 1
            with pytest.raises(WrongLastSequenceError):
                publish(nc.jetstream(), subject, msg_id="2", **expected)
