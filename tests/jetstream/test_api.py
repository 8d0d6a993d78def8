"""Requests to the API: what comes back, what is not an answer of JetStream, pages, old servers."""

from __future__ import annotations

import json

import pytest

import natsync
from natsync._json import decode_object
from natsync.jetstream import (
    APIError,
    ConsumerConfig,
    InvalidResponseError,
    StreamConfig,
    UnsupportedError,
)
from natsync.jetstream.api import API, check_kept
from natsync.message import Msg
from natsync.options import DEFAULT, MAX_WAIT, wait_time

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


@pytest.fixture
def api(js_client: natsync.Client) -> API:
    """An API whose server is the test itself, under the prefix `fake`."""
    return API(js_client, None, "fake", 1.0)


def answering(api: API, *answers: bytes) -> natsync.Subscription:
    waiting = list(answers)

    def answer(msg: Msg) -> None:
        msg.respond(waiting.pop(0))

    sub = api.core.subscribe("fake.>", handler=answer)
    api.core.flush()
    return sub


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "0 bytes that are not JSON"), (b"[]", "not an object"), (b"{", "not JSON")],
)
def test_other_responders_are_named(api: API, data: bytes, words: str) -> None:
    with answering(api, data):
        with pytest.raises(
            InvalidResponseError, match=rf"invalid response on fake\.INFO: .*{words}"
        ):
            api.request("INFO")


def test_hostile_json_is_an_invalid_response() -> None:
    for data in (b"\xff", b"[" * 100_000, b"9" * 10_000, b'{"a": 1e999999}x'):
        with pytest.raises(InvalidResponseError):
            decode_object(data, "a")


def test_pages_end_where_the_list_does(api: API) -> None:
    pages = [
        {"total": 3, "names": ["a", "b"]},
        {"total": 3, "names": ["c"]},
    ]
    with answering(api, *(json.dumps(page).encode() for page in pages)):
        assert list(api.pages("LIST", "names", lambda item, subject: item)) == ["a", "b", "c"]
    shrunk = [{"total": 3, "names": ["a"]}, {"total": 3, "names": None}]
    with answering(api, *(json.dumps(page).encode() for page in shrunk)):
        assert list(api.pages("LIST", "names", lambda item, subject: item)) == ["a"]
    leaderless = [
        {"total": 4, "names": None, "missing": ["a", "b"]},
        {"total": 4, "names": ["c", "d"]},
    ]
    with answering(api, *(json.dumps(page).encode() for page in leaderless)):
        assert list(api.pages("LIST", "names", lambda item, subject: item)) == ["c", "d"]
    last = {"total": 3, "names": ["b", "c"], "missing": ["a"]}
    with answering(
        api, json.dumps(last).encode()
    ):  # asks for no other page, which would have c again
        assert list(api.pages("LIST", "names", lambda item, subject: item)) == ["b", "c"]
    offline = [  # a cluster names it twice if all its servers are offline
        {"total": 3, "names": [{"config": {"name": "a"}}, {"config": {"name": "b"}}]},
        {"total": 3, "names": [{"config": {"name": "c"}}]},
    ]
    offline[0]["missing"] = ["b"]
    with answering(api, *(json.dumps(page).encode() for page in offline)):
        assert len(list(api.pages("LIST", "names", lambda item, subject: item))) == 3
    with answering(api, b'{"names": 7}'):
        with pytest.raises(InvalidResponseError, match="names is not a list"):
            list(api.pages("LIST", "names", lambda item, subject: item))


def test_a_strict_server_names_the_field_it_does_not_know(js_server: NatsServer) -> None:
    with natsync.connect(js_server.url) as nc:
        with pytest.raises(
            UnsupportedError, match="novel needs a newer nats-server; this one is 2"
        ):
            nc.jetstream().create_stream(StreamConfig("strict", extra={"novel": 1}))


def test_an_error_without_a_class_of_its_own_has_its_facts(api: API) -> None:
    answer = {"error": {"code": 500, "err_code": 10049, "description": "no disk"}}
    with answering(api, json.dumps(answer).encode()):
        with pytest.raises(APIError) as caught:
            api.request("STREAM.CREATE.a", {"name": "a"})
    assert (caught.value.code, caught.value.err_code) == (500, 10049)


def test_a_field_that_was_dropped_is_an_error() -> None:
    asked = ConsumerConfig(name="c", filter_subjects=["a", "b"], metadata={"k": "v"})
    check_kept(asked, asked)
    with pytest.raises(UnsupportedError, match=r"filter_subjects needs nats-server 2\.10"):
        check_kept(asked, ConsumerConfig(name="c", metadata={"k": "v"}))


def test_how_long_a_call_waits(js_client: natsync.Client) -> None:
    api = API(js_client, None, None, 3.0)
    assert (api.seconds(DEFAULT), api.seconds(1), api.seconds(None)) == (3.0, 1, wait_time(None))
    assert api.seconds(1e10) == wait_time(1e10) == wait_time(float("inf")) == MAX_WAIT
    with pytest.raises(natsync.OptionError, match="NaN"):
        api.seconds(float("nan"))
    with pytest.raises(TypeError, match="timeout must be a number"):
        API(js_client, None, None, "3")  # type: ignore[arg-type]  # on purpose


def test_a_pause_ends_with_the_connection(api: API, js_client: natsync.Client) -> None:
    api.pause(0.01)
    js_client.reconnect()  # lost at once, or while it waits
    api.pause(10)
    assert js_client.wait_connected(10)


def test_silence_is_a_timeout(api: API) -> None:
    with api.core.subscribe("fake.>"):
        with pytest.raises(natsync.RequestTimeoutError, match=r"fake\.INFO within 0\.01 s"):
            api.request("INFO", timeout=0.01)
