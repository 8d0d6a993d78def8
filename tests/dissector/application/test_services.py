"""Services: a real one (samples/captures/services-2.15.1.pcap), and what may happen otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.application import services
from dissect.nats.application.messages import MESSAGES_AND_INTEREST
from dissect.nats.application.services import ServiceRecord, Services
from dissect.nats.pipeline import records
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.layer_talk import MS, Talk, values
from tests.support.paths import CAPTURES

INFO = "io.nats.micro.v1.info_response"


def told(talk: Talk) -> list[Record]:
    talk.close()
    return talk.of(ServiceRecord)


def info(key: str, *endpoints: str, name: str = "calc") -> dict[str, object]:
    listed = [{"name": each.upper(), "subject": each, "queue_group": "q"} for each in endpoints]
    return {"type": INFO, "name": name, "id": key, "version": "1.0.0", "endpoints": listed}


def served(talk: Talk, *endpoints: str, key: str = "ID", name: str = "calc") -> None:
    for sid, subject in enumerate(("$SRV.PING", f"$SRV.INFO.{name}", f"$SRV.INFO.{name}.{key}")):
        talk.sub(subject, f"{key}{sid}")
    for subject in endpoints:
        talk.sub(subject, f"{key}.{subject}", "q")


def test_a_real_service_and_its_client() -> None:
    rows = list(records([str(CAPTURES / "services-2.15.1.pcap")], ["services"]))
    names = ("side", "service", "version", "endpoint", "subject", "requests", "replies", "errors")
    assert sorted(values(rows, *names, "last_error_code")) == [
        ("client", "calculator", "1.2.0", "add", "add", 1, 1, 0, None),
        ("client", "calculator", "1.2.0", "divide", "divide", 3, 3, 1, "400"),
        ("service", "calculator", "1.2.0", "add", "add", 1, 1, 0, None),
        ("service", "calculator", "1.2.0", "divide", "divide", 3, 3, 1, "400"),
    ]
    assert {getattr(row, "last_error") for row in rows} == {"division by zero", None}
    assert all(
        bool(getattr(row, "instance")) == (getattr(row, "side") == "service") for row in rows
    )


def test_a_service_is_asked_by_its_own_connection() -> None:
    talk = Talk(Services())
    served(talk, "add")
    talk.pub("$SRV.INFO.calc", b"", "_INBOX.i")
    talk.msg("_INBOX.i", info("ID", "add"))
    talk.pub("add", b"12", "_INBOX.a")
    talk.msg("add", b"12", "_INBOX.a", sid="ID.add")
    talk.pub("_INBOX.a", b"3")
    talk.msg("_INBOX.a", b"3")
    found = values(told(talk), "side", "requests", "replies", "latency_max_ns")
    assert sorted(found) == [("client", 1, 1, 3 * MS), ("service", 1, 1, MS)]


def test_an_endpoint_that_nobody_describes_has_no_name() -> None:
    talk = Talk(Services())
    served(talk, "add")
    talk.sub("_INBOX.x", "9")
    talk.msg("add", b"12", "_INBOX.a", sid="ID.add")
    talk.pub("_INBOX.a", b"3")
    talk.msg("add", b"1", "_INBOX.b", sid="ID.add")
    names = ("service", "instance", "endpoint", "queue_group", "requests", "replies")
    assert values(told(talk), *names) == [("calc", "ID", None, "q", 2, 1)]
    names = ("request_bytes", "reply_bytes", "latency_max_ns", "errors")
    assert values(talk.of(ServiceRecord), *names) == [(3, 1, MS, 0)]


def test_two_services_on_a_connection_are_told_apart_by_what_they_say() -> None:
    talk = Talk(Services())
    served(talk, key="A", name="one")
    served(talk, "x", "y", key="B", name="two")
    for key, name, subject in (("A", "one", "x"), ("B", "two", "y")):
        talk.msg(f"$SRV.INFO.{name}", b"", "_INBOX.i")
        talk.pub("_INBOX.i", info(key, subject, name=name))
    assert values(told(talk), "subject", "service", "instance", "endpoint") == [
        ("x", "one", "A", "X"),
        ("y", "two", "B", "Y"),
    ]


def test_a_client_learns_before_or_after_it_asks() -> None:
    talk = Talk(Services())
    talk.pub("add", b"1", "_INBOX.1")
    talk.msg("_INBOX.1", b"2")
    talk.pub("price", b"1", "_INBOX.2")
    talk.msg("_INBOX.2", b"2")
    talk.pub("$SRV.INFO", b"", "_INBOX.3")
    for key in ("A", "B"):
        talk.msg("_INBOX.3", info(key, "add", "div.*"))
    talk.pub("div.7", b"1", "_INBOX.4")
    names = ("side", "service", "instance", "instances", "subject", "endpoint", "requests")
    assert values(told(talk), *names) == [
        ("client", "calc", None, 2, "add", "ADD", 1),
        ("client", "calc", None, 2, "div.7", "DIV.*", 1),
    ]


def test_services_that_disagree_and_errors_without_a_description() -> None:
    talk = Talk(Services())
    talk.pub("$SRV.INFO", b"", "_INBOX.3")
    talk.msg("_INBOX.3", info("A", "add", name="one"))
    talk.msg("_INBOX.3", info("B", "add", name="two"))
    talk.pub("add", b"", "_INBOX.1")
    talk.msg("_INBOX.1", status=503)
    talk.pub("other", b"", "_INBOX.2")
    error = {"Nats_Service_Error": "no", "Nats_Service_Error_Code": "500"}
    answer = talk.frame("responder", "MSG", "_INBOX.2", b"", None, error)
    talk.say(answer)
    names = ("subject", "service", "errors", "replies", "last_error", "last_error_code")
    assert values(told(talk), *names) == [
        ("add", None, 1, 0, None, None),
        ("other", None, 1, 1, "no", "500"),
    ]


def test_a_subscription_that_ends_serves_no_more() -> None:
    talk = Talk(Services())
    served(talk, "add")
    talk.unsub("ID.add", max_msgs=3)
    talk.msg("add", b"", "_INBOX.1", sid="ID.add")
    talk.unsub("ID.add")
    talk.msg("add", b"", "_INBOX.2", sid="ID.add")
    assert values(told(talk), "requests") == [(1,)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_OPEN", "_SUBJECTS", "_INSTANCES", "_ENDPOINTS"):
        monkeypatch.setattr(services, limit, 2)
    talk = Talk(Services())
    talk.pub("$SRV.INFO", b"", "_INBOX.i")
    for number in range(4):
        talk.msg("_INBOX.i", info(f"I{number}", *(f"s{each}" for each in range(9))))
        talk.pub(f"s{number}", b"", f"_INBOX.{number}")
    for inbox in ("_INBOX.a", "_INBOX.b"):
        talk.pub("s1", b"", inbox)
    rows = told(talk)
    assert values(rows, "subject", "anomalies") == [
        ("s0", [Anomaly.FORGOTTEN.value]),
        ("s1", [Anomaly.FORGOTTEN.value]),
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pub", "msg", "sub", "unsub"]),
            st.sampled_from(["$SRV.INFO", "$SRV.INFO.a.b", "a.*", "a.b", "_INBOX.1"]),
            st.none() | st.sampled_from(["_INBOX.1", "a.b"]),
            st.sampled_from(
                [
                    b"",
                    b'{"type": "io.nats.micro.v1.x", "name": "a", "id": 7, "endpoints": [1, {}]}',
                    b'{"type": "io.nats.micro.v1.x", "name": "a", "endpoints": [{"subject": ">"}]}',
                ]
            ),
        ),
        max_size=30,
    )
)
def test_any_conversation_gives_rows(said: list[tuple[str, str, str | None, bytes]]) -> None:
    talk = Talk(Services())
    for way, subject, reply, body in said:
        if way == "sub":
            talk.sub(subject)
        elif way == "unsub":
            talk.unsub()
        elif way == "pub":
            assert talk.pub(subject, body, reply).op in MESSAGES_AND_INTEREST
        else:
            talk.msg(subject, body, reply)
    told(talk)
