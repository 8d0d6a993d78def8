"""The identity of both sides of a session."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.engine.session_row import add_peers
from dissect.nats.sessions.identity import Identity, UserToken, auth_of, read_token
from dissect.nats.types import Direction
from natsync.protocol import ConnectOptions, Kind, ServerInfo

from tests.support.records import session_record

ORIGINATOR, RESPONDER = Direction


@pytest.mark.parametrize(
    "connect, expected",
    [
        (b"{}", "none"),
        (b'{"auth_token":"x"}', "token"),
        (b'{"user":"x","pass":"y"}', "user_password"),
        (b'{"nkey":"U","sig":"s"}', "nkey"),
        (b'{"jwt":"j","nkey":"U","sig":"s"}', "jwt"),
    ],
)
def test_how_the_opener_proves_who_it_is(connect: bytes, expected: str) -> None:
    assert auth_of(ConnectOptions.parse(connect)) == expected


def test_a_client_and_its_server() -> None:
    identity = Identity()
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", server_name="s", version="2.15.1"))
    identity.learn_connect(ConnectOptions(name="c", lang="go", version="1.2", user="bob"))
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", remote_account="SHOP"))
    record = session_record()
    add_peers(record, identity, Kind.CLIENT)
    assert (record.client_name, record.client_lang, record.client_version) == ("c", "go", "1.2")
    assert (record.server_id, record.server_name, record.account) == ("NS", "s", "SHOP")
    assert (record.user, record.auth, record.remote_name) == ("bob", "user_password", None)


def test_news_about_other_servers_are_not_about_the_sender() -> None:
    identity = Identity()
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", server_name="s", cluster="C"))
    identity.learn_info(ORIGINATOR, ServerInfo(server_id="NT", server_name="t"))
    identity.learn_info(RESPONDER, ServerInfo(server_id="NX", server_name="x"))
    identity.learn_connect(ConnectOptions(name="NT", cluster="C"))
    record = session_record()
    add_peers(record, identity, Kind.ROUTE)
    assert (record.server_name, record.remote_name, record.cluster) == ("s", "t", "C")
    assert record.remote_cluster == "C"
    assert record.client_name is None


def test_a_leafnode_is_named_by_its_connect() -> None:
    identity = Identity()
    identity.learn_connect(ConnectOptions(name="spoke", server_id="NT", version="2.15.1"))
    record = session_record()
    add_peers(record, identity, Kind.LEAFNODE)
    assert (record.remote_name, record.client_version) == ("spoke", "2.15.1")


def test_a_leafnode_has_the_account_of_the_hub() -> None:
    """Its CONNECT names the account on the spoke: another one, which a refused leafnode names, too."""
    identity = Identity()
    identity.learn_connect(ConnectOptions(name="spoke", server_id="NT", remote_account="$G"))
    record = session_record()
    add_peers(record, identity, Kind.LEAFNODE)
    assert record.account is None
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", remote_account="SHOP"))
    add_peers(record, identity, Kind.LEAFNODE)
    assert record.account == "SHOP"


def test_the_account_of_a_leafnode_that_is_not_answered_is_that_of_its_jwt() -> None:
    claims = {"sub": "UABC", "iss": "ASIGN"}
    identity = Identity()
    identity.learn_connect(
        ConnectOptions(name="spoke", server_id="NT", remote_account="$G", jwt=token(claims))
    )
    record = session_record()
    add_peers(record, identity, Kind.LEAFNODE)
    assert record.account == "ASIGN"


def test_gossip_before_anything_else_names_nobody() -> None:
    identity = Identity()
    identity.learn_info(RESPONDER, ServerInfo(server_id="NX", ip="nats-route://10.0.0.9:6222/"))
    identity.learn_info(RESPONDER, ServerInfo(server_id="GWNX", gateway="west", gateway_cmd=1))
    identity.learn_info(ORIGINATOR, ServerInfo(server_id="", gateway="east", gateway_cmd=2))
    record = session_record()
    add_peers(record, identity, Kind.ROUTE)
    assert (record.server_id, record.cluster, record.remote_cluster) == (None, None, None)


def test_gateways_are_named_by_their_clusters() -> None:
    identity = Identity()
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", gateway="east", cluster="e"))
    identity.learn_connect(ConnectOptions(name="NT", cluster="", gateway="west"))
    record = session_record()
    add_peers(record, identity, Kind.GATEWAY)
    assert (record.cluster, record.remote_cluster) == ("east", "west")


def test_later_news_of_the_server_itself() -> None:
    identity = Identity()
    identity.learn_info(
        RESPONDER, ServerInfo(server_id="NS", cluster="x", connect_urls=("a:1",)), 1
    )
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", cluster="y"), 2)
    urls = ("a:1", "b:2")
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", connect_urls=urls, ldm=True), 3)
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", cluster="y", ldm=True), 4)
    record = session_record()
    add_peers(record, identity, Kind.CLIENT)
    assert (record.cluster, record.lame_duck_ns) == ("y", 3)
    assert record.connect_urls == ["a:1", "b:2"]


def token(claims: object) -> str:
    body = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


def test_a_jwt_says_who_it_is_for() -> None:
    claims = {"sub": "UABC", "name": "bob", "iss": "ASIGN", "nats": {"issuer_account": "AACC"}}
    assert read_token(token(claims)) == UserToken("UABC", "bob", "AACC")
    del claims["nats"]
    identity = Identity()
    identity.learn_connect(ConnectOptions(lang="go", jwt=token(claims), sig="hush"))
    record = session_record()
    add_peers(record, identity, Kind.CLIENT)
    assert (record.auth, record.user, record.user_name) == ("jwt", "UABC", "bob")
    assert record.account == "ASIGN"


@pytest.mark.parametrize(
    "jwt", ["", "a.b", "a.!.c", "a.bm9qc29u.c", token([1]), token({"sub": 7, "nats": 5})]
)
def test_a_jwt_that_cannot_be_read_says_nothing(jwt: str) -> None:
    assert read_token(jwt) == UserToken()


@given(st.text(max_size=60))
def test_any_text_in_place_of_a_jwt(text: str) -> None:
    read_token(text)
    read_token(f"a.{text}.c")
