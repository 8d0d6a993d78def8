"""CONNECT: what it says, and whose credentials it carries; to real servers too."""

from __future__ import annotations

import json
import pickle
import socket
import sys
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from natsync._engine.auth import Resolved, connect_options, resolve, resolve_headers
from natsync.credentials import Login
from natsync.errors import CredentialsError
from natsync.options import Options, Server
from natsync.protocol import (
    Connect,
    ConnectOptions,
    Decoder,
    Err,
    Frame,
    Info,
    Ok,
    Ping,
    Pong,
    Role,
    ServerInfo,
    encode,
)

from tests.support.logins import (
    ACCOUNT,
    ALICE,
    SEED,
    USER,
    creds,
    operator_config,
    public_bytes,
    user_jwt,
)
from tests.support.servers import NatsServer, StartServer

HERE = Server("h")
IN_URL = Server("h", user="url", password="p")
OPTIONS = Options(servers=(HERE,), name="worker", version="1.2.3")
NONCE = "vJBjZwZCQwIFEqk"
INFO = ServerInfo(headers=True, nonce=NONCE)
JWT = user_jwt()
SECRET = "s3cr3t"


def sent_options(login: Login, server: Server = HERE, info: ServerInfo = INFO) -> ConnectOptions:
    return connect_options(OPTIONS, resolve(login, server), info)


