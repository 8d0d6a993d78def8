"""Subjects of JetStream, from the server's and the clients' sources and from real captures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.application.jetstream.subjects import (
    ack_subject,
    api_subject,
    purpose,
)


@pytest.mark.parametrize(
    "subject, expected",
    [
        ("$JS.API.INFO", ("INFO", "", "", "", "", True)),
        ("$JS.API.STREAM.NAMES", ("STREAM.NAMES", "", "", "", "", True)),
        ("$JS.API.STREAM.CREATE.ORDERS", ("STREAM.CREATE", "", "ORDERS", "", "", True)),
        (
            "$JS.hub.API.STREAM.INFO.ORDERS",
            ("STREAM.INFO", "hub", "ORDERS", "", "", True),
        ),
        (
            "$JS.API.STREAM.MSG.GET.ORDERS",
            ("STREAM.MSG.GET", "", "ORDERS", "", "", True),
        ),
        ("$JS.API.CONSUMER.CREATE.S", ("CONSUMER.CREATE", "", "S", "", "", True)),
        ("$JS.API.CONSUMER.CREATE.S.C", ("CONSUMER.CREATE", "", "S", "C", "", True)),
        (
            "$JS.API.CONSUMER.CREATE.S.C.a.*.>",
            ("CONSUMER.CREATE", "", "S", "C", "a.*.>", True),
        ),
        (
            "$JS.API.CONSUMER.DURABLE.CREATE.S.C",
            ("CONSUMER.DURABLE.CREATE", "", "S", "C", "", True),
        ),
        (
            "$JS.API.CONSUMER.MSG.NEXT.S.C",
            ("CONSUMER.MSG.NEXT", "", "S", "C", "", True),
        ),
        ("$JS.API.DIRECT.GET.KV_b", ("DIRECT.GET", "", "KV_b", "", "", True)),
        (
            "$JS.API.DIRECT.GET.KV_b.$KV.b.k.1",
            ("DIRECT.GET", "", "KV_b", "", "$KV.b.k.1", True),
        ),
        ("$JS.API.STREAM.NEW.CALL", ("STREAM.NEW.CALL", "", "", "", "", True)),
        ("acme.js.CONSUMER.INFO.S.C", ("CONSUMER.INFO", "", "S", "C", "", False)),
        ("JS.acc.API.STREAM.INFO.S", ("STREAM.INFO", "", "S", "", "", False)),
    ],
)
def test_subjects_of_the_api_name_call_stream_and_consumer(
    subject: str, expected: tuple[object, ...]
) -> None:
    assert api_subject(subject) == expected


@pytest.mark.parametrize(
    "subject",
    [
        "orders.new",
        "$JS.ACK.S.C.1.1.1.1.0",
        "$JS.EVENT.ADVISORY.API",
        "$JS.hub.API.$KV.b.key",
        "$KV.b.STREAM.INFO.x",
        "shop.STREAM.OPENED.x",
        "a.INFO",
        "$JS.a.b.API.INFO",
        "",
    ],
)
def test_other_subjects_are_no_calls_of_the_api(subject: str) -> None:
    assert api_subject(subject) is None


def test_ack_replies_of_nine_tokens() -> None:
    found = ack_subject("$JS.ACK.ORDERS.worker.2.41.57.1795226503305173000.3")
    assert found is not None and found[1:] == (
        "",
        "ORDERS",
        "worker",
        2,
        41,
        57,
        1795226503305173000,
        3,
        "",
    )


@pytest.mark.parametrize("more", ["", ".later", ".later.and.more"])
def test_ack_replies_with_domain_and_account(more: str) -> None:
    reply = f"$JS.ACK.hub.szMpdrwD.S1.c.1.2.3.1795226503305173000.0{more}"
    found = ack_subject(reply)
    assert found is not None
    assert found[1:] == ("hub", "S1", "c", 1, 2, 3, 1795226503305173000, 0, "")
    assert found.key == reply
    none = ack_subject("$JS.ACK._.szMpdrwD.S1.c.1.2.3.4.0")
    assert none is not None and none.domain == ""


def test_ack_replies_between_servers_have_the_subject() -> None:
    reply = "$JS.ACK.ST.PU.1.1.1.1795213358078505028.1"
    found = ack_subject(f"{reply}@st.a")
    assert found is not None and (found.key, found.subject) == (reply, "st.a")
    mapped = ack_subject(f"_GR_.DdEU99.Zryo8b.{reply}@st.a@b")
    assert mapped is not None and (mapped.key, mapped.subject) == (reply, "st.a@b")
    longer = "$JS.ACK.hub.szMpdrwD.S1.c.1.2.3.4.0"
    found = ack_subject(f"{longer}@st.a")
    assert found is not None and (found.key, found.subject) == (longer, "st.a")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "_INBOX.1",
        "$JS.ACK.S.C.1.1.1.1",
        "$JS.ACK.S.C.1.1.1.1.0.x",  # ten tokens
        "$JS.ACK.S.C.1.1.1.x.0",
        "$JS.ACK.S.C.1.1..1.0",
        "$JS.ACK..C.1.1.1.1.0",
        f"$JS.ACK.S.C.1.1.1.{'9' * 200}.0",
        "$JS.ACK.S.C.1.1.1.1.\u0662",
        "_GR_.short",
    ],
)
def test_what_is_no_ack_reply(reply: str) -> None:
    assert ack_subject(reply) is None


@given(st.text(st.sampled_from("$JS.ACKPI@_GR12 \u0661"), max_size=60))
def test_any_text_is_understood_or_refused(text: str) -> None:
    for found in (
        ack_subject(text),
        ack_subject(f"$JS.ACK.{text}"),
        api_subject(f"$JS.{text}"),
    ):
        assert found is None or isinstance(found, tuple)


@pytest.mark.parametrize(
    "subject, expected",
    [
        ("REQ.SERVER.PING", "monitoring requests"),
        ("REQ.SERVER.PING.STATSZ", "monitoring requests"),
        ("REQ.ACCOUNT.A.CONNZ", "monitoring requests"),
        ("REQ.USER.INFO", "monitoring requests"),
        ("REQ.ACCOUNT.A.CLAIMS.LOOKUP", "account claims"),
        ("REQ.CLAIMS.LIST", "account claims"),
        ("ACCOUNT.A.CLAIMS.UPDATE", "account claims"),
        ("ACCOUNT.A.CONNECT", "connection events"),
        ("ACCOUNT.A.DISCONNECT", "connection events"),
        ("ACCOUNT.A.LEAFNODE.CONNECT", "connection events"),
        ("SERVER.N.CLIENT.AUTH.ERR", "connection events"),
        ("SERVER.N.OCSP.PEER.CONN.REJECT", "connection events"),
        ("SERVER.ACCOUNT.A.CONNS", "connection counts"),
        ("ACCOUNT.A.SERVER.CONNS", "connection counts"),
        ("SERVER.N.STATSZ", "server statistics"),
        ("SERVER.N.LAMEDUCK", "server shutdowns"),
        ("SERVER.N.SHUTDOWN", "server shutdowns"),
        ("LATENCY.M2.x", "service latencies"),
        ("_INBOX.x.1", "system replies"),
        ("NEW.KIND", "system"),
        ("", "system"),
    ],
)
def test_purposes_of_the_system_account(subject: str, expected: str) -> None:
    assert purpose(f"$SYS.{subject}") == expected


def test_subjects_of_the_system_have_a_purpose() -> None:
    assert purpose("$NRG.AE.S-R3F-x") == "Raft"
    assert purpose("$JSC.CI.A.S.C") == "JetStream cluster"
    assert purpose("$JS.API.INFO") == "JetStream API"
    assert purpose("$SRV.PING") == "service discovery"
    assert purpose("_INBOX.1") == purpose("orders") == purpose("") == ""
