"""Secrets are masked, whatever they are dressed in; what proves nothing is shown."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from dissect.nats.cli import cli
from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.secrets.redact import (
    MASK,
    NOT_MASKED,
    Secrets,
    masked_json,
    masked_text,
    secrets_of,
)
from dissect.nats.tables import TABLES
from natsync.protocol import ConnectOptions, ProtocolError
from natsync.protocol.streaming import ConnectRequest, ConnectResponse

from tests.support.pcapwriter import Conversation, pcap_file

SEED = "SUA" + "B" * 55


@pytest.mark.parametrize(
    "key", ["pass", "token", "auth_token", "jwt", "sig", "proxy_sig", "PASS", "Jwt"]
)
def test_values_of_secret_keys_are_masked(key: str) -> None:
    text = masked_json(json.dumps({"user": "bob", key: "hush-hush"}).encode())
    assert json.loads(text) == {"user": "bob", key: MASK}


def test_secrets_of_another_type_and_deep_inside() -> None:
    assert (
        masked_json(b'{"pass":["a",{"b":1}],"x":{"sig":7}}') == '{"pass":"***","x":{"sig":"***"}}'
    )


def test_an_empty_secret_is_shown_as_empty() -> None:
    assert masked_json(b'{"pass":"","user":"x"}') == '{"pass":"","user":"x"}'


def test_passwords_in_urls_are_masked() -> None:
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


def test_a_seed_is_masked_wherever_it_stands() -> None:
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
    secrets = secrets.learned(connect)
    assert secrets.masked(f"refused: {repeated}!") == "refused: ***!"
    assert repeated not in masked_json(connect, secrets)


def test_the_user_of_a_leafnode_without_a_password_is_a_token() -> None:
    connect = b'{"version":"2.9.10","user":"t0ken-for-all","server_id":"NCJSAIT6","name":"spoke"}'
    assert secrets_of(connect) == {"t0ken-for-all"}
    secrets = Secrets()
    secrets = secrets.learned(connect)
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
    secrets = secrets.learned(b'{"pass":"hu\xffsh"}')
    assert secrets.masked("bad hu\\xffsh or hu\ufffdsh") == "bad *** or ***"
    secrets = secrets.learned(b'{"pass":"line\\nfeed\\ud800"}')
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
    secrets = secrets.learned(f'{{"pass":"{learned}"{end}'.encode())
    assert secrets.masked(f"got {repeated}.") == "got ***."


def test_a_session_masks_its_secrets_in_json_too() -> None:
    secrets = Secrets()
    connect = b'{"user":"hush-hush","name":"I am hush-hush","pass":"hush-hush"}'
    secrets = secrets.learned(connect)
    assert "hush" not in masked_json(connect, secrets)


def test_with_very_many_secrets_texts_are_masked_whole() -> None:
    secrets = Secrets()
    for number in range(2000):
        secrets = secrets.learned(b'{"pass":"secret-%d"}' % number)
    assert secrets.masked("secret-1999") == secrets.masked("anything") == MASK
    assert json.loads(masked_json(b'{"user":"bob","pass":"x"}', secrets)).keys() == {MASK}


SECRET = "hunter2-of-bob"


def session_that_repeats(secret: str) -> bytes:
    """A capture in which answers at many places repeat the password of the CONNECT."""
    conversation = Conversation(("10.0.0.1", 50000), ("10.0.0.2", 4222))
    conversation.handshake()
    conversation.from_server(b'INFO {"server_id":"NS","client_id":7,"max_payload":1048576} \r\n')
    connect = {"lang": "go", "user": "bob", "pass": secret, "headers": True}
    conversation.from_client(b"CONNECT " + json.dumps(connect).encode() + b"\r\nSUB _INBOX.> 1\r\n")

    def ask(subject: str, content: bytes, reply: str, answer: bytes, headers: bytes = b"") -> None:
        conversation.from_client(
            f"PUB {subject} {reply} {len(content)}\r\n".encode() + content + b"\r\n"
        )
        sizes = f"{len(headers)} {len(headers) + len(answer)}" if headers else f"{len(answer)}"
        line = f"{'H' if headers else ''}MSG {reply} 1 {sizes}\r\n".encode()
        conversation.from_server(line + headers + answer + b"\r\n")

    def of(kind: str, **members: object) -> bytes:
        return json.dumps({"type": f"io.nats.jetstream.api.v1.{kind}_response", **members}).encode()

    error = {"code": 401, "err_code": 10000, "description": f"no: {secret}"}
    body = json.dumps({"name": "S", "description": f"of {secret}"}).encode()
    ask("$JS.API.STREAM.CREATE.S", body, "_INBOX.1", of("stream_create", error=error))
    ask("$JS.API.STREAM.INFO.S", b"", "_INBOX.2", of("stream_info", config=json.loads(body)))
    config = {"durable_name": "C", "description": secret}
    answer = of("consumer_info", stream_name="S", name="C", config=config)
    ask("$JS.API.CONSUMER.INFO.S.C", b"", "_INBOX.3", answer)
    status = f"NATS/1.0 408 of {secret}\r\n\r\n".encode()
    ask("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1", "_INBOX.4", b"", status)
    ask("$JS.API.STREAM.NAMES", b"", "_INBOX.5", b"", status)
    refused = json.dumps({"stream": "S", "seq": 0, "error": error}).encode()
    ask("orders.new", b"x", "_INBOX.6", refused)
    ask("$KV.B.key", b"x", "_INBOX.7", refused)
    failed = f"NATS/1.0\r\nNats-Service-Error: {secret}\r\nNats-Service-Error-Code: 5\r\n\r\n"
    ask("shop.buy", b"x", "_INBOX.8", b"", failed.encode())
    advisory = json.dumps({"type": "io.nats.jetstream.advisory.v1.x", "reason": secret}).encode()
    advised = f"MSG $JS.EVENT.ADVISORY.STREAM.CREATED.S 1 {len(advisory)}\r\n".encode()
    conversation.from_server(advised + advisory + b"\r\n")
    delivered = "$JS.ACK.S.C.1.1.1.1700000000000000000.0"
    conversation.from_server(f"MSG orders.new 1 {delivered} 1\r\nx\r\n".encode())
    term = f"+TERM no: {secret}".encode()
    conversation.from_client(f"PUB {delivered} {len(term)}\r\n".encode() + term + b"\r\n")
    refusal = ConnectResponse(error=f"no: {secret}").to_bytes()
    ask("_STAN.discover.cluster", ConnectRequest("me", "_INBOX.hb").to_bytes(), "_INBOX.9", refusal)
    conversation.from_server(f"-ERR 'no {secret}'\r\n".encode())
    conversation.close()
    return pcap_file(conversation.records)


@pytest.mark.parametrize("kernel", ["on", "off"])
def test_no_table_repeats_the_password_of_a_connect(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_DISSECT_KERNEL", kernel)
    path = tmp_path / "a.pcap"
    path.write_bytes(session_that_repeats(SECRET))
    shown = Options(redact=False)
    for options, expected in ((Options(), False), (shown, True)):
        rows = [str(row) for row in records([str(path)], TABLES, options)]
        names = {row.partition("(")[0] for row in rows if SECRET in row}
        assert bool(names) is expected, sorted(names)


@pytest.mark.parametrize("format", ["jsonl", "csv", "text", "parquet"])
@pytest.mark.parametrize("kernel", ["on", "off"])
def test_no_format_repeats_the_password_of_a_connect(
    kernel: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_DISSECT_KERNEL", kernel)
    path = tmp_path / "a.pcap"
    path.write_bytes(session_that_repeats(SECRET))
    for options, expected in (([], False), (["--no-redact"], True)):
        ran = CliRunner().invoke(cli, ["frames", str(path), "--format", format, *options])
        assert ran.exit_code == 0
        assert (SECRET in shown_in(ran.stdout_bytes, format)) is expected


def shown_in(output: bytes, format: str) -> str:
    """The rows that a command wrote, as text."""
    if format == "parquet":
        return str(parquet.read_table(pa.BufferReader(output)).to_pylist())
    return output.decode()


def test_texts_that_no_secret_is_in_need_no_search() -> None:
    secrets = Secrets().learned(b'{"pass":"hunter2"}')
    assert not secrets.may_be_in("plain, of hunter")
    for text in ("of hunter2", SEED, "nats://joe:word@host"):
        assert secrets.may_be_in(text) and secrets.masked(text) != text
    joined = Secrets().joined([secrets, Secrets().learned(b'{"pass":"other"}')])
    assert joined.may_be_in("another") and joined.may_be_in("hunter2")


def test_texts_that_are_shown_stay_so_whatever_is_learned() -> None:
    shown = NOT_MASKED.learned(b'{"pass":"hunter2"}').with_texts(["word"]).joined([Secrets()])
    for text in ("of hunter2 and word", SEED, "nats://joe:word@host"):
        assert shown.masked(text) == shown.masked_url(text) == text
        assert not shown.may_be_in(text)
    assert pickle.loads(pickle.dumps(shown)).masked(SEED) == SEED


def test_a_frame_on_its_way_to_another_process_keeps_the_secrets_to_mask() -> None:
    place = dict(session="s", number=1, ts_ns=0, packet=1, capture="a", sender="responder")
    place |= dict(kind="client", op="MSG", total_bytes=0, offset=0)
    frame = LayerFrame(secrets=Secrets().learned(b'{"pass":"hunter2"}'), **place)
    assert pickle.loads(pickle.dumps(frame)).secrets.masked("a hunter2") == "a ***"
