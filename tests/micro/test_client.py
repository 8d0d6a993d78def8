"""Finding services, and asking them what they are and how they do."""

from __future__ import annotations

import socket

import pytest

import natsync
from natsync.micro import InvalidResponseError, ServiceClient, ServicePing, add_service

from tests.support.servers import NatsServer
from tests.support.wire import Wire

pytestmark = pytest.mark.server


def test_instances_are_found_by_name_and_id(nc: natsync.Client) -> None:
    add_service(nc, "one", "1.0.0")
    first, second = add_service(nc, "two", "1.0.0"), add_service(nc, "two", "1.1.0")
    client = ServiceClient(nc)
    assert sorted(ping.name for ping in client.ping()) == ["one", "two", "two"]
    assert {ping.version for ping in client.ping("two")} == {"1.0.0", "1.1.0"}
    (ping,) = client.ping("two", second.id)
    assert ping == ServicePing("two", second.id, "1.1.0")
    assert ping.rtt is not None and 0 < ping.rtt < 2
    assert [info.id for info in client.info("two", first.id)] == [first.id]
    assert {stats.name for stats in client.stats()} == {"one", "two"}


def test_nobody_is_an_empty_list(nc: natsync.Client) -> None:
    assert ServiceClient(nc).ping() == []
    assert ServiceClient(nc).stats("nobody") == []
    with pytest.raises(natsync.OptionError):
        ServiceClient(nc).info(id="A1")
    with pytest.raises(TypeError, match="prefix must be str"):
        ServiceClient(nc, prefix=None)  # type: ignore[arg-type]  # a wrong call


def test_a_wrong_response_is_reported_with_the_others(nc: natsync.Client) -> None:
    service = add_service(nc, "one", "1.0.0")
    nc.subscribe("$SRV.PING", handler=lambda msg: msg.respond(b"pong"))
    client = ServiceClient(nc)
    with pytest.raises(InvalidResponseError, match="bytes that are not JSON") as caught:
        client.ping()
    assert caught.value.others == (ServicePing("one", service.id, "1.0.0"),)
    assert [ping.id for ping in client.ping("one")] == [service.id]


def test_headers_that_cannot_be_read_are_a_wrong_response(
    nc: natsync.Client, server: NatsServer
) -> None:
    service = add_service(nc, "one", "1.0.0")
    block = b"NATS/1.0\r\nno colon\r\n\r\n"
    with socket.create_connection((server.host, server.port)) as connection:
        Wire(connection).connect()

        def respond(msg: natsync.Msg) -> None:
            head = f"HPUB {msg.reply} {len(block)} {len(block)}\r\n".encode()
            connection.sendall(head + block + b"\r\n")

        nc.subscribe("$SRV.PING", handler=respond)
        with pytest.raises(InvalidResponseError, match="without a colon") as caught:
            ServiceClient(nc).ping()
    assert caught.value.others == (ServicePing("one", service.id, "1.0.0"),)


def test_an_error_is_no_response(nc: natsync.Client) -> None:
    headers = {"Nats-Service-Error": "not allowed", "Nats-Service-Error-Code": "403"}
    nc.subscribe("$SRV.INFO", handler=lambda msg: msg.respond(headers=headers))
    with pytest.raises(InvalidResponseError, match="service error 403: not allowed"):
        ServiceClient(nc, stall=0.1).info()


def test_the_prefix_may_be_another(nc: natsync.Client) -> None:
    service = add_service(nc, "one", "1.0.0")

    def forward(msg: natsync.Msg) -> None:
        nc.publish("$SRV." + msg.subject.removeprefix("east.SRV."), msg.data, reply=msg.reply)

    nc.subscribe("east.SRV.>", handler=forward)
    (ping,) = ServiceClient(nc, prefix="east.SRV").ping("one", service.id)
    assert ping.id == service.id
