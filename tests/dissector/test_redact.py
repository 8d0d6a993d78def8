"""Secrets are masked, whatever they are dressed in; what proves nothing is shown."""

from __future__ import annotations

import json

import pytest

from dissect.nats.redact import MASK, masked_json, masked_text, secrets_of
from natsync.protocol import ConnectOptions, ProtocolError

SEED = "SUA" + "B" * 55


@pytest.mark.parametrize("key", ["pass", "auth_token", "jwt", "sig", "proxy_sig", "PASS", "Jwt"])
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
        ("'nats://hu/sh@h' is no @server", "'nats://***@h' is no @server"),
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


@pytest.mark.parametrize("text", [b'{"pass":"hush"', b"", b"[" * 100_000])
def test_what_is_no_json_is_masked_whole(text: bytes) -> None:
    assert masked_json(text) == MASK
    assert secrets_of(text) == frozenset()


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


def test_what_the_codec_can_read_is_shown() -> None:
    text = b'{"name":"\xff"}'
    assert ConnectOptions.parse(text).name == json.loads(masked_json(text))["name"]
