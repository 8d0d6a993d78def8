"""Side by side with stan.go on one server: what one publishes the other reads, and both are sent the same."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import natsync
from natsync import streaming
from natsync.streaming import Msg, StartPosition

from tests.support.streaming_servers import CLUSTER, StanPeer, StreamingServer, stan_go

pytestmark = pytest.mark.server
IDLE = 0.4


@pytest.fixture(scope="module")
def sc(streaming_server: StreamingServer) -> Iterator[streaming.StreamingConnection]:
    with streaming.connect(CLUSTER, "natsync", servers=streaming_server.url) as connected:
        yield connected


@pytest.fixture(scope="module")
def filled(streaming_server: StreamingServer, sc: streaming.StreamingConnection) -> str:
    """A channel with ten messages: five, a pause, and five more."""
    for number in range(1, 11):
        if number == 6:
            time.sleep(1.0)
        sc.publish("filled", b"%d:" % number)
    return "filled"


Row = tuple[int, int, bool, int, bytes]


def row(msg: Msg) -> Row:
    return msg.sequence, msg.timestamp_ns, msg.redelivered, msg.redelivery_count, msg.data


def read_go(lines: list[str]) -> list[Row]:
    """The messages in what stan_peer prints."""
    rows = []
    for line in lines:
        if line[:1].isdigit():
            sequence, timestamp, again, count, data = line.split(" ", 4)
            rows.append((int(sequence), int(timestamp), again == "true", int(count), data.encode()))
    return rows


def read_ours(sub: streaming.Subscription) -> list[Row]:
    """All messages until none came for a while, as stan_peer does with `idle`."""
    rows = []
    while True:
        try:
            rows.append(row(sub.next_msg(IDLE)))
        except natsync.NextMsgTimeoutError:
            return rows


def digest(rows: list[Row]) -> str:
    found = hashlib.sha256()
    for sequence, timestamp, *_, data in rows:
        found.update(b"%d %d %d " % (sequence, timestamp, len(data)) + data)
    return found.hexdigest()


def test_they_read_what_we_publish(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection
) -> None:
    for future in [sc.publish_async("ours", b"%d:" % number) for number in range(1, 501)]:
        future.result(20)
    theirs = read_go(stan_go(streaming_server, "go-1", "sub", "ours", 500, "start=first"))
    assert [(sequence, data) for sequence, *_, data in theirs] == [
        (number, b"%d:" % number) for number in range(1, 501)
    ]
    ours = sc.subscribe("ours", start=StartPosition.FIRST)
    assert digest(read_ours(ours)) == digest(theirs)


def test_we_read_what_they_publish(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection
) -> None:
    live = sc.subscribe("theirs")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(stan_go, streaming_server, "go-2", "pub", "theirs", 500, 0, "async")
        came = [row(live.next_msg(20)) for _ in range(500)]
        assert done.result()[0].startswith("published 500 ")
    assert [sequence for sequence, *_ in came] == list(range(1, 501))
    assert {data for *_, data in came} == {b"%d:" % number for number in range(1, 501)}
    theirs = stan_go(streaming_server, "go-2", "sub", "theirs", 500, "start=first")
    assert digest(read_go(theirs)) == digest(came)


@pytest.mark.parametrize(
    "options, go",
    [
        ({}, []),
        ({"start": StartPosition.FIRST}, ["start=first"]),
        ({"start": StartPosition.LAST_RECEIVED}, ["start=last"]),
        ({"start_sequence": 4}, ["sequence=4"]),
        ({"start_sequence": 1000}, ["sequence=1000"]),
        ({"start_time_delta": 3600}, ["delta=1h"]),
        ({"start_time_delta": 0}, ["delta=0s"]),
        ({"start_time": "middle"}, ["since={middle}"]),
        ({"queue": "{name}", "start": StartPosition.FIRST}, ["queue={name}-go", "start=first"]),
    ],
    ids=str,
)
def test_every_start_brings_the_same(
    streaming_server: StreamingServer,
    sc: streaming.StreamingConnection,
    filled: str,
    options: dict[str, object],
    go: list[str],
) -> None:
    """The middle is in the pause, so that it does not matter which of the two asks first."""
    stored = [msg for _, msg in zip(range(10), sc.subscribe(filled, start=StartPosition.FIRST))]
    if options.get("start_time"):
        options = {"start_time": stored[5].time - (stored[5].time - stored[4].time) / 2}
    middle = (stored[4].timestamp_ns + stored[5].timestamp_ns) // 2
    words = [word.format(middle=middle, name="group") for word in go]
    ours = read_ours(sc.subscribe(filled, **options))
    theirs = read_go(stan_go(streaming_server, "go-3", "sub", filled, 10, f"idle={IDLE}s", *words))
    assert ours == theirs


def test_a_durable_goes_on_in_the_same_place(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection, filled: str
) -> None:
    """Closed, left with the whole connection, and forgotten when unsubscribed."""
    url = streaming_server.url
    limits = {"durable": "d", "max_in_flight": 1, "start": StartPosition.FIRST}
    words = ["durable=d", "inflight=1", "start=first"]

    def both(count: int, end: str) -> tuple[list[int], list[int]]:
        with streaming.connect(CLUSTER, "both", servers=url) as mine:
            sub = mine.subscribe(filled, **limits)
            ours = [row(sub.next_msg(10)) for _ in range(count)]
            if end != "conn":
                getattr(sub, end)()
        theirs = stan_go(streaming_server, "go-4", "sub", filled, count, *words, f"end={end}")
        return [each[0] for each in ours], [each[0] for each in read_go(theirs)]

    for count, end, wanted in (
        (4, "close", [1, 2, 3, 4]),
        (3, "conn", [5, 6, 7]),
        (1, "unsubscribe", [8]),
        (2, "close", [1, 2]),
    ):
        ours, theirs = both(count, end)
        assert ours == theirs == wanted


def test_what_is_not_acknowledged_comes_again_to_both(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection
) -> None:
    for number in range(1, 4):
        sc.publish("unacked", b"%d:" % number)
    with StanPeer(
        *(streaming_server, "go-5", "sub", "unacked", 6, "start=first", "ack=no", "ackwait=1")
    ) as peer:
        sub = sc.subscribe("unacked", start=StartPosition.FIRST, manual_acks=True, ack_wait=1)
        ours = [row(sub.next_msg(10)) for _ in range(6)]
        theirs = read_go(peer.lines())
    assert sorted(ours) == sorted(theirs)
    assert sorted((each[0], each[2], each[3]) for each in ours) == [
        (number, again, int(again)) for number in (1, 2, 3) for again in (False, True)
    ]


def test_a_queue_group_has_members_of_both(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection
) -> None:
    """Each message goes to one of them, and both get some."""
    with StanPeer(
        *(streaming_server, "go-6", "sub", "mixed", 300, "queue=q", "inflight=5"), "idle=2s"
    ) as peer:
        peer.wait_ready()
        sub = sc.subscribe("mixed", queue="q", max_in_flight=5)
        for future in [sc.publish_async("mixed", b"%d:" % number) for number in range(300)]:
            future.result(20)
        ours = read_ours(sub)
        theirs = read_go(peer.lines())
    assert ours and theirs
    assert sorted(each[0] for each in ours + theirs) == list(range(1, 301))


def test_a_durable_queue_group_goes_from_one_to_the_other(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection, filled: str
) -> None:
    words = ["queue=both", "durable=d", "inflight=1", "start=first", "end=close"]
    theirs = read_go(stan_go(streaming_server, "go-7", "sub", filled, 4, *words))
    assert [each[0] for each in theirs] == [1, 2, 3, 4]
    with sc.subscribe(filled, queue="both", durable="d", max_in_flight=1) as sub:
        assert [sub.next_msg(10).sequence for _ in range(3)] == [5, 6, 7]
    theirs = read_go(stan_go(streaming_server, "go-8", "sub", filled, 3, *words))
    assert [each[0] for each in theirs] == [8, 9, 10]


def test_a_durable_brings_both_the_unacknowledged_first(
    streaming_server: StreamingServer, filled: str
) -> None:
    """Flags and counts are equal, too."""
    words = ["durable=d", "start=first", "ack=no", "inflight=3", "end=close"]
    ours, theirs = [], []
    for _ in range(2):
        with streaming.connect(CLUSTER, "unacked", servers=streaming_server.url) as mine:
            sub = mine.subscribe(
                filled,
                durable="d",
                start=StartPosition.FIRST,
                manual_acks=True,
                max_in_flight=3,
            )
            ours += [row(sub.next_msg(10)) for _ in range(3)]
            sub.close()
        theirs += read_go(stan_go(streaming_server, "go-9", "sub", filled, 3, *words))
    assert ours == theirs
    assert [each[0] for each in ours] == [1, 2, 3] * 2
    assert [each[2:4] for each in ours] == [(False, 0)] * 3 + [(True, 1)] * 3
