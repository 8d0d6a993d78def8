"""Options and URLs: what is understood, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import pytest

from natsync.credentials import Login
from natsync.errors import OptionError
from natsync.options import Options, Server, check_max_msgs, parse_servers

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("nats://h:1", Server("h", 1)),
        ("nats://h", Server("h", 4222)),
        ("NATS://h/", Server("h", 4222)),
        ("h", Server("h", 4222)),
        ("h:1", Server("h", 1)),
        ("[::1]:5", Server("::1", 5)),
        ("nats://[fe80::1]", Server("fe80::1", 4222)),
        ("nats://[fe80::1%25eth0]:5", Server("fe80::1%eth0", 5)),
        ("nats://[fe80::1%eth0]:5", Server("fe80::1%eth0", 5)),
        ("nats://u:p@h", Server("h", user="u", password="p")),
        ("nats://u:@h", Server("h", user="u")),
        ("nats://tok@h", Server("h", token="tok")),
        ("nats://u%40x:p%3A%2F@h", Server("h", user="u@x", password="p:/")),
    ],
)
def test_a_url_is_understood(url: str, server: Server) -> None:
    assert parse_servers(url) == (server,)


def test_several_servers_keep_their_order() -> None:
    assert [str(server) for server in parse_servers("a, nats://b:2 ,c")] == [
        "a:4222",
        "b:2",
        "c:4222",
    ]
    assert parse_servers(["a", "b"]) == parse_servers("a,b")
    assert str(Server("::1", 2)) == "[::1]:2"


@pytest.mark.parametrize(
    "url",
    [
        "",
        " , ",
        "nats://",
        "nats://:4222",
        f"http://u:{SECRET}@h",
        f"ws://u:{SECRET}@h/a b",
        f"wss://{SECRET}@h/#part",
        f"ws://u:{SECRET}@h,nats://h",
        f"nats://u:{SECRET}@h:port",
        f"nats://u:{SECRET}@h:0",
        f"nats://u:{SECRET}@h:99999",
        f"nats://u:{SECRET}@[::1",
        f"nats://u:{SECRET}@[::1]x:5",
        f"nats://u:{SECRET}@h/path",
        f"nats://u:{SECRET}@h?x=1",
        f"nats://u:{SECRET}/x@h",
    ],
)
def test_a_bad_url_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_servers(url)
    error: BaseException | None = caught.value
    while error:
        assert SECRET not in f"{error!r} {vars(error)}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_urls_of_websockets() -> None:
    plain, secure = parse_servers("ws://u:p@h,wss://s@h:8443/nats/a?b=c")
    assert (plain.port, plain.path, plain.tls, plain.user) == (80, "/", False, "u")
    assert (secure.port, secure.path, secure.tls, secure.token) == (8443, "/nats/a?b=c", True, "s")
    assert str(secure) == "h:8443"


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"A": "x\r\nB: y"}, {"A": "ü"}])
def test_headers_that_no_request_can_carry(headers: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="websocket_headers"):
        Options(servers=parse_servers("ws://h"), websocket_headers=headers)


@pytest.mark.parametrize("name", ["Upgrade", "connection", "Sec-WebSocket-Key", "Content-Length"])
def test_headers_that_the_upgrade_sets_itself(name: str) -> None:
    with pytest.raises(OptionError, match=f"websocket_headers: {name} is a header of the upgrade"):
        Options(servers=parse_servers("ws://h"), websocket_headers={name: "1"})


def test_no_repr_shows_a_secret() -> None:
    servers = parse_servers(f"nats://u:{SECRET}@h,nats://{SECRET}@h")
    options = Options(servers=servers, login=Login(user="u", password=SECRET))
    assert SECRET not in repr(options) + repr(servers)
    assert SECRET not in repr(Options(servers=servers, login=Login(token=SECRET)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"connect_timeout": 0},
        {"connect_timeout": float("nan")},
        {"connect_timeout": float("inf")},
        {"request_timeout": -1},
        {"write_timeout": 0},
        {"ping_interval": 0},
        {"max_pings_out": 0},
        {"inbox_prefix": ""},
        {"inbox_prefix": "a."},
        {"inbox_prefix": "a.*"},
        {"inbox_prefix": "a b"},
        {"inbox_prefix": "a\ud800"},
        {"reconnect_wait": 0},
        {"reconnect_buffer": -1},
        {"max_reconnects": -1},
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError) as caught:
        Options(servers=(Server("h"),), **wrong)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.option == next(iter(wrong))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["name", "inbox_prefix"])
def test_text_is_str(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be str"):
        Options(servers=(Server("h"),), **{name: b"x"})  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("wrong", [0, -1, 1.5, 10**9, "x"])
def test_a_limit_of_messages_that_no_server_reads(wrong: int) -> None:
    with pytest.raises(OptionError):
        check_max_msgs(wrong)
    check_max_msgs(None)
    check_max_msgs(10**9 - 1)
