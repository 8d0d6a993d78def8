"""Secrets are masked, whatever they are dressed in; what proves nothing is shown."""

from __future__ import annotations

import json
import time

import pytest

from dissect.nats.secrets.redact import MASK, Secrets, masked_json, masked_text, secrets_of
from natsync.protocol import ConnectOptions, ProtocolError

SEED = "SUA" + "B" * 55


@pytest.mark.parametrize(
    "key", ["pass", "token", "auth_token", "jwt", "sig", "proxy_sig", "PASS", "Jwt"]
)
def test_secret_keys(key: str) -> None:
    text = masked_json(json.dumps({"user": "bob", key: "hush-hush"}).encode())
    assert json.loads(text) == {"user": "bob", key: MASK}


def test_secrets_of_another_type_and_deep_inside() -> None:
    assert (
        masked_json(b'{"pass":["a",{"b":1}],"x":{"sig":7}}') == '{"pass":"***","x":{"sig":"***"}}'
    )


def test_an_empty_secret_is_shown_as_empty() -> None:
    assert masked_json(b'{"pass":"","user":"x"}') == '{"pass":"","user":"x"}'


def test_passwords_in_urls() -> None:
    urls = b'{"connect_urls":["nats://bob:hush@h:1","nats-route://t0ken@h:2","h:3"]}'
    assert json.loads(masked_json(urls))["connect_urls"] == [
        "nats://bob:***@h:1",
        "nats-route://***@h:2",
        "h:3",
    ]


@pytest.mark.parametrize(
    "url, shown",
    [
        ("nats://bob:hu/sh@h:1", "nats://bob:***@h:1"),
        ("nats://bob:hu@sh@h:1", "nats://bob:***@h:1"),
        ("'nats://hu/sh@h' is not @server", "'nats://***@h' is not @server"),
        ("nats://h:1, a@b", "nats://h:1, a@b"),
    ],
)
def test_passwords_that_nobody_escaped(url: str, shown: str) -> None:
    assert masked_text(url) == shown


def test_seeds_anywhere() -> None:
    assert masked_text(f"my seed is {SEED}.") == "my seed is ***."
    assert SEED not in masked_json(json.dumps({"name": SEED, SEED: 1}).encode())


def test_public_keys_and_nonces_are_shown() -> None:
    text = json.dumps({"nkey": "U" + "A" * 55, "nonce": "abc"})
    assert json.loads(masked_json(text.encode())) == json.loads(text)


@pytest.mark.parametrize("text", [b'{"name":"hush"', b"", b"[" * 100_000])
def test_what_is_no_json_is_masked_whole(text: bytes) -> None:
    assert masked_json(text) == MASK
    assert secrets_of(text) == frozenset()


@pytest.mark.parametrize(
    "connect, repeated",
    [
        (b'{"pass":"hunter2","x":}', "hunter2"),
        (b'{"pass":"hunter2"} and more', "hunter2"),
        (b'{"pass":"hunter2","pass":"other"}', "hunter2"),
        (b'{"pass":"\\u0068unter2"}', "\\u0068unter2"),
        (b'{"pass":"\\u0068unter2"', "hunter2"),
        (b'{"p\\u0061ss":"hunter2"}', "hunter2"),
        (b'{"pass":12345678}', "12345678"),
        (b'{"opts":{"Pass":["hunter2"]}}', "hunter2"),
        (b'{"token":"hunter2"}', "hunter2"),
        (b'{"pass":"hunt\\"er2"', 'hunt"er2'),
    ],
)
def test_secrets_in_unusual_json_are_masked_where_they_are_repeated(
    connect: bytes, repeated: str
) -> None:
    secrets = Secrets()
    secrets.learn(connect)
    assert secrets.masked(f"refused: {repeated}!") == "refused: ***!"
    assert repeated not in masked_json(connect, secrets)


def test_the_user_of_a_leafnode_without_a_password_is_a_token() -> None:
    connect = b'{"version":"2.9.10","user":"t0ken-for-all","server_id":"NCJSAIT6","name":"spoke"}'
    assert secrets_of(connect) == {"t0ken-for-all"}
    secrets = Secrets()
    secrets.learn(connect)
    assert "t0ken" not in masked_json(connect, secrets)
    for shown in (
        b'{"user":"warehouse","server_id":"NCJSAIT6","pass":"hunter2"}',
        b'{"user":"warehouse","server_id":"NCJSAIT6","nkey":"UDXU"}',
        b'{"user":"warehouse","lang":"go"}',
        b'{"user":["warehouse"],"server_id":"NCJSAIT6"}',
    ):
        assert "warehouse" not in secrets_of(shown)


def test_the_search_for_secrets_is_linear() -> None:
    for text in (b'"pass":"' * 50_000, b'"pass":"\\' * 50_000, b'"pass"' * 50_000):
        began = time.process_time()
        secrets_of(text)
        assert time.process_time() - began < 5


