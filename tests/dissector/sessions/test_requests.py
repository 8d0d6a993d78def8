"""Requests and their replies."""

from __future__ import annotations

from dissect.nats.schema.records import Record, RequestRecord
from dissect.nats.sessions.quota import EntryQuota
from dissect.nats.sessions.requests import Moment, RequestEvent, RequestRows, Requests
from dissect.nats.sessions.subscriptions import Subscription
from natsync.protocol import HMsg, HPub, Msg, Pub

NOBODY = b"NATS/1.0 503\r\n\r\n"


class RecordedRequests:
    """Requests with rows, and without: the counts must be the same. Time goes by one a message."""

    def __init__(self, entries: int = 1 << 18) -> None:
        self.out: list[RequestRecord] = []
        self.quotas = EntryQuota(entries), EntryQuota(entries)
        rows = RequestRows("s", self._emit)
        self.both = Requests(self.quotas[0], rows), Requests(self.quotas[1])
        self.ts_ns = 0

    def _emit(self, row: Record) -> None:
        assert isinstance(row, RequestRecord)
        self.out.append(row)

    def send(self, message: Pub | HPub) -> None:
        self.ts_ns += 1
        for requests in self.both:
            size = message.header_bytes + message.payload_bytes
            requests.send(message.subject, message.reply, self.ts_ns, size)

    def receive(self, message: Msg | HMsg, pattern: bytes = b"") -> None:
        self.ts_ns += 1
        sub = Subscription(message.sid, pattern)
        for requests in self.both:
            size = message.header_bytes + message.payload_bytes
            headers = message.headers if isinstance(message, HMsg) else b""
            body = message.header_bytes, headers, message.payload
            requests.receive(message.subject, message.reply, self.ts_ns, size, sub, *body)

    def rows(self) -> list[RequestRecord]:
        for requests, quota in zip(self.both, self.quotas):
            left = quota.left
            requests.finish()
            assert quota.left >= left
            assert requests.sent == len(self.out)
            assert requests.replies == sum(row.responses for row in self.out)
            assert requests.no_responders == sum(row.status == 503 for row in self.out)
        return self.out


def test_replies_are_found_by_their_subject() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(b"svc", b"_INBOX.n.1", b"ask"))
    recorded.send(HPub(b"svc", b"_INBOX.n.2", b"NATS/1.0\r\n\r\n", b"x"))
    recorded.receive(Msg(b"_INBOX.n.2", b"1", payload=b"one"))
    recorded.receive(Msg(b"_INBOX.n.2", b"1", payload=b"three"))
    recorded.receive(Msg(b"news", b"2"))
    first, second = recorded.rows()
    assert (first.subject, first.reply, first.sent_ns) == ("svc", "_INBOX.n.1", 1)
    assert (first.replied_ns, first.latency_ns, first.responses) == (None, None, 0)
    assert (second.replied_ns, second.latency_ns, second.responses) == (3, 1, 2)
    assert (second.request_bytes, second.reply_bytes, second.status) == (13, 8, None)


def test_a_503_ends_a_request_without_a_latency() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(b"svc", b"_INBOX.1"))
    recorded.receive(HMsg(b"_INBOX.1", b"1", b"", NOBODY))
    (row,) = recorded.rows()
    assert (row.outcome, row.replied_ns) == ("no_responders", 2)
    assert (row.status, row.latency_ns, row.responses, row.reply_bytes) == (503, None, 0, 0)


def test_a_status_with_a_payload_and_a_block_that_is_none_are_replies() -> None:
    recorded = RecordedRequests()
    for number in (b"1", b"2"):
        recorded.send(Pub(b"svc", number))
    recorded.receive(HMsg(b"2", b"1", b"", b"no header block"))
    recorded.receive(HMsg(b"1", b"1", b"", b"NATS/1.0 409 Stop\r\n\r\n", b"x"))
    assert [(row.status, row.responses) for row in recorded.rows()] == [(409, 1), (None, 1)]


def test_copies_under_another_sid_do_not_count() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(b"svc", b"_INBOX.1"))
    for sid in (b"1", b"2", b"1"):
        recorded.receive(Msg(b"_INBOX.1", sid))
    assert recorded.rows()[0].responses == 2


def test_a_reply_subject_that_is_used_again() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(b"one", b"r"))
    recorded.receive(Msg(b"r", b"1"))
    recorded.send(Pub(b"two", b"r"))
    recorded.receive(Msg(b"r", b"1"))
    recorded.receive(Msg(b"r", b"1"))
    assert [(row.subject, row.latency_ns, row.responses) for row in recorded.rows()] == [
        ("one", 1, 1),
        ("two", 1, 2),
    ]


