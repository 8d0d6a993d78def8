"""Services: a real one (samples/captures/services-2.15.1.pcap), and what may happen otherwise."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.application import exchanges, services
from dissect.nats.application.messages import MESSAGES_AND_INTEREST
from dissect.nats.application.services import ServiceRecord, Services
from dissect.nats.pipeline import records
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values
from tests.support.paths import CAPTURES

INFO = "io.nats.micro.v1.info_response"


def rows_of(session: ScriptedSession) -> list[Record]:
    session.close()
    return session.of(ServiceRecord)


def info(key: str, *endpoints: str, name: str = "calc") -> dict[str, object]:
    listed = [{"name": each.upper(), "subject": each, "queue_group": "q"} for each in endpoints]
    return {"type": INFO, "name": name, "id": key, "version": "1.0.0", "endpoints": listed}


def served(session: ScriptedSession, *endpoints: str, key: str = "ID", name: str = "calc") -> None:
    for sid, subject in enumerate(("$SRV.PING", f"$SRV.INFO.{name}", f"$SRV.INFO.{name}.{key}")):
        session.sub(subject, f"{key}{sid}")
    for subject in endpoints:
        session.sub(subject, f"{key}.{subject}", "q")


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
    session = ScriptedSession(Services())
    served(session, "add")
    session.pub("$SRV.INFO.calc", b"", "_INBOX.i")
    session.msg("_INBOX.i", info("ID", "add"))
    session.pub("add", b"12", "_INBOX.a")
    session.msg("add", b"12", "_INBOX.a", sid="ID.add")
    session.pub("_INBOX.a", b"3")
    session.msg("_INBOX.a", b"3")
    found = values(rows_of(session), "side", "requests", "replies", "latency_max_ns")
    assert sorted(found) == [("client", 1, 1, 3 * MS), ("service", 1, 1, MS)]


def test_an_endpoint_that_nobody_describes_has_no_name() -> None:
    session = ScriptedSession(Services())
    served(session, "add")
    session.sub("_INBOX.x", "9")
    session.msg("add", b"12", "_INBOX.a", sid="ID.add")
    session.pub("_INBOX.a", b"3")
    session.msg("add", b"1", "_INBOX.b", sid="ID.add")
    names = ("service", "instance", "endpoint", "queue_group", "requests", "replies")
    assert values(rows_of(session), *names) == [("calc", "ID", None, "q", 2, 1)]
    names = ("request_bytes", "reply_bytes", "latency_max_ns", "errors")
    assert values(session.of(ServiceRecord), *names) == [(3, 1, MS, 0)]


def test_two_services_on_a_connection_are_told_apart_by_what_they_say() -> None:
    session = ScriptedSession(Services())
    served(session, key="A", name="one")
    served(session, "x", "y", key="B", name="two")
    for key, name, subject in (("A", "one", "x"), ("B", "two", "y")):
        session.msg(f"$SRV.INFO.{name}", b"", "_INBOX.i")
        session.pub("_INBOX.i", info(key, subject, name=name))
    assert values(rows_of(session), "subject", "service", "instance", "endpoint") == [
        ("x", "one", "A", "X"),
        ("y", "two", "B", "Y"),
    ]


def test_a_client_learns_before_or_after_it_asks() -> None:
    session = ScriptedSession(Services())
    session.pub("add", b"1", "_INBOX.1")
    session.msg("_INBOX.1", b"2")
    session.pub("price", b"1", "_INBOX.2")
    session.msg("_INBOX.2", b"2")
    session.pub("$SRV.INFO", b"", "_INBOX.3")
    for key in ("A", "B"):
        session.msg("_INBOX.3", info(key, "add", "div.*"))
    session.pub("div.7", b"1", "_INBOX.4")
    names = ("side", "service", "instance", "instances", "subject", "endpoint", "requests")
    assert values(rows_of(session), *names) == [
        ("client", "calc", None, 2, "add", "ADD", 1),
        ("client", "calc", None, 2, "div.7", "DIV.*", 1),
    ]


def test_services_that_disagree_and_errors_without_a_description() -> None:
    session = ScriptedSession(Services())
    session.pub("$SRV.INFO", b"", "_INBOX.3")
    session.msg("_INBOX.3", info("A", "add", name="one"))
    session.msg("_INBOX.3", info("B", "add", name="two"))
    session.pub("add", b"", "_INBOX.1")
    session.msg("_INBOX.1", status=503)
    session.pub("other", b"", "_INBOX.2")
    error = {"Nats_Service_Error": "no", "Nats_Service_Error_Code": "500"}
    answer = session.frame("responder", "MSG", "_INBOX.2", b"", None, error)
    session.say(answer)
    names = ("subject", "service", "errors", "replies", "last_error", "last_error_code")
    assert values(rows_of(session), *names) == [
        ("add", None, 1, 0, None, None),
        ("other", None, 1, 1, "no", "500"),
    ]


def test_accounts_between_servers_have_services_of_their_own() -> None:
    session = ScriptedSession(Services(), "route")
    for account, asked, answer in (
        ("A", "$SRV.INFO", info("ID", "add")),
        ("A", "add", {"sum": 3}),
        ("B", "add", {"sum": 4}),
        ("B", "$SRV.INFO", info("OTHER", "add", name="billing")),
    ):
        question = session.frame("originator", "RMSG", asked, b"12", "_INBOX.a", {})
        reply = session.frame("responder", "RMSG", "_INBOX.a", answer, None, {})
        for frame in (question, reply):
            frame.account = account
            session.say(frame)
    assert values(rows_of(session), "account", "service", "requests", "instances") == [
        ("A", "calc", 1, 1),
        ("B", "billing", 1, 1),
    ]


def test_accounts_between_servers_may_use_the_same_reply_subject() -> None:
    session = ScriptedSession(Services(), "route")
    frames = [
        session.frame("originator", "RMSG", "$SRV.INFO", b"", "replies", {}),
        session.frame("responder", "RMSG", "replies", info("ID", "add"), None, {}),
        session.frame("originator", "RMSG", "add", b"12", "replies", {}),
        session.frame("originator", "RMSG", "add", b"34", "replies", {}),
        session.frame("responder", "RMSG", "replies", b"7", None, {}),
        session.frame("responder", "RMSG", "replies", b"3", None, {}),
    ]
    for frame, account in zip(frames, "AAABBA"):
        frame.account = account
        session.say(frame)
    names = ("account", "requests", "replies", "latency_max_ns")
    assert values(rows_of(session), *names) == [("A", 1, 1, 3 * MS)]


def test_a_subscription_that_ends_serves_no_more() -> None:
    session = ScriptedSession(Services())
    served(session, "add")
    session.unsub("ID.add", max_msgs=3)
    session.msg("add", b"", "_INBOX.1", sid="ID.add")
    session.unsub("ID.add")
    session.msg("add", b"", "_INBOX.2", sid="ID.add")
    assert values(rows_of(session), "requests") == [(1,)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_WAITING", 3)
    for limit in ("_SUBJECTS", "_INSTANCES", "_ENDPOINTS"):
        monkeypatch.setattr(services, limit, 2)
    session = ScriptedSession(Services())
    session.pub("$SRV.INFO", b"", "_INBOX.i")
    for number in range(4):
        session.msg("_INBOX.i", info(f"I{number}", *(f"s{each}" for each in range(9))))
        session.pub(f"s{number}", b"", f"_INBOX.{number}")
    for inbox in ("_INBOX.a", "_INBOX.b"):
        session.pub("s1", b"", inbox)
    rows = rows_of(session)
    assert values(rows, "subject", "anomalies") == [("s1", [Anomaly.FORGOTTEN.value])]


def test_subscriptions_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_SIDS", 2)
    session = ScriptedSession(Services())
    session.sub("$SRV.PING.calc.ID", "p")
    for sid in "1234":
        session.sub("add", sid)
    for sid in "1234":
        session.msg("add", b"", f"_INBOX.{sid}", sid)
    assert values(rows_of(session), "subject", "requests", "anomalies") == [
        ("add", 2, [Anomaly.FORGOTTEN.value])
    ]


def test_a_service_is_counted_beside_many_other_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose requests to anything else have a subject each, before it asks the service and after."""
    monkeypatch.setattr(services, "_SUBJECTS", 8)
    session = ScriptedSession(Services())
    session.pub("$SRV.INFO.calc", b"", "_INBOX.i")
    session.msg("_INBOX.i", info("ID", "add"))
    for number in range(40):
        session.pub(f"order.{number}", b"", f"_INBOX.o{number}")
        if number >= 10:
            session.pub("add", b"", f"_INBOX.a{number}")
    rows = rows_of(session)
    assert values(rows, "subject", "requests", "anomalies") == [
        ("add", 30, [Anomaly.FORGOTTEN.value])
    ]


