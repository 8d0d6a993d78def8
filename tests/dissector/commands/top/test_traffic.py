"""What `nats-dissect top` counts: first replies, rates, and bounded tables."""

from __future__ import annotations

from dissect.nats.commands.top.traffic import SubjectLine, TopLines, TopTraffic
from dissect.nats.schema.records import FrameRecord, RequestRecord
from dissect.nats.sessions import Moment, RequestEvent


def frame(
    op: str,
    subject: str,
    ts_ns: int = 0,
    reply: str | None = None,
    sender: str = "originator",
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
    )


def request(outcome: str = "ok", latency_ns: int | None = None) -> RequestRecord:
    return RequestRecord(
        session="aa",
        subject="price",
        reply="_INBOX.1",
        sent_ns=100,
        replied_ns=None if latency_ns is None else 100 + latency_ns,
        latency_ns=None if outcome == "no_responders" else latency_ns,
        outcome=outcome,
        request_bytes=0,
    )


def counted(row: RequestRecord) -> TopTraffic:
    """A request from its first moment to the last one."""
    traffic = TopTraffic()
    traffic.add([RequestEvent(Moment.SENT, row)])
    if row.replied_ns is not None:
        traffic.add([RequestEvent(Moment.ANSWERED, row)])
    traffic.add([RequestEvent(Moment.OVER, row)])
    return traffic


def test_latency_is_that_of_answered_requests() -> None:
    (line,) = counted(request("ok", 250)).requests
    assert (line.requests, line.failed, line.latencies.quantile(50)) == (1, 0, 250)
    assert (line.latencies.count, line.last_ns) == (1, 350)
    (line,) = counted(request("no_responders", 1)).requests
    assert (line.requests, line.failed, line.latencies.count) == (1, 1, 0)


def test_each_failure_counts_once() -> None:
    for outcome in ("no_responders", "service_error", "api_error", "no_reply", "refused"):
        answered = outcome not in ("no_reply", "refused")
        traffic = counted(request(outcome, 2 if answered else None))
        (problem,) = traffic.problems
        assert (problem.problem, problem.text) == (outcome, "request to price")
        assert [(line.requests, line.failed) for line in traffic.requests] == [(1, 1)]
    assert not len(counted(request("ok", 2)).problems)


def test_a_failure_is_shown_before_the_exchange_is_over() -> None:
    traffic = TopTraffic()
    traffic.add([RequestEvent(moment, request("api_error", 2)) for moment in list(Moment)[:2]])
    assert [line.failed for line in traffic.requests] == [1]


def test_rates_are_those_of_the_last_interval() -> None:
    traffic = TopTraffic()
    traffic.add([frame("PUB", "a", size=10) for _ in range(6)])
    traffic.measure(2.0)
    (line,) = traffic.subjects
    assert line.rates == {"published": 3, "delivered": 0, "forwarded": 0, "bytes": 30}
    assert traffic.rates["messages"] == 3
    traffic.measure(2.0)
    assert line.rates["published"] == traffic.rates["messages"] == 0


def test_a_full_table_drops_what_was_silent_longest() -> None:
    lines: TopLines[SubjectLine] = TopLines(8)
    for number in range(100):
        lines.line(number, lambda: SubjectLine(subject="a")).last_ns = number
    assert len(lines) <= 8 and len(lines) + lines.forgotten == 100
    assert lines.get(99) and not lines.get(0)
