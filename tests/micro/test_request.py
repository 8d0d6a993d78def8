"""Requests of services, and the headers that make a response an error."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

import natsync
from natsync import MsgNoReplyError, OptionError
from natsync.micro import Request, ServiceError, error_headers, raise_for_error

pytestmark = pytest.mark.server


def test_the_headers_of_an_error() -> None:
    assert error_headers("404", "no order") == error_headers(404, "no order")
    assert error_headers(404, "no such\r\n order") == {
        "Nats-Service-Error": "no such order",
        "Nats-Service-Error-Code": "404",
    }
    for code, description in ((-1, "x"), (True, "x"), (400, " \n")):
        with pytest.raises(OptionError):
            error_headers(code, description)


def test_a_request_is_answered(nc: natsync.Client) -> None:
    failed: list[str] = []

    def handler(msg: natsync.Msg) -> None:
        request = Request(msg, failed.append)
        assert (request.subject, request.data, request.reply) == ("ask", b"x", msg.reply)
        if request.headers.get("wrong"):
            request.respond_error(400, "wrong\n", b"why", headers={"Trace": ["1", "2"]})
            assert request.answered_error
        else:
            request.respond(b"right", headers={"Trace": "1"})

    nc.subscribe("ask", handler=handler)
    assert raise_for_error(nc.request("ask", b"x", timeout=5)).data == b"right"
    answer = nc.request("ask", b"x", headers={"wrong": "yes"}, timeout=5)
    assert answer.headers.get_all("Trace") == ["1", "2"]
    with pytest.raises(ServiceError) as caught:
        raise_for_error(answer)
    assert (caught.value.code, caught.value.description, caught.value.data) == (
        400,
        "wrong",
        b"why",
    )
    assert failed == ["400:wrong"]


@pytest.mark.parametrize(
    "headers, code, description",
    [
        ({"Nats-Service-Error": "bad", "Nats-Service-Error-Code": "E7"}, 0, "E7: bad"),
        ({"Nats-Service-Error-Code": "503"}, 503, ""),
        ({"Nats-Service-Error": "bad"}, 0, ": bad"),
        ({"Nats-Service-Error-Code": "9" * 5000}, 0, "9" * 5000 + ": "),
    ],
)
def test_one_header_is_enough_for_an_error(
    headers: dict[str, str], code: int, description: str, nc: natsync.Client
) -> None:
    nc.subscribe("ask", handler=lambda msg: msg.respond(headers=headers))
    with pytest.raises(ServiceError) as caught:
        raise_for_error(nc.request("ask", timeout=5))
    assert (caught.value.code, caught.value.description) == (code, description)


def test_a_request_that_wants_no_response(nc: natsync.Client) -> None:
    requests: SimpleQueue[Request] = SimpleQueue()
    nc.subscribe("ask", handler=lambda msg: requests.put(Request(msg, lambda text: None)))
    nc.publish("ask", b"12")
    request = requests.get(timeout=5)
    assert request.reply == "" and repr(request) == "Request(subject='ask', 2 bytes)"
    with pytest.raises(MsgNoReplyError):
        request.respond()
