"""CONNECT: what it says, and whose credentials it carries."""

from __future__ import annotations

import json

from natsync.auth import connect_options
from natsync.options import Options, Server
from natsync.protocol import ServerInfo

HERE = Server("h")


def said(options: Options, server: Server = HERE, info: ServerInfo = ServerInfo()) -> object:
    return json.loads(connect_options(options, server, info).to_json())


def test_without_credentials() -> None:
    options = Options(servers=(HERE,), name="worker", version="1.2.3")
    assert said(options, info=ServerInfo(headers=True)) == {
        "verbose": False,
        "pedantic": False,
        "name": "worker",
        "lang": "python",
        "version": "1.2.3",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
    }


def test_a_server_without_headers_is_not_asked_for_what_needs_them() -> None:
    connect = connect_options(Options(servers=(HERE,)), HERE, ServerInfo(headers=False))
    assert not connect.headers and not connect.no_responders


def test_credentials_in_the_url_come_first() -> None:
    options = Options(servers=(HERE,), user="opt", password="secret")
    plain = connect_options(options, HERE, ServerInfo())
    assert (plain.user, plain.password, plain.auth_token) == ("opt", "secret", "")
    by_user = connect_options(options, Server("h", user="url", password="p"), ServerInfo())
    assert (by_user.user, by_user.password, by_user.auth_token) == ("url", "p", "")
    by_token = connect_options(options, Server("h", token="tok"), ServerInfo())
    assert (by_token.user, by_token.password, by_token.auth_token) == ("", "", "tok")