@pytest.mark.parametrize("depth", [100, 300, 450, 600, 900, 5000])
def test_json_of_any_depth(depth: int) -> None:
    for begin, end in (b"[", b"]"), (b'{"a":', b"}"):
        text = b'{"pass":"hush","x":' + begin * depth + b"1" + end * depth + b"}"
        assert "hush" not in masked_json(text)


def test_a_secret_that_begins_with_another() -> None:
    secrets = frozenset(f"secret{'x' * size}" for size in range(9))
    assert masked_text("bad secretxxxx", secrets) == "bad ***"


def test_secrets_that_are_repeated_elsewhere() -> None:
    secrets = secrets_of(b'{"auth_token":"t0ken-for-all","user":"bob","sig":"abc"}')
    assert secrets == {"t0ken-for-all"}
    assert masked_text("bad token t0ken-for-all of bob", secrets) == "bad token *** of bob"
    assert secrets_of(b"[1]") == frozenset()


@pytest.mark.parametrize("text", [b"[1]", b"7", b'{"a":NaN}', b"{", b"\xff"])
def test_what_the_codec_cannot_read_is_masked_whole(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        ConnectOptions.parse(text)
    assert masked_json(text) == MASK


def test_a_number_beyond_a_float_does_not_become_what_json_lacks() -> None:
    assert masked_json(b'{"max_payload":-1e999}') == MASK


def test_what_the_codec_can_read_is_shown() -> None:
    text = b'{"name":"\xff"}'
    assert ConnectOptions.parse(text).name == json.loads(masked_json(text))["name"]


@pytest.mark.parametrize(
    "url, shown",
    [
        ("bob:hush@h:1", "bob:***@h:1"),
        ("t0ken@h", "***@h"),
        ("bob:hu@sh@[::1]:4222", "bob:***@[::1]:4222"),
        ("h:4222", "h:4222"),
    ],
)
def test_addresses_without_a_scheme(url: str, shown: str) -> None:
    for key in ("connect_urls", "ws_connect_urls", "gateway_url"):
        text = json.dumps({key: [url]}).encode()
        assert json.loads(masked_json(text)) == {key: [shown]}
    assert Secrets().masked_url(url) == shown


@pytest.mark.parametrize(
    "text, shown",
    [
        ("cannot reach bob:hush@h: refused", "cannot reach bob:***@h: refused"),
        ("cannot reach 't0ken@h:4222'", "cannot reach '***@h:4222'"),
        ("mail to ann@example.com", "mail to ann@example.com"),
    ],
)
def test_addresses_in_other_texts(text: str, shown: str) -> None:
    assert masked_text(text) == shown
    assert json.loads(masked_json(json.dumps({"name": text}).encode())) == {"name": shown}


def test_a_secret_is_masked_in_every_form_in_which_it_comes_back() -> None:
    secrets = Secrets()
    secrets.learn(b'{"pass":"hu\xffsh"}')
    assert secrets.masked("bad hu\\xffsh or hu\ufffdsh") == "bad *** or ***"
    secrets.learn(b'{"pass":"line\\nfeed\\ud800"}')
    assert secrets.masked("got line\\nfeed\\ud800") == "got ***"


@pytest.mark.parametrize("end", ["}", ""], ids=["JSON", "no JSON"])
@pytest.mark.parametrize("learned", [r"pä\"ss<&>", r"p\u00e4\"ss<&>", r"pä\"ss\u003c\u0026\u003e"])
@pytest.mark.parametrize(
    "repeated",
    [
        'pä"ss<&>',
        r"pä\"ss<&>",
        r"p\u00e4\"ss<&>",  # Python
        r"pä\"ss\u003c\u0026\u003e",  # Go
    ],
)
def test_a_secret_is_masked_where_it_is_escaped_in_another_way(
    learned: str, repeated: str, end: str
) -> None:
    secrets = Secrets()
    secrets.learn(f'{{"pass":"{learned}"{end}'.encode())
    assert secrets.masked(f"got {repeated}.") == "got ***."


def test_a_session_masks_its_secrets_in_json_too() -> None:
    secrets = Secrets()
    connect = b'{"user":"hush-hush","name":"I am hush-hush","pass":"hush-hush"}'
    secrets.learn(connect)
    assert "hush" not in masked_json(connect, secrets)


def test_with_very_many_secrets_texts_are_masked_whole() -> None:
    secrets = Secrets()
    for number in range(2000):
        secrets.learn(b'{"pass":"secret-%d"}' % number)
    assert secrets.masked("secret-1999") == secrets.masked("anything") == MASK
    assert json.loads(masked_json(b'{"user":"bob","pass":"x"}', secrets)).keys() == {MASK}
