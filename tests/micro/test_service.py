"""Services: discovery, groups, queue groups, statistics, and how they stop (ADR-32)."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest

import natsync
from natsync import OptionError, ProtocolError
from natsync.micro import (
    EndpointStats,
    Request,
    Service,
    ServiceClient,
    ServiceStoppedError,
    add_service,
)

from tests.support.interrupts import entered_at
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


MICRO = str(Path(natsync.micro.__file__).parent)


def echo(request: Request) -> None:
    request.respond(request.data)


def name_of(service: Service) -> str:
    return json.loads(service.nc.request(f"$SRV.PING.{service.name}.{service.id}", timeout=5).data)[
        "name"
    ]


def respond(data: bytes, request: Request) -> None:
    request.respond(data)


def test_it_answers_on_all_nine_subjects(nc: natsync.Client) -> None:
    with add_service(nc, "Echo", "1.0.0", description="says it again") as service:
        service.add_endpoint("echo", echo)
        for verb in ("PING", "INFO", "STATS"):
            for subject in ("", ".Echo", f".Echo.{service.id}"):
                answer = json.loads(nc.request(f"$SRV.{verb}{subject}", timeout=5).data)
                assert answer["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
                assert (answer["name"], answer["id"]) == ("Echo", service.id)
        with pytest.raises(natsync.NoRespondersError):
            nc.request("$SRV.PING.echo", timeout=5)  # its case is that of the name
        nc.publish("$SRV.PING")  # wants no response
        assert name_of(service) == "Echo"


def test_instances_have_ids_of_their_own_and_share_requests(nc: natsync.Client) -> None:
    served: SimpleQueue[int] = SimpleQueue()

    def serve(number: int) -> None:
        service = add_service(nc, "work", "1.0.0")
        service.add_endpoint("work", lambda request: (served.put(number), request.respond()))
        service.add_endpoint("all", lambda request: request.respond(b"%d" % number), queue_group="")

    serve(1)
    serve(2)
    ids = {ping.id for ping in ServiceClient(nc).ping("work")}
    assert len(ids) == 2
    for _ in range(40):
        nc.request("work", timeout=5)
    numbers = [served.get() for _ in range(40)]
    assert set(numbers) == {1, 2} and served.empty()  # each request went to one of them
    answers = nc.request_many("all", timeout=5, max_msgs=2)
    assert {answer.data for answer in answers} == {b"1", b"2"}


def test_each_queue_group_gets_every_request(nc: natsync.Client) -> None:
    for number in range(3):
        service = add_service(nc, "copies", "1.0.0", queue_group=f"q{number}")
        service.add_endpoint("copy", partial(respond, b"%d" % number))
    answers = nc.request_many("copy", timeout=5, max_msgs=3)
    assert {answer.data for answer in answers} == {b"0", b"1", b"2"}


def test_groups_prefix_subjects_and_hand_down_queue_groups(nc: natsync.Client) -> None:
    with add_service(nc, "shop", "1.0.0", queue_group="shop", metadata={"region": "eu"}) as service:
        orders = service.add_group("orders", queue_group="clerks")
        v2 = orders.add_group("v2")
        service.add_endpoint("status", echo)
        orders.add_endpoint("new", echo, metadata={"schema": '{"type": "object"}'})
        v2.add_endpoint("list", echo, subject="list.*")
        v2.add_group("").add_endpoint("one", echo, queue_group="solo")
        v2.add_group("open", queue_group="").add_endpoint("one", echo)
        found = [
            (endpoint.name, endpoint.subject, endpoint.queue_group)
            for endpoint in service.info().endpoints
        ]
        assert found == [
            ("status", "status", "shop"),
            ("new", "orders.new", "clerks"),
            ("list", "orders.v2.list.*", "clerks"),
            ("one", "orders.v2.one", "solo"),
            ("one", "orders.v2.open.one", ""),
        ]
        assert [one.queue_group for one in service.stats().endpoints] == [
            queue_group for _, _, queue_group in found
        ]
        info = ServiceClient(nc).info("shop", service.id)
        assert info == [service.info()]
        assert info[0].metadata == {"region": "eu"}
        assert info[0].endpoints[1].metadata == {"schema": '{"type": "object"}'}
        assert nc.request("orders.v2.list.7", b"x", timeout=5).data == b"x"


def test_metadata_is_a_copy_that_nobody_changes(nc: natsync.Client) -> None:
    """ADR-32: metadata is immutable once a service has it."""
    own = {"region": "eu"}
    with add_service(nc, "shop", "1.0.0", metadata=own) as service:
        service.add_endpoint("status", echo, metadata=own)
        own["region"] = "us"
        for one in (service.info(), service.info().endpoints[0]):
            dict.update(one.metadata, region="asia")  # type: ignore[arg-type]  # not even so
        assert service.info().metadata == service.info().endpoints[0].metadata == {"region": "eu"}


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"name": "my service"}, OptionError),
        ({"version": "1.0"}, OptionError),
        ({"queue_group": "a b"}, ProtocolError),
        ({"metadata": {"a": 1}}, TypeError),
        ({"metadata": 5}, TypeError),
        ({"metadata": []}, TypeError),
        ({"description": b"x"}, TypeError),
        ({"on_stop": 7}, TypeError),
        ({"stats_handler": "data"}, TypeError),
    ],
)
def test_what_makes_no_service_is_refused(
    nc: natsync.Client, arguments: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        values = {"name": "a", "version": "1.0.0", **arguments}
        add_service(nc, **values)  # type: ignore[arg-type]  # wrong calls
    assert ServiceClient(nc).ping() == []


def test_what_is_no_connection_is_refused() -> None:
    for call in (partial(add_service, name="a", version="1.0.0"), ServiceClient):
        with pytest.raises(TypeError, match="^nc must be a Client, not str$"):
            call("nc")


def test_what_makes_no_endpoint_is_refused(nc: natsync.Client) -> None:
    with add_service(nc, "shop", "1.0.0") as service:
        with pytest.raises(OptionError, match="option name"):
            service.add_endpoint("a.b", echo)
        with pytest.raises(ProtocolError, match="invalid subject"):
            service.add_endpoint("a", echo, subject="a b")
        with pytest.raises(TypeError, match="subject must be str, not bytes"):
            service.add_endpoint("a", echo, subject=b"a")  # type: ignore[arg-type]  # a wrong call
        with pytest.raises(ProtocolError, match="invalid group"):
            service.add_group("all.>")
        with pytest.raises(TypeError, match="handler must be callable"):
            service.add_endpoint("a", b"echo")  # type: ignore[arg-type]  # a wrong call
        with pytest.raises(TypeError, match="handler must be callable, not NoneType"):
            service.add_endpoint("a", None)  # type: ignore[arg-type]  # a wrong call
        with pytest.raises(OptionError, match="workers"):
            service.add_endpoint("a", echo, workers=0)
        assert service.info().endpoints == ()


def test_statistics_and_their_reset(nc: natsync.Client) -> None:
    def data(stats: EndpointStats) -> dict[str, int]:
        return {"twice": 2 * stats.num_requests}

    with add_service(nc, "echo", "1.0.0", stats_handler=data) as service:
        service.add_endpoint("echo", echo)
        for _ in range(3):
            nc.request("echo", timeout=5)
        (stats,) = ServiceClient(nc).stats("echo", service.id)
        (endpoint,) = stats.endpoints
        assert (endpoint.num_requests, endpoint.num_errors, endpoint.data) == (3, 0, {"twice": 6})
        started = stats.started
        service.reset()
        (stats,) = ServiceClient(nc).stats("echo", service.id)
        assert stats.endpoints[0].num_requests == 0 and stats.started > started


def test_a_stats_handler_that_fails_costs_its_data_alone(
    nc: natsync.Client, reports: SimpleQueue[natsync.Error]
) -> None:
    with add_service(nc, "echo", "1.0.0", stats_handler=lambda stats: {1, 2}) as service:
        service.add_endpoint("echo", echo)
        (stats,) = ServiceClient(nc).stats("echo", service.id)
        assert stats.endpoints[0].data is None
        assert isinstance(reports.get(timeout=5).__cause__, TypeError)  # a set is not JSON


def test_stop_drains_what_has_come(nc: natsync.Client) -> None:
    entered, go_on = threading.Event(), threading.Event()
    ended: list[natsync.Error | None] = []

    def slow(request: Request) -> None:
        entered.set()
        go_on.wait(5)
        request.respond(b"done")

    service = add_service(nc, "slow", "1.0.0", on_stop=ended.append)
    service.add_endpoint("slow", slow)
    replies = [nc.request_async("slow", timeout=5) for _ in range(3)]
    assert entered.wait(5)
    nc.flush()
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(service.stop, timeout=None)
        with pytest.raises(ServiceStoppedError, match="service slow has stopped"):
            while True:  # until the other thread has begun
                service.add_endpoint("late", slow)
        service.stop()  # somebody else does
        assert not service.stopped and not service.wait(0)
        go_on.set()
        stopping.result(5)
    assert [reply.result().data for reply in replies] == [b"done"] * 3
    assert service.stopped and service.wait() and ended == [None]
    with pytest.raises(natsync.NoRespondersError):
        nc.request("slow", timeout=5)
    assert ServiceClient(nc).ping() == []


def test_stop_says_what_was_not_handled_in_time(nc: natsync.Client) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def stuck(request: Request) -> None:
        entered.set()
        go_on.wait(5)

    service = add_service(nc, "stuck", "1.0.0")
    service.add_endpoint("stuck", stuck)
    for _ in range(2):
        nc.publish("stuck")
    assert entered.wait(5)
    with pytest.raises(natsync.DrainTimeoutError) as caught:
        service.stop(timeout=0.05)
    assert caught.value.left == {"stuck": 2} and service.stopped
    go_on.set()


def test_a_stuck_handler_does_not_keep_other_endpoints_open(nc: natsync.Client) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def stuck(request: Request) -> None:
        entered.set()
        go_on.wait(30)

    def is_closed() -> bool:
        try:
            nc.request("other", timeout=5)
        except natsync.NoRespondersError:
            return True
        return False

    service = add_service(nc, "stuck", "1.0.0")
    service.add_endpoint("stuck", stuck)
    service.add_endpoint("other", echo)
    nc.publish("stuck")
    assert entered.wait(5)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(service.stop, timeout=20)
        try:
            eventually(is_closed)
        finally:
            go_on.set()
        stopping.result(5)


def test_a_handler_may_stop_its_service(nc: natsync.Client) -> None:
    service = add_service(nc, "once", "1.0.0")
    service.add_endpoint("once", lambda request: (service.stop(), request.respond(b"bye")))
    assert nc.request("once", timeout=5).data == b"bye"
    assert service.wait(5)


def test_several_services_share_a_connection_and_survive_a_reconnect(nc: natsync.Client) -> None:
    one, two = add_service(nc, "one", "1.0.0"), add_service(nc, "two", "2.0.0")
    one.add_endpoint("a", echo)
    two.add_endpoint("b", echo)
    one.stop()
    nc.reconnect()
    assert nc.wait_connected(5)
    assert nc.request("b", b"x", timeout=5).data == b"x"
    assert [ping.name for ping in ServiceClient(nc).ping("two")] == ["two"]
    assert repr(two) == f"Service('two', 2.0.0, id='{two.id}')"


def test_a_signal_handler_stops_a_service_that_gets_an_endpoint(nc: natsync.Client) -> None:
    """At each line of that: it ends, and nothing goes on listening."""

    for line in count(1):
        service = add_service(nc, "Echo", "1.0.0")
        was_entered = True  # unless the next line says otherwise
        with suppress(ServiceStoppedError):
            was_entered = entered_at(
                line, MICRO, lambda: service.add_endpoint("echo", echo), service.stop
            )
        service.stop()
        assert service.stopped and service.wait(0)
        with pytest.raises(natsync.NoRespondersError):
            nc.request("echo")
        if not was_entered:
            break
    assert line > 10


def test_a_signal_handler_asks_for_statistics(nc: natsync.Client) -> None:
    with add_service(nc, "Echo", "1.0.0") as service:
        service.add_endpoint("echo", echo)
        for call in (service.stats, service.reset, service.info):
            for line in count(1):
                if not entered_at(line, MICRO, call, lambda: (service.stats(), service.reset())):
                    break
            assert line > 2
