"""Endpoints: what they count, and what becomes of a handler's exceptions."""

from __future__ import annotations

import json
import sys
import threading
from queue import SimpleQueue

import pytest

import natsync
from natsync.micro import (
    Endpoint,
    EndpointStats,
    Request,
    ServiceError,
    add_service,
    raise_for_error,
)

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


def math(request: Request) -> None:
    numbers = json.loads(request.data)
    if not isinstance(numbers, list):
        request.respond_error(400, "no list", b"[]")
        return
    try:
        request.respond(str(numbers[0] / numbers[1]).encode())
    except ZeroDivisionError as error:
        raise ServiceError(422, "division by zero", b"0") from error


def refusal(nc: natsync.Client, data: bytes) -> tuple[int, str, bytes]:
    with pytest.raises(ServiceError) as caught:
        raise_for_error(nc.request("divide", data, timeout=5))
    return caught.value.code, caught.value.description, caught.value.data


def test_errors_become_responses_and_are_counted(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    with add_service(nc, "math", "1.0.0") as service:
        divide = service.add_endpoint("divide", math)
        assert divide.stats() == EndpointStats("divide", "divide", "q")
        assert nc.request("divide", b"[6, 3]", timeout=5).data == b"2.0"
        assert divide.stats().num_requests == 1 and divide.stats().last_error == ""

        assert refusal(nc, b"7") == (400, "no list", b"[]")
        assert divide.stats().last_error == "400:no list"
        assert refusal(nc, b"[1, 0]") == (422, "division by zero", b"0")
        assert divide.stats().last_error == "422:division by zero"
        assert reports.empty()  # both are answers

        # What a handler did not foresee: its type is told to the requester, all of it to us.
        assert refusal(nc, b"[secret") == (500, "JSONDecodeError", b"")
        report = reports.get(timeout=5)
        assert isinstance(report, natsync.HandlerError)
        assert isinstance(report.__cause__, json.JSONDecodeError)

        stats = divide.stats()
        assert (stats.num_requests, stats.num_errors) == (4, 3)
        assert stats.last_error == "500:JSONDecodeError"
        assert stats.average_processing_time == stats.processing_time // 4 > 0
        divide.reset()
        assert divide.stats() == EndpointStats("divide", "divide", "q")


def test_a_handler_that_calls_sys_exit_answers_and_goes_on(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    with add_service(nc, "math", "1.0.0") as service:
        service.add_endpoint("divide", lambda request: sys.exit(3))
        assert [refusal(nc, b"")[:2] for _ in range(2)] == [(500, "SystemExit")] * 2
    assert isinstance(reports.get(timeout=5).__cause__, SystemExit)


def test_a_request_without_a_reply_subject_is_handled(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    def fail(request: Request) -> None:
        raise ServiceError(400, "no")

    with add_service(nc, "math", "1.0.0") as service:
        divide = service.add_endpoint("divide", fail)
        nc.publish("divide")
        nc.flush()
    assert (divide.stats().num_requests, divide.stats().last_error) == (1, "400:no")
    assert reports.empty()


def test_an_error_response_that_nobody_wants_is_one_error(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    with add_service(nc, "math", "1.0.0") as service:
        divide = service.add_endpoint("divide", lambda request: request.respond_error(400, "no"))
        nc.publish("divide")
        nc.flush()
    assert (divide.stats().num_errors, divide.stats().last_error) == (1, "400:no")
    assert isinstance(reports.get(timeout=5).__cause__, natsync.MsgNoReplyError)


def test_an_error_that_cannot_be_sent_is_answered_with_500(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    def fail(request: Request) -> None:
        raise ServiceError(400, "" if request.data == b"empty" else "big", bytes(2 << 20))

    with add_service(nc, "math", "1.0.0") as service:
        service.add_endpoint("divide", fail)
        assert refusal(nc, b"empty") == (500, "OptionError", b"")
        assert refusal(nc, b"big") == (500, "MaxPayloadError", b"")
    assert {type(reports.get(timeout=5).__cause__) for _ in range(2)} == {
        natsync.OptionError,
        natsync.MaxPayloadError,
    }


def test_an_error_after_an_error_response_sends_no_other(nc: natsync.Client) -> None:
    def fail(request: Request) -> None:
        request.respond_error(400, "first")
        raise ServiceError(400, "second")

    with add_service(nc, "math", "1.0.0") as service:
        service.add_endpoint("divide", fail)
        replies = list(nc.request_many("divide", timeout=5, stall=0.1))
    assert [reply.headers["Nats-Service-Error"] for reply in replies] == ["first"]


def test_workers_handle_requests_at_the_same_time(nc: natsync.Client) -> None:
    first: SimpleQueue[Request] = SimpleQueue()

    def pair(request: Request) -> None:
        """The second request answers both."""
        if request.data == b"1":
            first.put(request)
        else:
            first.get(timeout=5).respond(b"from the second")
            request.respond(b"own")

    with add_service(nc, "pairs", "1.0.0") as service:
        endpoint = service.add_endpoint("pair", pair, workers=2, pending_msgs_limit=10)
        replies = [nc.request_async("pair", data, timeout=5) for data in (b"2", b"1")]
        assert [reply.result().data for reply in replies] == [b"own", b"from the second"]
        assert endpoint.subscription and endpoint.subscription.pending_msgs_limit == 10
        assert repr(endpoint) == "Endpoint('pair', subject='pair')"
        assert isinstance(endpoint, Endpoint)


def test_requests_beyond_the_limit_are_dropped_counted_and_reported(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    """The service goes on: those that wait get their responses."""
    entered, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> None:
        entered.set()
        go_on.wait(5)
        request.respond(b"done")

    with add_service(nc, "slow", "1.0.0") as service:
        endpoint = service.add_endpoint("slow", slow, pending_msgs_limit=2)
        first = nc.request_async("slow", timeout=5)
        assert entered.wait(5)
        for _ in range(10):
            nc.publish("slow")
        assert isinstance(reports.get(timeout=5), natsync.SlowConsumerError)
        go_on.set()
        assert first.result(5).data == b"done"
        assert endpoint.subscription and endpoint.subscription.dropped > 0
        assert not service.stopped


def test_a_response_on_a_closed_connection_is_an_error(server: NatsServer) -> None:
    failed: SimpleQueue[Exception] = SimpleQueue()

    def close(request: Request) -> None:
        nc.close()
        try:
            request.respond(b"late")
        except natsync.Error as error:
            failed.put(error)

    nc = natsync.connect(server.url)
    add_service(nc, "closing", "1.0.0").add_endpoint("close", close)
    nc.publish("close", reply="replies")
    assert isinstance(failed.get(timeout=5), natsync.ConnectionClosedError)