@pytest.mark.parametrize("limit", ["_SUBJECTS", "_INSTANCES", "_ENDPOINTS"])
def test_what_a_limit_leaves_out_is_shown(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def marks() -> list[tuple[object, ...]]:
        session = ScriptedSession(Services())
        for number in range(3):
            served(session, f"own{number}", key=f"I{number}")
        session.pub("$SRV.INFO", b"", "_INBOX.i")
        session.msg("_INBOX.i", info("I0", "own0", "other", "another"))
        return values(rows_of(session), "anomalies")

    assert marks() == [(None,)] * 3
    monkeypatch.setattr(services, limit, 2)
    found = marks()
    assert len(found) >= 2 and {str(mark) for mark in found} == {"(['forgotten'],)"}


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
def test_any_conversation_gives_rows(messages: list[tuple[str, str, str | None, bytes]]) -> None:
    session = ScriptedSession(Services())
    for way, subject, reply, body in messages:
        if way == "sub":
            session.sub(subject)
        elif way == "unsub":
            session.unsub()
        elif way == "pub":
            assert session.pub(subject, body, reply).op in MESSAGES_AND_INTEREST
        else:
            session.msg(subject, body, reply)
    rows_of(session)


def test_a_subject_is_served_by_its_own_endpoint_and_by_wildcards_in_order() -> None:
    session = ScriptedSession(Services())
    session.pub("$SRV.INFO", b"", "_INBOX.1")
    for key, subject in (("1", "a.*"), ("2", "a.b"), ("3", "a.>"), ("4", "b")):
        body = info(key, subject)
        body["version"] = key
        session.msg("_INBOX.1", body)
    session.pub("a.b", b"", "_INBOX.2")
    session.pub("a.*", b"", "_INBOX.3")
    rows = rows_of(session)
    assert values(rows, "subject", "instances", "version", "endpoint") == [
        ("a.b", 3, "3", "A.>"),
        ("a.*", 2, "3", "A.>"),
    ]


def test_many_instances_and_many_subjects_take_linear_time() -> None:
    def taken(count: int) -> float:
        session = ScriptedSession(Services())
        session.pub("$SRV.INFO", b"", "_INBOX.1")
        for key in range(count):
            session.msg("_INBOX.1", info(str(key), *(f"{key}.{each}" for each in range(20))))
        for number in range(2 * count):
            session.pub(f"asked.{number}", b"", f"_INBOX.a.{number}")
        start = process_time()
        session.close()
        return process_time() - start

    # Each endpoint was compared with each subject: 16 times as many took 256 times as long.
    assert min(taken(640) for _ in range(2)) < 100 * min(taken(40) for _ in range(3))
