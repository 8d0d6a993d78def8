"""INFO and CONNECT: typed as Go reads them, nothing unknown lost, no secret shown, and the kind they tell."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsync.protocol import (
    ConnectOptions,
    Kind,
    ProtocolError,
    ServerInfo,
    kind_of_connect,
    kind_of_info,
)
from natsync.protocol.handshake import SECRETS

SECRET = "s3cr3t-never-shown"
keys = st.sampled_from(
    [
        "server_id",
        "Port",
        "HEADERS",
        "connect_urls",
        "pass",
        "jwt",
        "cluster",
        "extra",
        "password",
        "always",
    ]
) | st.text(max_size=5)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
jsons = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)


def test_info_is_typed() -> None:
    info = ServerInfo.parse(
        b'{"server_id":"NA","port":4222,"headers":true,"max_payload":99,"connect_urls":["a:1","b:2"]}'
    )
    assert (info.server_id, info.port, info.headers, info.max_payload) == ("NA", 4222, True, 99)
    assert info.connect_urls == ("a:1", "b:2")
    assert (info.proto, info.nonce, info.jetstream, info.extra) == (0, "", False, {})


def test_connect_has_the_defaults_of_servers() -> None:
    options = ConnectOptions.parse(b"{}")
    assert options == ConnectOptions()
    assert (options.verbose, options.pedantic, options.echo) == (True, True, True)
    assert (options.protocol, options.headers, options.cluster) == (0, False, None)


def test_keys_are_read_as_go_reads_them() -> None:
    info = ServerInfo.parse(b' {"PORT":1,"port":2,"Server_ID":"x","ldm":null,"new":null} ')
    assert (info.port, info.server_id, info.ldm, info.extra) == (2, "x", False, {})


def test_escapes_and_bad_utf8_are_read() -> None:
    info = ServerInfo.parse(b'{"server_name":"a\\u003e\xff","cluster":"\xc3\xa4"}')
    assert (info.server_name, info.cluster) == ("a>\ufffd", "\u00e4")


def test_unknown_keys_and_wrong_types_are_kept() -> None:
    text = b'{"port":"x","headers":1,"proto":true,"connect_urls":["a",1],"new":{"b":[1]},"max_payload":1.5}'
    info = ServerInfo.parse(text)
    assert info.extra == json.loads(text)
    assert (info.port, info.headers, info.proto, info.connect_urls) == (0, False, 0, ())
    assert json.loads(info.to_json())["new"] == {"b": [1]}


def test_names_of_ours_are_no_keys_of_theirs() -> None:
    options = ConnectOptions.parse(b'{"pass":"p","password":"q","extra":1,"always":2}')
    assert options.password == "p"
    assert options.extra == {"password": "q", "extra": 1, "always": 2}


@pytest.mark.parametrize(
    "text, reason",
    [
        (b"", "JSON that cannot be read"),
        (b"{", "JSON that cannot be read"),
        (b"{}{}", "JSON that cannot be read"),
        (b'{"a":NaN}', "JSON that cannot be read"),
        (b'{"a":-Infinity}', "JSON that cannot be read"),
        (b"[" * 100_000, "JSON that cannot be read"),
        (b'{"port":%b}' % (b"9" * 5000), "JSON that cannot be read"),
        (b"[]", "JSON that is not an object"),
        (b"null", "JSON that is not an object"),
        (b'"x"', "JSON that is not an object"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_object_is_refused(text: bytes, reason: str) -> None:
    for cls in (ServerInfo, ConnectOptions):
        with pytest.raises(ProtocolError) as caught:
            cls.parse(text)
        assert (caught.value.reason, caught.value.snippet) == (reason, b"")


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=40)
    | st.dictionaries(keys, jsons, max_size=6).map(lambda d: json.dumps(d).encode())
)
def test_any_bytes_are_an_object_or_an_error(text: bytes) -> None:
    for cls in (ServerInfo, ConnectOptions):
        try:
            parsed = cls.parse(text)
        except ProtocolError:
            continue
        assert cls.parse(parsed.to_json()) == parsed
        repr(parsed)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=6).map(lambda key: "x_" + key), jsons, max_size=4))
def test_unknown_keys_survive_reading_and_writing(unknown: dict[str, object]) -> None:
    kept = {key: value for key, value in unknown.items() if value is not None}
    for cls in (ServerInfo, ConnectOptions):
        parsed = cls.parse(json.dumps(unknown).encode())
        assert parsed.extra == kept
        assert cls.parse(parsed.to_json()) == parsed


@pytest.mark.parametrize("key", sorted(SECRETS))
@pytest.mark.parametrize(
    "value", [SECRET, [SECRET], {"a": SECRET}], ids=["typed", "list", "object"]
)
@pytest.mark.parametrize("spell", [str, str.upper], ids=["lower", "upper"])
def test_secrets_are_never_in_repr(key: str, value: object, spell: object) -> None:
    assert callable(spell)
    options = ConnectOptions.parse(json.dumps({spell(key): value, "unknown": value}).encode())
    assert SECRET not in repr(options) and SECRET not in str(options)
    assert SECRET.encode() in options.to_json()


def test_repr_shows_what_is_said() -> None:
    options = ConnectOptions(user="bob", password=SECRET, verbose=False)
    assert repr(options) == "ConnectOptions(verbose=False, user='bob', password='***')"
    assert (
        repr(ServerInfo(port=1, extra={"b": 1, "a": 2})) == "ServerInfo(port=1, extra=['a', 'b'])"
    )


def test_what_is_written_is_what_the_reader_would_not_assume() -> None:
    assert ConnectOptions().to_json() == b'{"verbose":true,"pedantic":true}'
    options = ConnectOptions(verbose=False, echo=False, password="p", cluster="")
    assert json.loads(options.to_json()) == {
        "verbose": False,
        "pedantic": True,
        "echo": False,
        "pass": "p",
        "cluster": "",
    }
    assert json.loads(ServerInfo(connect_urls=("a:1",)).to_json()) == {
        **{"server_id": "", "version": "", "proto": 0, "host": "", "port": 0, "headers": False},
        **{"max_payload": 1 << 20, "connect_urls": ["a:1"]},
    }


@pytest.mark.parametrize(
    "info, kind",
    [
        (ServerInfo(server_id="N", gateway="east", client_id=1), Kind.GATEWAY),
        (ServerInfo(server_id="", compression="s2_auto"), Kind.LEAFNODE),
        (ServerInfo(server_id="N", client_id=1, leafnode_urls=("a:1",)), Kind.LEAFNODE),
        (ServerInfo(server_id="N", client_id=1, info_on_connect=True), Kind.LEAFNODE),
        (ServerInfo(server_id="N", client_id=1, nonce="x"), Kind.CLIENT),
        (ServerInfo(server_id="N", lnoc=True, leafnode_urls=("a:1",)), Kind.ROUTE),
        (ServerInfo(server_id="N", nonce="x", compression="accept"), Kind.ROUTE),
        (ServerInfo(server_id="old"), None),
    ],
)
def test_the_kind_that_info_tells(info: ServerInfo, kind: Kind | None) -> None:
    assert kind_of_info(info) is kind


@pytest.mark.parametrize(
    "options, kind",
    [
        (ConnectOptions(gateway="east", cluster=""), Kind.GATEWAY),
        (ConnectOptions(lang="python", name="N" + "A" * 55), Kind.CLIENT),
        (ConnectOptions(server_id="N", cluster="c"), Kind.LEAFNODE),
        (ConnectOptions(remote_account="A"), Kind.LEAFNODE),
        (ConnectOptions(compress_mode="off"), Kind.LEAFNODE),
        (ConnectOptions(is_hub=True), Kind.LEAFNODE),
        (ConnectOptions(cluster=""), Kind.ROUTE),
        (ConnectOptions(name="N" + "A" * 55), Kind.ROUTE),
        (ConnectOptions(name="0123456789abcdefABCDEF"), Kind.ROUTE),
        (ConnectOptions(name="me"), None),
    ],
)
def test_the_kind_that_connect_tells(options: ConnectOptions, kind: Kind | None) -> None:
    assert kind_of_connect(options) is kind
