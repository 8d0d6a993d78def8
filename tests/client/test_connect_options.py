"""Every option of `connect` and of `TLS` against values of every type. Wrong ones are refused before
anything is opened, by an error that names the option."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import natsync
from natsync import TLS, errors
from natsync.credentials import Login
from natsync.options import CALLBACKS, Options

from tests.support.logins import ALICE, user_jwt


async def coroutine(*_: object) -> None:
    pass


async def asynchronous_generator(*_: object) -> Any:
    yield


def generator(*_: object) -> Iterator[None]:
    yield


class Coroutine:
    async def __call__(self) -> None:
        pass


def plain(*_: object) -> None:
    pass


VALUES: dict[str, object] = {
    "None": None,
    "True": True,
    "0": 0,
    "5": 5,
    "-1": -1,
    "10**400": 10**400,
    "1.5": 1.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "str": "x",
    "empty": "",
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "list": ["x"],
    "list of int": [5],
    "list of None": [None],
    "dict": {"X": "x"},
    "dict of int": {"X": 5},
    "dict by int": {5: "x"},
    "dict by bytes": {b"X": b"x"},
    "set": {5},
    "object": object(),
    "class": dict,
    "function": plain,
    "partial": partial(plain),
    "coroutine": coroutine,
    "partial coroutine": partial(coroutine),
    "asynchronous generator": asynchronous_generator,
    "generator": generator,
    "object that is a coroutine": Coroutine(),
}
CALLS = {"class", "function", "partial"}
SECONDS = {"5", "1.5"}
COUNT = {"0", "5", "10**400"}
LOGIN = {"str", "empty", *CALLS}
FLAG = {"True"}
# What is accepted; all else is refused.
ACCEPTED: dict[str, set[str]] = {
    "servers": {"str", "list", "dict", "dict of int"},  # the URLs are iterated over
    "name": {"None", "str", "empty"},
    **dict.fromkeys(("user", "password", "token"), LOGIN),
    "credentials": {*LOGIN},
    "nkey": {"empty", *CALLS},
    "jwt": {*LOGIN, "bytes"},
    "sign": {"None"},  # alone
    "tls": {"None", "True"},
    **dict.fromkeys(("connect_timeout", "request_timeout", "write_timeout"), {"None", *SECONDS}),
    **dict.fromkeys(("ping_interval", "reconnect_max_wait"), SECONDS),
    "reconnect_wait": {*SECONDS, *CALLS},
    "max_pings_out": COUNT - {"0"},
    "reconnect_buffer": COUNT,
    "max_reconnects": {"None", *COUNT},
    **dict.fromkeys(("verbose", "pedantic", "echo", "randomize", "discover", "reconnect"), FLAG),
    **dict.fromkeys(("retry_on_failed_connect", "ignore_auth_errors"), FLAG),
    **dict.fromkeys(("reconnect_after_fork", "websocket_compression"), FLAG),
    **dict.fromkeys(("select_server", "open_socket", "handler_context"), {"None", *CALLS}),
    **dict.fromkeys(("on_error", "on_connect", "on_disconnect"), {"None", *CALLS}),
    **dict.fromkeys(("on_reconnect", "on_discover", "on_lame_duck"), {"None", *CALLS}),
    "on_close": {"None", *CALLS},
    "http_proxy": {"None"},
    "websocket_headers": {"None", "dict", *CALLS},
    "inbox_prefix": {"str"},
    "instrumentation": {"None"},
    "client_class": set(),
}
TLS_ACCEPTED: dict[str, set[str]] = {
    **dict.fromkeys(("ca_file", "cert_file", "keylog_file"), {"str", "empty"}),
    "key_file": {"empty"},  # alone
    "key_password": {"empty"},
    "hostname": {"str", "empty"},
    "verify": FLAG,
    "handshake_first": FLAG,
    "context": {"None"},
}


class Reached(Exception):
    """The options were accepted."""


def reach(options: Options) -> None:
    raise Reached


def test_the_tables_have_every_option() -> None:
    assert {*inspect.signature(natsync.connect).parameters} == {*ACCEPTED}
    assert {*TLS._fields} == {*TLS_ACCEPTED}


@pytest.mark.parametrize("option", ACCEPTED)
def test_values_of_every_type(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr("natsync._connect.Connection", reach)
    accepted = set()
    for value in VALUES:
        try:
            natsync.connect(**{option: VALUES[value]})  # type: ignore[call-overload]  # of many types
        except Reached:
            accepted.add(value)
        except (TypeError, errors.OptionError) as error:
            assert option in str(error), value
    assert accepted == ACCEPTED[option]


@pytest.mark.parametrize("option", TLS_ACCEPTED)
def test_values_of_every_type_for_tls(option: str) -> None:
    accepted = set()
    for value in VALUES:
        try:
            TLS(**{option: VALUES[value]})  # type: ignore[arg-type]  # of many types
            accepted.add(value)
        except (TypeError, errors.OptionError) as error:
            assert option in str(error), value
    assert accepted == TLS_ACCEPTED[option]


def test_values_that_need_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("natsync._connect.Connection", reach)
    jwt, seed = user_jwt(), ALICE.seed
    made: list[dict[str, Any]] = [
        {"jwt": jwt, "sign": ALICE.sign},
        {"jwt": jwt, "nkey": seed},
        {"jwt": jwt.encode(), "nkey": seed.encode()},
        {"jwt": lambda: jwt, "nkey": lambda: seed},
        {"tls": TLS(context=ssl.create_default_context())},
        {"client_class": type("Mine", (natsync.Client,), {})},
    ]
    for options in made:
        with pytest.raises(Reached):
            natsync.connect(**options)


def test_each_option_is_declared_as_connect_declares_it() -> None:
    """With its default, and its type unless it is read first."""
    read = {"servers", "tls", "connect_timeout", "request_timeout", "write_timeout", "http_proxy"}
    declared = {**Options._declared, **Login._declared}
    parameters = inspect.signature(natsync.connect).parameters
    for name in declared.keys() & parameters.keys() - read:
        assert declared[name].default == parameters[name].default, name
        assert declared[name].annotation == parameters[name].annotation, name
    own = {"login", "callbacks", "version", "write_buffer"}
    assert declared.keys() - parameters.keys() == own
    other = {"instrumentation", "client_class", *CALLBACKS}
    assert parameters.keys() - declared.keys() == other
