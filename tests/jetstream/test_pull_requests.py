"""Pull requests and statuses: scripts of `requested this, received that`, without a server."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync.errors import OptionError
from natsync.jetstream.pull_requests import (
    Meaning,
    OpenPulls,
    PullPlan,
    PullRequest,
    PullStatus,
    may_be_status,
    read_status,
)
from natsync.jetstream.reader_errors import (
    ConsumerDeletedError,
    ConsumerLeadershipChangedError,
    ConsumerNotReachableError,
    NotPullConsumerError,
    PinIdMismatchError,
    PullRefusedError,
    ServerShutdownError,
)
from natsync.message import Delivered, ReceivedMsg
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame

from tests.jetstream.made import Sent, message, status

# The lines that nats-server writes (server/consumer.go), those of older versions included.
LINES = [
    ("100 Idle Heartbeat", Meaning.HEARTBEAT, None),
    ("100 FlowControl Request", Meaning.HEARTBEAT, None),
    ("400 Bad Request - heartbeat value too large", Meaning.FATAL, PullRefusedError),
    ("400 Bad Request - Priority Group missing", Meaning.FATAL, PullRefusedError),
    ("404 No Messages", Meaning.END, None),
    ("408 Request Timeout", Meaning.END, None),
    ("408 Requests Pending", Meaning.END, None),
    ("408 Interest Expired", Meaning.END, None),
    ("409 Batch Completed", Meaning.END, None),
    ("409 Message Size Exceeds MaxBytes", Meaning.TOO_LARGE, PullRefusedError),
    ("409 Exceeded MaxRequestBatch of 10", Meaning.FATAL, PullRefusedError),
    ("409 Exceeded MaxRequestExpires of 1m0s", Meaning.FATAL, PullRefusedError),
    ("409 Exceeded MaxRequestMaxBytes of 100", Meaning.FATAL, PullRefusedError),
    ("409 Exceeded MaxWaiting", Meaning.BUSY, PullRefusedError),
    ("409 Consumer Deleted", Meaning.FATAL, ConsumerDeletedError),
    ("409 Consumer is push based", Meaning.FATAL, NotPullConsumerError),
    ("409 Leadership Change", Meaning.INTERRUPTED, ConsumerLeadershipChangedError),
    ("409 Server Shutdown", Meaning.INTERRUPTED, ServerShutdownError),
    ("412 Required Api Level", Meaning.FATAL, PullRefusedError),
    ("423 Nats-Pin-Id mismatch", Meaning.PIN_LOST, PinIdMismatchError),
    ("423 Nats-Wrong-Pin-Id", Meaning.PIN_LOST, PinIdMismatchError),
    ("503", Meaning.UNREACHABLE, ConsumerNotReachableError),
    ("409 Something New", Meaning.BUSY, PullRefusedError),
    ("599 From The Future", Meaning.BUSY, PullRefusedError),
]


@pytest.mark.parametrize(("line", "meaning", "error"), LINES)
def test_what_a_status_means(line: str, meaning: Meaning, error: type | None) -> None:
    found = read_status(status(line), "S", "c")
    assert found is not None
    assert found.meaning is meaning
    assert type(found.error) is (error or type(None))
    if error:
        assert "S" in str(found.error)
        assert "c" in str(found.error)


def test_the_counts_of_a_status() -> None:
    left = {"Nats-Pending-Messages": "7", "Nats-Pending-Bytes": "100"}
    found = read_status(status("408 Request Timeout", left), "S", "c")
    assert found == PullStatus(Meaning.END, None, 7, 100)
    assert read_status(status("100 Idle Heartbeat", {"Nats-Last-Consumer": "12"}), "S", "c") == (
        PullStatus(Meaning.HEARTBEAT, last_consumer_seq=12)
    )
    strange = {"Nats-Pending-Messages": "-7", "Nats-Pending-Bytes": "many"}
    assert read_status(status("404 No Messages", strange), "S", "c") == PullStatus(Meaning.END)


def test_what_is_no_status() -> None:
    assert read_status(message(b""), "S", "c") is None
    broken = ReceivedMsg(HMsg(b"s.a", b"1", b"", b"no headers at all", b""), Sent().respond)
    assert read_status(broken, "S", "c") is None


@pytest.mark.parametrize(
    ("frame", "may_be"),
    [
        (MsgFrame(b"a", b"1"), False),
        (HMsg(b"a", b"1", b"", b"NATS/1.0\r\nNats-Msg-Size: 7\r\n\r\n"), False),
        (HMsg(b"a", b"1", b"", b"NATS/1.0\r\n\r\n"), False),
        (HMsg(b"a", b"1", b"", b"NATS/1.0 404 No Messages\r\n\r\n"), True),
        (HMsg(b"a", b"1", b"r", b"NATS/1.0 404 No Messages\r\n\r\n"), False),
        (HMsg(b"a", b"1", b"", b"NATS/1.0"), True),  # broken: a closer look says so
    ],
)
def test_a_quick_look_finds_every_status(frame: Delivered, may_be: bool) -> None:
    assert may_be_status(frame) is may_be


@given(st.integers(100, 999), st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_any_status_has_a_meaning(code: int, text: str) -> None:
    found = read_status(status(f"{code} {text}"), "S", "c")
    assert found is not None
    assert (found.error is None) == (found.meaning in (Meaning.HEARTBEAT, Meaning.END))


def test_the_body_of_a_request() -> None:
    assert json.loads(PullRequest(10).encode()) == {"batch": 10}
    full = PullRequest(10, 30.0, 5.0, 1024, True, "group", "pin", 100, 50, 3)
    assert json.loads(full.encode()) == {
        "batch": 10,
        "expires": 30_000_000_000,
        "idle_heartbeat": 5_000_000_000,
        "max_bytes": 1024,
        "no_wait": True,
        "group": "group",
        "id": "pin",
        "min_pending": 100,
        "min_ack_pending": 50,
        "priority": 3,
    }


def test_more_is_asked_for_at_the_threshold() -> None:
    pulls = OpenPulls(PullPlan(max_msgs=10))
    assert pulls.is_low
    assert pulls.ask().batch == 10
    for _ in range(4):
        pulls.message(0)
        assert not pulls.is_low
    pulls.message(0)
    assert pulls.is_low
    assert pulls.ask().batch == 5
    assert pulls.msgs == 10


def test_one_message_at_a_time() -> None:
    pulls = OpenPulls(PullPlan(max_msgs=1))
    assert pulls.ask().batch == 1
    assert not pulls.is_low
    pulls.message(0)
    assert pulls.is_low


def test_bytes_are_counted_where_they_are_the_limit() -> None:
    pulls = OpenPulls(PullPlan(max_bytes=1000))
    first = pulls.ask()
    assert (first.batch, first.max_bytes) == (1_000_000, 1000)
    pulls.message(400)
    assert not pulls.is_low
    pulls.message(200)
    assert pulls.is_low
    assert pulls.ask("pin") == PullRequest(1_000_000, 30.0, 15.0, 600, pin_id="pin")
    pulls.message(5000)
    assert pulls.size == 0


def test_with_two_limits_a_request_follows_the_end_of_the_last_one() -> None:
    pulls = OpenPulls(PullPlan(max_msgs=3, max_bytes=1000, limits_both=True))
    first = pulls.ask()
    assert (first.batch, first.max_bytes) == (3, 1000)
    assert not pulls.message(400) and not pulls.message(400)
    pulls.status(PullStatus(Meaning.TOO_LARGE, None, 1, 200))
    assert pulls.is_low
    second = pulls.ask()
    assert (second.batch, second.max_bytes) == (3, 1000)
    assert [pulls.message(10) for _ in range(3)] == [False, False, True]  # 970 bytes are left over
    assert pulls.ask().max_bytes == 1000


def test_no_more_is_requested_than_until_the_end() -> None:
    pulls = OpenPulls(PullPlan(max_msgs=4, stop_after=6))
    assert pulls.ask().batch == 4
    assert [pulls.message(0), pulls.message(0)] == [False, True]
    assert pulls.ask().batch == 2
    assert not pulls.is_low
    pulls.status(PullStatus(Meaning.END, None, 3, 0))
    assert pulls.msgs == 1 and pulls.is_low  # three were not sent
    assert pulls.ask().batch == 3
    pulls.status(PullStatus(Meaning.EXPIRED))  # not handed out: another one is needed
    assert (pulls.msgs, pulls.left) == (3, 4)


@pytest.mark.parametrize(
    ("status", "open_msgs"),
    [
        (PullStatus(Meaning.HEARTBEAT), 10),
        (PullStatus(Meaning.END, None, 4, 0), 6),
        (PullStatus(Meaning.END, None, 400, 0), 0),
        (PullStatus(Meaning.PIN_LOST, None, 10, 0), 0),
        (PullStatus(Meaning.END), 0),
        (PullStatus(Meaning.INTERRUPTED), 0),
        (PullStatus(Meaning.RECONNECTED), 0),
        (PullStatus(Meaning.INTERRUPTED, None, 4, 0), 0),
        (PullStatus(Meaning.AWAY), 0),
        (PullStatus(Meaning.UNREACHABLE), 0),
    ],
)
def test_what_is_open_after_a_status(status: PullStatus, open_msgs: int) -> None:
    pulls = OpenPulls(PullPlan(max_msgs=10))
    pulls.ask()
    pulls.status(status)
    assert pulls.msgs == open_msgs


@given(
    st.integers(1, 50),
    st.lists(
        st.just("message")
        | st.builds(
            PullStatus,
            st.sampled_from(Meaning),
            st.none(),
            st.none() | st.integers(0, 99),
        ),
        max_size=200,
    ),
)
def test_what_is_open_stays_within_the_plan(most: int, received: list[str | PullStatus]) -> None:
    pulls = OpenPulls(PullPlan(max_msgs=most))
    for item in received:
        if pulls.is_low:
            pulls.ask()
        if isinstance(item, PullStatus):
            pulls.status(item)
        else:
            pulls.message(10)
        assert 0 <= pulls.msgs <= most


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_msgs": 0},
        {"max_bytes": -1},
        {"expires": 0.5},
        {"expires": float("nan")},
        {"threshold": 1.0},
        {"heartbeat": 0.01},
        {"heartbeat": 20.0},
        {"priority": 10},
    ],
)
def test_plans_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        PullPlan(**wrong)  # type: ignore[arg-type]  # ints among them


@given(st.floats(0.001, 1e6))
def test_a_heartbeat_is_at_most_half_of_the_time(expires: float) -> None:
    """Also in nanoseconds: a server refuses a request with a larger one."""
    body = json.loads(PullRequest(expires=expires, heartbeat=expires / 2).encode())
    assert 2 * body["idle_heartbeat"] <= body["expires"]


def test_the_heartbeat_of_a_plan() -> None:
    with pytest.raises(TypeError, match="heartbeat must be a number of seconds, not str"):
        PullPlan(heartbeat="")  # type: ignore[arg-type]  # a wrong call
    assert PullPlan().beat == 15.0
    assert PullPlan(expires=600.0).beat == 30.0
    assert PullPlan(heartbeat=1.0).beat == 1.0
