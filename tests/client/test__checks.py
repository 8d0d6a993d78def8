"""Arguments of the wrong kind are reported by name, at the call, and before anything is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

import natsync
from natsync._checks import check_call, check_count, check_data, check_seconds, check_text
from natsync.options import parse_servers

from tests.support.fake_server import FakeServer


async def asynchronous() -> None: ...


async def lines() -> AsyncIterator[int]:
    yield 1


def yielding() -> Iterator[int]:
    yield 1


class Plain:
    def __call__(self) -> None: ...

    @classmethod
    def called(cls) -> None: ...


class Async:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


GOOD: list[Callable[[], None]] = [
    lambda: check_seconds(timeout=0, stall=-1.5),
    lambda: check_count(workers=0),
    lambda: check_text(subject="", queue="q"),
    lambda: check_call(handler=None, on_close=print),
    lambda: check_call(
        handler=partial(print), on_close=Plain(), sentinel=Plain.called, on_error=int
    ),
    lambda: check_call(handler_context=contextmanager(yielding)),
    lambda: check_data(memoryview(b"")),
]
BAD: list[tuple[Callable[[], None], str]] = [
    (lambda: check_seconds(timeout="1"), "timeout must be a number of seconds, not str"),
    (lambda: check_seconds(timeout=True), "timeout must be a number of seconds, not bool"),
    (lambda: check_count(workers=1.0), "workers must be int, not float"),
    (lambda: check_text(subject=b"a"), "subject must be str, not bytes"),
    (lambda: check_call(handler=5), "handler must be callable, not int"),
    *(
        (
            partial(check_call, handler=function),
            "handler must be a plain function, not an async one",
        )
        for function in (
            asynchronous,
            partial(partial(asynchronous)),
            Async(),
            Async().method,
            lines,
        )
    ),
    *(
        (
            partial(check_call, handler=function),
            "handler must be a plain function, not one with yield",
        )
        for function in (yielding, partial(yielding))
    ),
    (lambda: check_data("a"), "data must be bytes, not str"),
    (lambda: check_data(None), "data must be bytes, bytearray or memoryview, not NoneType"),
]


def test_what_is_right_passes() -> None:
    for check in GOOD:
        check()


@pytest.mark.parametrize(("check", "expected"), BAD, ids=[expected for _, expected in BAD])
def test_what_is_wrong_is_reported_by_name(check: Callable[[], None], expected: str) -> None:
    with pytest.raises(TypeError) as caught:
        check()
    assert str(caught.value).startswith(expected)


CALLS: dict[str, Callable[[natsync.Client], object]] = {
    "flush": lambda nc: nc.flush("1"),  # type: ignore[arg-type]  # the point, here and below
    "rtt": lambda nc: nc.rtt("1"),  # type: ignore[arg-type]  # as above
    "close": lambda nc: nc.close("1"),  # type: ignore[arg-type]  # as above
    "drain": lambda nc: nc.drain("1"),  # type: ignore[arg-type]  # as above
    "wait": lambda nc: nc.wait_connected("1"),  # type: ignore[arg-type]  # as above
    "confirm": lambda nc: nc.publish_confirmed("a", timeout=b"1"),  # type: ignore[arg-type]  # as above
    "request": lambda nc: nc.request("a", timeout="1"),  # type: ignore[arg-type]  # as above
    "future": lambda nc: nc.request_async("a", timeout=[]),  # type: ignore[arg-type]  # as above
    "many": lambda nc: nc.request_many("a", stall="1"),  # type: ignore[arg-type]  # as above
    "sentinel": lambda nc: nc.request_many("a", sentinel=1),  # type: ignore[arg-type]  # as above
    "headers": lambda nc: nc.publish("a", headers=[("a", "b")]),  # type: ignore[arg-type]  # as above
    "handler": lambda nc: nc.subscribe("a", handler=5),  # type: ignore[arg-type]  # as above
    "workers": lambda nc: nc.subscribe("a", workers="5"),  # type: ignore[arg-type]  # as above
    "executor": lambda nc: nc.subscribe("a", handler=print, executor=5),  # type: ignore[arg-type]  # as above
    "limit": lambda nc: nc.subscribe("a", pending_msgs_limit="5"),  # type: ignore[arg-type]  # as above
    "next": lambda nc: nc.subscribe("a").next_msg("1"),  # type: ignore[arg-type]  # as above
    "messages": lambda nc: nc.subscribe("a").messages(limit="1"),  # type: ignore[arg-type]  # as above
    "end": lambda nc: nc.subscribe("a").drain("1"),  # type: ignore[arg-type]  # as above
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_with_the_wrong_type_changes_nothing(call: str) -> None:
    with FakeServer() as server, server.client() as (nc, _):
        with pytest.raises(TypeError, match=" must be "):
            CALLS[call](nc)
        assert nc.status is natsync.Status.CONNECTED
        assert nc.stats.out_msgs == 0


@pytest.mark.parametrize(
    "options",
    [
        {"connect_timeout": "2"},
        {"max_pings_out": 1.5},
        {"reconnect_buffer": None},
        {"on_error": 5},
        {"handler_context": 5},
        {"name": 5},
        {"tls": "x"},
        {"servers": None},
    ],
)
def test_an_option_of_the_wrong_type(options: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"^{next(iter(options))} must be "):
        natsync.connect(**options)  # type: ignore[arg-type]  # the point


def test_servers_of_the_wrong_type() -> None:
    with pytest.raises(TypeError, match="a URL in servers must be str, not bytes"):
        parse_servers([b"nats://h"])  # type: ignore[list-item]  # the point


@pytest.mark.parametrize("option", ["workers", "executor"])
def test_threads_for_no_handler(option: str) -> None:
    with FakeServer() as server, server.client() as (nc, _):
        with ThreadPoolExecutor() as pool, pytest.raises(natsync.OptionError, match="handler"):
            nc.subscribe("a", **{option: 2 if option == "workers" else pool})  # type: ignore[arg-type]  # any


def test_a_closed_client_does_not_reconnect() -> None:
    with FakeServer() as server, server.client() as (nc, _):
        nc.close(0)
        with pytest.raises(natsync.ConnectionClosedError):
            nc.reconnect()


def test_not_a_number_is_no_timeout() -> None:
    with FakeServer() as server, server.client() as (nc, _):
        sub = nc.subscribe("a")
        for call in (nc.request, nc.request_async):
            with pytest.raises(ValueError, match="NaN"):
                call("a", timeout=float("nan"))
        for wait in (sub.next_msg, nc.flush, nc.close, nc.drain, nc.wait_connected):
            with pytest.raises(ValueError, match="NaN"):
                wait(float("nan"))
