"""Who talks."""

from __future__ import annotations

import pytest

from dissect.nats.records import SessionRecord
from dissect.nats.sessions.identity import Identity, auth_of
from dissect.nats.wire import Direction
from natsync.protocol import ConnectOptions, Kind, ServerInfo

ORIGINATOR, RESPONDER = Direction


def blank() -> SessionRecord:
    return SessionRecord(
        session="s",
        capture="c",
        kind="client",
        transport="tcp",
        originator="a:1",
        responder="b:2",
        first_ns=1,
        last_ns=2,
        start="handshake",
        end="open",
    )


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
    record = blank()
    identity.fill(record, Kind.CLIENT)
    assert (record.client_name, record.client_lang, record.client_version) == ("c", "go", "1.2")
    assert (record.server_id, record.server_name, record.account) == ("NS", "s", "SHOP")
    assert (record.user, record.auth, record.remote_name) == ("bob", "user_password", None)


def test_news_about_other_servers_are_not_about_the_sender() -> None:
    identity = Identity()
    identity.learn_info(RESPONDER, ServerInfo(server_id="NS", server_name="s", cluster="C"))
    identity.learn_info(ORIGINATOR, ServerInfo(server_id="NT", server_name="t"))
    identity.learn_info(RESPONDER, ServerInfo(server_id="NX", server_name="x"))
    identity.learn_connect(ConnectOptions(name="NT", cluster="C"))
    record = blank()
    identity.fill(record, Kind.ROUTE)
    assert (record.server_name, record.remote_name, record.cluster) == ("s", "t", "C")
    assert record.client_name is None


def test_a_leafnode_is_named_by_its_connect() -> None:
    identity = Identity()
    identity.learn_connect(ConnectOptions(name="spoke", server_id="NT", version="2.15.1"))
    record = blank()
    identity.fill(record, Kind.LEAFNODE)
    assert (record.remote_name, record.client_version) == ("spoke", "2.15.1")