def test_without_credentials_connect_names_none() -> None:
    connect = sent_options(Login(), info=ServerInfo(headers=True))
    assert json.loads(connect.to_json()) == {
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
    connect = connect_options(OPTIONS, Resolved(), ServerInfo(headers=False))
    assert not connect.headers and not connect.no_responders


def test_credentials_in_the_url_come_first() -> None:
    login = Login(user="opt", password="secret")
    plain = sent_options(login)
    assert (plain.user, plain.password, plain.auth_token) == ("opt", "secret", "")
    by_user = sent_options(login, IN_URL)
    assert (by_user.user, by_user.password, by_user.auth_token) == ("url", "p", "")
    by_token = sent_options(login, Server("h", token="tok"))
    assert (by_token.user, by_token.password, by_token.auth_token) == ("", "", "tok")


def test_credentials_in_the_url_replace_an_nkey_and_go_with_a_jwt() -> None:
    by_nkey = sent_options(Login(nkey=SEED), IN_URL)
    assert (by_nkey.user, by_nkey.nkey, by_nkey.sig) == ("url", "", "")
    by_jwt = sent_options(Login(jwt=JWT, sign=ALICE.sign), IN_URL)
    assert (by_jwt.user, by_jwt.jwt) == ("url", JWT) and by_jwt.sig


def test_what_the_url_replaces_is_not_asked_for() -> None:
    def never() -> str:
        raise AssertionError

    assert sent_options(Login(user=never, password=never), IN_URL).user == "url"
    assert sent_options(Login(token=never), IN_URL).auth_token == ""
    assert sent_options(Login(nkey=never), IN_URL).nkey == ""


def signer(connect: ConnectOptions, key: str) -> bool:
    """Whether `sig` is this key's for the nonce; raises if not."""
    assert "=" not in connect.sig
    signature = urlsafe_b64decode(connect.sig + "==")
    Ed25519PublicKey.from_public_bytes(public_bytes(key)).verify(signature, NONCE.encode())
    return True


def test_an_nkey_signs_the_nonce() -> None:
    for login in (Login(nkey=SEED), Login(nkey=SEED.encode()), Login(nkey=lambda: SEED)):
        connect = sent_options(login)
        assert connect.nkey == USER and connect.jwt == ""
        assert signer(connect, USER)
    elsewhere = sent_options(Login(nkey=ALICE.public + "\n", sign=ALICE.sign))
    assert elsewhere.nkey == ALICE.public and signer(elsewhere, ALICE.public)


def test_credentials_sign_the_nonce_and_name_no_key() -> None:
    content = creds(JWT, ALICE.seed)
    logins = [
        Login(credentials=content),
        Login(credentials=lambda: content.encode()),
        Login(jwt=JWT.encode() + b"\n", sign=ALICE.sign),
        Login(jwt=lambda: JWT, sign=ALICE.sign),
        Login(jwt=JWT, nkey=ALICE.seed),
        Login(jwt=JWT.encode(), nkey=ALICE.seed.encode()),
        Login(jwt=lambda: JWT, nkey=lambda: ALICE.seed),
    ]
    for login in logins:
        connect = sent_options(login)
        assert (connect.jwt, connect.nkey) == (JWT, "")
        assert signer(connect, ALICE.public)


def test_a_seed_for_a_jwt_that_is_none_is_named_and_not_shown() -> None:
    for seed in (ALICE.seed[:-1], ACCOUNT.seed, ALICE.public):
        with pytest.raises(CredentialsError) as caught:
            sent_options(Login(jwt=JWT, nkey=lambda: seed))
        assert caught.value.option == "nkey"
        assert seed not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_headers_of_an_upgrade_are_made_when_they_are_needed() -> None:
    made = iter(["one", "two"])
    assert resolve_headers(None) == {}
    assert resolve_headers({"X": "fixed"}) == {"X": "fixed"}

    def headers() -> dict[str, str]:
        return {"X": next(made)}

    assert [resolve_headers(headers)["X"] for _ in range(2)] == ["one", "two"]
    with pytest.raises(
        CredentialsError, match="websocket_headers: the callable raised Stop"
    ) as got:
        resolve_headers(headers)
    assert isinstance(got.value.__cause__, StopIteration)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (None, "websocket_headers must be a mapping, or callable, not NoneType"),
        ([("X", "x")], "must be a mapping, or callable, not list"),
        ({"X": b"x"}, "a value in websocket_headers must be str, not bytes"),
        ({1: "x"}, "a name in websocket_headers must be str, not int"),
        ({"X": "a\r\nb"}, "the value of X must be printable ASCII"),
        ({"Upgrade": "x"}, "Upgrade is a header of the upgrade itself"),
    ],
)
def test_headers_that_no_upgrade_can_have(made: Any, reason: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        resolve_headers(lambda: made)
    assert caught.value.option == "websocket_headers" and reason in caught.value.reason


def test_a_server_without_nonce() -> None:
    with pytest.raises(CredentialsError, match="not supported by the server") as caught:
        sent_options(Login(nkey=SEED), info=ServerInfo())
    assert caught.value.option == "nkey"
    bearer = sent_options(Login(jwt=JWT), info=ServerInfo())
    assert (bearer.jwt, bearer.sig) == (JWT, "")
    assert sent_options(Login(credentials=creds(JWT, ALICE.seed)), info=ServerInfo()).sig == ""


def test_a_file_is_read_again_at_every_connect(tmp_path: Path) -> None:
    path = tmp_path / "user.creds"
    login = Login(credentials=path)
    with pytest.raises(CredentialsError, match="No such file") as caught:
        resolve(login, HERE)
    assert isinstance(caught.value.__cause__, Exception)
    for jwt in (JWT, user_jwt(bearer=True)):
        path.write_text(creds(jwt, ALICE.seed))
        assert sent_options(login).jwt == jwt


def test_callables_are_asked_at_every_connect() -> None:
    users, passwords, tokens = iter("ab"), iter("cd"), iter("ef")
    login = Login(user=lambda: next(users), password=lambda: next(passwords))
    assert [(it.user, it.password) for it in (sent_options(login), sent_options(login))] == [
        ("a", "c"),
        ("b", "d"),
    ]
    login = Login(token=lambda: next(tokens))
    assert [sent_options(login).auth_token for _ in range(2)] == ["e", "f"]


@pytest.mark.parametrize("option", ["user", "password", "token", "credentials", "nkey", "jwt"])
def test_what_a_callable_raises_is_the_cause(option: str) -> None:
    trouble = LookupError(SECRET)

    def failing() -> str:
        raise trouble

    with pytest.raises(CredentialsError, match="the callable raised LookupError") as caught:
        resolve(Login(**{option: failing}), HERE)  # type: ignore[arg-type]  # by name
    assert caught.value.option == option
    assert caught.value.__cause__ is trouble
    assert SECRET not in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("option", ["user", "password", "token", "credentials", "nkey", "jwt"])
def test_a_callable_that_returns_something_else(option: str) -> None:
    with pytest.raises(CredentialsError, match="the callable returned list") as caught:
        resolve(Login(**{option: list}), HERE)  # type: ignore[arg-type]  # by name
    assert caught.value.option == option


def test_a_callable_may_return_a_wrong_seed() -> None:
    with pytest.raises(CredentialsError, match="seed of an account") as caught:
        resolve(Login(nkey=lambda: ACCOUNT.seed), HERE)
    assert caught.value.option == "nkey"


def test_signatures_of_others_are_checked() -> None:
    for wrong in (b"", b"x" * 63, "x" * 64):
        with pytest.raises(CredentialsError, match="must return 64 bytes"):
            sent_options(Login(jwt=JWT, sign=lambda _: wrong))  # type: ignore[arg-type, return-value]  # no
    with pytest.raises(CredentialsError, match="raised ZeroDivisionError") as caught:
        sent_options(Login(jwt=JWT, sign=lambda _: bytes(1 // 0)))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_nonce_that_is_no_text() -> None:
    assert sent_options(Login(nkey=SEED), info=INFO.replace(nonce="\ud800")).sig


def test_no_secret_is_shown() -> None:
    login = Login(user="u", password=SECRET, credentials=creds(JWT, ALICE.seed))
    shown = f"{login!r} {resolve(login, HERE)!r} {sent_options(login)!r}"
    assert not any(secret in shown for secret in (SECRET, JWT, ALICE.seed))


def verdict(server: NatsServer, login: Login) -> Frame:
    """What the server answers to a CONNECT and PING with that login: PONG or -ERR."""
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        decoder = Decoder(Role.SERVER)
        while True:
            data = connection.recv(65536)
            assert data
            decoder.feed(data)
            for frame in decoder.read():
                match frame:
                    case Info(text) if not (info := ServerInfo.parse(text)).connect_info:
                        connect = sent_options(login, info=info)
                        connection.sendall(encode(Connect(connect.to_json())) + encode(Ping()))
                    case Pong() | Err():
                        return frame
                    case Info() | Ok() | Ping():
                        pass


@pytest.mark.server
@pytest.mark.parametrize("which", ["current", "old"])
def test_a_real_server_believes_nkeys(start_server: StartServer, which: str) -> None:
    config = f"authorization {{ users: [ {{ nkey: {USER} }} ] }}\n"
    server = start_server(config, which="old" if which == "old" else "current")
    assert isinstance(verdict(server, Login(nkey=SEED)), Pong)
    assert isinstance(verdict(server, Login(nkey=ALICE.seed)), Err)


@pytest.mark.server
@pytest.mark.parametrize("which", ["current", "old"])
def test_a_real_server_believes_credentials(start_server: StartServer, which: str) -> None:
    server = start_server(operator_config(), which="old" if which == "old" else "current")
    assert isinstance(verdict(server, Login(credentials=creds(JWT, ALICE.seed))), Pong)
    assert isinstance(verdict(server, Login(jwt=JWT, sign=ALICE.sign)), Pong)
    assert isinstance(verdict(server, Login(jwt=user_jwt(bearer=True))), Pong)
    assert isinstance(verdict(server, Login(jwt=JWT)), Err)
    assert isinstance(verdict(server, Login(credentials=creds(JWT, SEED))), Err)


@pytest.mark.server
def test_a_real_server_believes_users_and_tokens(start_server: StartServer) -> None:
    by_user = start_server('authorization { user: "u", password: "p" }\n')
    assert isinstance(verdict(by_user, Login(user=lambda: "u", password=lambda: "p")), Pong)
    assert isinstance(verdict(by_user, Login(user="u", password="q")), Err)
    by_token = start_server('authorization { token: "t" }\n')
    assert isinstance(verdict(by_token, Login(token=lambda: "t")), Pong)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/srv/app/worker.py", "--fast"], "worker.py"),
        (["/usr/bin/gunicorn"], "gunicorn"),
        (["/srv/shop/__main__.py"], "shop"),
        (["-c"], ""),
        ([""], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_a_client_without_a_name_has_that_of_the_program(
    monkeypatch: pytest.MonkeyPatch, argv: list[str] | None, name: str
) -> None:
    if argv is None:
        monkeypatch.delattr(sys, "argv")
    else:
        monkeypatch.setattr(sys, "argv", argv)
    servers = (Server("a", 4222),)
    sent = [
        connect_options(Options(servers=servers, name=option), Resolved(), ServerInfo()).name
        for option in (None, "", "mine")
    ]
    assert sent == [name, "", "mine"]
