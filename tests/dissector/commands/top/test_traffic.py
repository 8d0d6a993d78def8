"""What `nats-dissect top` counts: first replies, rates, and bounded tables."""

from __future__ import annotations

from dissect.nats.commands.top import traffic as top_traffic
from dissect.nats.commands.top.traffic import Lines, SubjectLine, Traffic, grouped
from dissect.nats.schema.records import FrameRecord, Headers, RequestRecord


def frame(
    op: str,
    subject: str,
    ts_ns: int = 0,
    reply: str | None = None,
    sender: str = "originator",
    status: int | None = None,
    headers: Headers | None = None,
    size: int = 0,
) -> FrameRecord:
    return FrameRecord(
        session="aa",
        number=1,
        ts_ns=ts_ns,
        packet=1,
        capture="c",
        sender=sender,
        kind="client",
        op=op,
        subject=subject,
        reply=reply,
        payload_bytes=size,
        total_bytes=size + 20,
        offset=0,
        status=status,
        headers=headers,
    )


def asked(reply: FrameRecord | None) -> Traffic:
    traffic = Traffic()
    traffic.add([frame("PUB", "price", 100, "_INBOX.1")])
    if reply:
        traffic.add([reply])
    return traffic


def test_the_first_reply_is_the_latency() -> None:
    traffic = asked(frame("MSG", "_INBOX.1", 350, sender="responder", size=3))
    traffic.add([frame("MSG", "_INBOX.1", 900, sender="responder")])
    (line,) = traffic.requests
    assert (line.requests, line.failed, line.latencies.quantile(50)) == (1, 0, 250)
    assert line.latencies.count == 1 and not len(traffic.problems)


def test_replies_that_are_errors() -> None:
    service: Headers = {"Nats-Service-Error-Code": ["500"]}
    for reply, outcome in (
        (frame("HMSG", "_INBOX.1", 2, sender="responder", status=503), "no_responders"),
        (frame("HMSG", "_INBOX.1", 2, sender="responder", headers=service), "service_error"),
        (frame("HMSG", "_INBOX.1", 2, sender="responder", status=409), "api_error"),
    ):
        traffic = asked(reply)
        (problem,) = traffic.problems
        assert (problem.problem, problem.text) == (outcome, "request to price")
        assert [line.failed for line in traffic.requests] == [1]
    assert not len(asked(frame("HMSG", "_INBOX.1", 2, sender="responder", status=404)).problems)


def test_failures_that_only_the_row_of_the_request_shows() -> None:
    traffic = asked(None)
    row = RequestRecord(session="aa", subject="price", reply="_INBOX.1", sent_ns=1, request_bytes=0)
    traffic.add([row])
    (problem,) = traffic.problems
    assert (problem.problem, problem.count) == ("no_reply", 1)
    assert [(line.requests, line.failed) for line in traffic.requests] == [(1, 1)]


def test_rates_are_those_of_the_last_interval() -> None:
    traffic = Traffic()
    traffic.add([frame("PUB", "a", size=10) for _ in range(6)])
    traffic.measure(2.0)
    (line,) = traffic.subjects
    assert line.rates == {"published": 3, "delivered": 0, "forwarded": 0, "bytes": 30}
    assert traffic.rates["messages"] == 3
    traffic.measure(2.0)
    assert line.rates["published"] == traffic.rates["messages"] == 0


def test_a_full_table_drops_what_was_silent_longest() -> None:
    lines: Lines[SubjectLine] = Lines(8)
    for number in range(100):
        lines.line(number, lambda: SubjectLine(subject="a")).last_ns = number
    assert len(lines) <= 8 and len(lines) + lines.forgotten == 100
    assert lines.get(99) and not lines.get(0)


def test_requests_that_wait_are_bounded() -> None:
    traffic = Traffic()
    for number in range(top_traffic.MOST_WAITING + 5):
        traffic.add([frame("PUB", "price", 1, f"_INBOX.{number}")])
    traffic.add([frame("MSG", "_INBOX.0", 2, sender="responder")])
    assert traffic.latencies.count == 0
    traffic.add([frame("MSG", "_INBOX.5", 2, sender="responder")])
    assert traffic.latencies.count == 1


def test_subjects_for_one_use_are_one_line() -> None:
    assert grouped("_INBOX.x.y") == "_INBOX.>" and grouped("$JS.ACK.S.C.1.1.1.1.0") == "$JS.ACK.>"
    assert grouped("orders.new") == "orders.new"