ACK = b"$JS.ACK.ST.CO.1.1.1.1795213358078505028.0"
NEXT = b"$JS.API.CONSUMER.MSG.NEXT.ST.CO"


def test_a_pull_gets_what_comes_by_the_sid_of_its_inbox() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(NEXT, b"_INBOX.1"))
    recorded.receive(Msg(b"orders.new", b"1", ACK), b"_INBOX.1")
    recorded.receive(Msg(b"orders.new", b"2", ACK), b"deliver.here")
    recorded.receive(
        HMsg(b"_INBOX.1", b"1", b"", b"NATS/1.0 408 Request Timeout\r\n\r\n"), b"_INBOX.1"
    )
    (row,) = recorded.rows()
    assert (row.latency_ns, row.responses, row.status) == (1, 2, None)


def test_pulls_that_share_a_wildcard_inbox_are_told_apart_by_consumer() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(NEXT, b"_INBOX.n.1"))
    recorded.send(Pub(b"$JS.hub.API.CONSUMER.MSG.NEXT.ST.OTHER", b"_INBOX.n.2"))
    recorded.receive(Msg(b"orders.new", b"1", ACK), b"_INBOX.n.*")
    recorded.receive(
        Msg(b"o", b"1", b"$JS.ACK.hub.ACCHASH.ST.OTHER.1.1.1.1795213358078505028.0"), b"_INBOX.n.*"
    )
    recorded.receive(Msg(b"orders.new", b"1", b"$JS.ACK.ST.THIRD.1.1.1.1.0"), b"_INBOX.n.*")
    recorded.receive(Msg(b"orders.new", b"1", ACK), b"elsewhere.*")
    recorded.receive(Msg(b"orders.new", b"1", ACK))
    recorded.receive(Msg(b"orders.new", b"1", b"$JS.ACK."), b"_INBOX.n.*")
    assert [row.responses for row in recorded.rows()] == [1, 1]


def test_pulls_are_forgotten_after_many() -> None:
    recorded = RecordedRequests()
    for number in range(3000):
        recorded.send(Pub(NEXT + b"%d" % number, b"_INBOX.n.%d" % number))
    recorded.receive(Msg(b"o", b"1", b"$JS.ACK.ST.CO7.1.1.1.1.0"), b"_INBOX.n.*")
    assert not any(row.responses for row in recorded.rows())


def test_the_window_is_bounded_and_rows_come_in_order() -> None:
    recorded = RecordedRequests()
    for number in range(20_000):
        recorded.send(Pub(b"svc", b"_INBOX.%d" % number))
    assert len(recorded.out) >= 20_000 - 2 * 4096
    recorded.receive(Msg(b"_INBOX.1", b"1"))
    recorded.receive(Msg(b"_INBOX.19000", b"1"))
    rows = recorded.rows()
    assert [row.sent_ns for row in rows] == sorted(row.sent_ns for row in rows)
    assert [row.reply for row in rows if row.responses] == ["_INBOX.19000"]


def test_a_reply_subject_may_come_back_when_the_window_has_moved() -> None:
    recorded = RecordedRequests()
    recorded.send(Pub(b"one", b"r"))
    for number in range(5000):
        recorded.send(Pub(b"svc", b"_INBOX.%d" % number))
    recorded.send(Pub(b"two", b"r"))
    for number in range(5000, 9000):
        recorded.send(Pub(b"svc", b"_INBOX.%d" % number))
    recorded.receive(Msg(b"r", b"1"))
    assert [row.subject for row in recorded.rows() if row.responses] == ["two"]


def test_without_room_only_the_latest_is_open() -> None:
    recorded = RecordedRequests(0)
    for number in range(10):
        recorded.send(Pub(b"svc", b"_INBOX.%d" % number))
    recorded.receive(Msg(b"_INBOX.9", b"1"))
    recorded.receive(Msg(b"_INBOX.1", b"1"))
    assert [row.responses for row in recorded.rows()] == [0] * 9 + [1]


def outcome(reply: Msg | HMsg) -> tuple[str, int | None]:
    """The outcome of a request that gets this reply, under the subject that it names."""
    recorded = RecordedRequests()
    recorded.send(Pub(b"svc", reply.subject, b"ask"))
    recorded.receive(reply)
    recorded.receive(Msg(reply.subject, reply.sid, payload=b"a later reply does not change it"))
    (row,) = recorded.rows()
    return row.outcome, row.error_code


def headed(*lines: bytes, status: bytes = b"", payload: bytes = b"") -> HMsg:
    block = b"NATS/1.0%s\r\n%s\r\n" % (status, b"".join(line + b"\r\n" for line in lines))
    return HMsg(b"_INBOX.1", b"1", headers=block, payload=payload)


def json_reply(payload: bytes) -> Msg:
    return Msg(b"_INBOX.1", b"1", payload=payload)


def test_what_a_service_says_in_its_headers_is_no_success() -> None:
    code, text = b"Nats-Service-Error-Code: 400", b"Nats-Service-Error: bad"
    assert outcome(headed(text, code, payload=b"x")) == ("service_error", 400)
    assert outcome(headed(b"nats-service-error: bad")) == ("service_error", None)
    assert outcome(headed(b"Nats-Service-Error: x", code + b"x")) == ("service_error", None)
    assert outcome(headed(b"A: nats-service-error")) == ("ok", None)
    assert outcome(headed(b"A: 1")) == ("ok", None)


def test_what_jetstream_refuses_is_no_success() -> None:
    error = b'{"code":404,"err_code":10059,"description":"stream not found"}'
    typed = b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":%s}'
    assert outcome(json_reply(typed % error)) == ("api_error", 10059)
    assert outcome(json_reply(typed % b'{"code":404}')) == ("api_error", 404)
    assert outcome(json_reply(b'{"error":%s,"stream":"","seq":0}' % error)) == ("api_error", 10059)


def test_the_json_of_others_is_theirs() -> None:
    for payload in (
        b'{"error":{"code":404}}',
        b'{"error":"no"}',
        b'{"error":{"err_code":true}}',
        b'{"error":{"err_code":-1}}',
        b'["error"]',
        b'{"error":',
        b'{"a":' * 3000 + b'"error"',
        b'{"error":{"err_code":1},"x":"%s"}' % (b"y" * 20_000),
    ):
        assert outcome(json_reply(payload)) == ("ok", None)


def test_the_outcome_follows_the_status_of_the_reply() -> None:
    assert outcome(headed(status=b" 409 Consumer Deleted")) == ("api_error", 409)
    assert outcome(headed(status=b" 404 No Messages")) == ("ok", None)
    assert outcome(headed(status=b" 408 Request Timeout")) == ("ok", None)
    recorded = RecordedRequests()
    recorded.send(Pub(b"svc", b"_INBOX.1"))
    recorded.receive(HMsg(b"_INBOX.1", b"1", headers=NOBODY))
    (row,) = recorded.rows()
    assert (row.outcome, row.error_code) == ("no_responders", None)


def test_a_request_that_the_server_refuses() -> None:
    recorded = RecordedRequests()
    for number in range(4):
        recorded.send(Pub(b"svc.%d" % (number % 3), b"_INBOX.%d" % number))
    recorded.receive(Msg(b"_INBOX.1", b"1", payload=b"ok"))
    for requests in recorded.both:
        requests.refuse(b'Permissions Violation for Publish to "svc.0"')  # the latest of two
        requests.refuse(b'Permissions Violation for Publish to "svc.1"')  # which has its reply
        requests.refuse(b'Permissions Violation for Publish with Reply of "_INBOX.2"')
        requests.refuse(b'Permissions Violation for Publish to "svc.9"')
        requests.refuse(b'Permissions Violation for Subscription to "svc.0"')
    assert {row.reply[-1]: row.outcome for row in recorded.rows()} == {
        "0": "no_reply",
        "1": "ok",
        "2": "refused",
        "3": "refused",
    }


def test_events_tell_each_moment_of_a_request_once() -> None:
    events: list[Record] = []
    requests = Requests(EntryQuota(), RequestRows("s", events.append, events=True))
    requests.send(b"svc", b"_INBOX.1", 1, 0)
    requests.send(b"svc", b"_INBOX.2", 2, 0)
    for ts_ns in (5, 9):
        requests.receive(b"_INBOX.1", b"", ts_ns, 0, Subscription(b"1", b"_INBOX.*"))
    requests.finish()
    found = [
        (event.moment, event.request.reply, event.request.latency_ns, event.request.responses)
        for event in events
        if isinstance(event, RequestEvent)
    ]
    assert found == [  # the events of a request share its row
        (Moment.SENT, "_INBOX.1", 4, 2),
        (Moment.SENT, "_INBOX.2", None, 0),
        (Moment.ANSWERED, "_INBOX.1", 4, 2),
        (Moment.OVER, "_INBOX.1", 4, 2),
        (Moment.OVER, "_INBOX.2", None, 0),
    ]
