"""The page of the manual names everything that is public in natsync.streaming."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest

import natsync
from natsync import streaming
from natsync.streaming import StartPosition

from tests.support.paths import ROOT
from tests.support.streaming_servers import CLUSTER, StreamingServer

PAGE = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
DURABLE = re.search(r"^    ```python\n(.*?)^    ```$", PAGE, re.MULTILINE | re.DOTALL)
PROSE = re.sub(r"^ *```.*?^ *```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
DOCUMENTED = {word for code in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"\w+", code)}


def test_every_name_is_documented() -> None:
    assert set(streaming.__all__) - DOCUMENTED == set()


@pytest.mark.parametrize(
    "kind",
    [
        streaming.StreamingConnection,
        streaming.Subscription,
        streaming.Msg,
        streaming.PubAckFuture,
    ],
)
def test_every_method_is_documented(kind: type) -> None:
    inner = {"open", "end"}  # for the connection, which opens and ends subscriptions
    assert {name for name in vars(kind) if name[0] != "_"} - inner - DOCUMENTED == set()


@pytest.mark.parametrize(
    "call",
    [streaming.connect, streaming.StreamingConnection.subscribe],
    ids=["connect", "subscribe"],
)
def test_every_option_is_documented(call: object) -> None:
    assert callable(call)
    assert set(inspect.signature(call).parameters) - {"self"} - DOCUMENTED == set()


@pytest.mark.server
@pytest.mark.parametrize("queue", ["", "q"])
def test_where_a_durable_stands(streaming_server: StreamingServer, queue: str) -> None:
    assert DURABLE
    names: dict[str, object] = {"natsync": natsync}
    exec(textwrap.dedent(DURABLE[1]), names)
    first_unacknowledged = names["first_unacknowledged"]
    assert callable(first_unacknowledged)
    channel = f"stands{queue}"
    with streaming.connect(CLUSTER, "stands", servers=streaming_server.url) as sc:
        for _ in range(5):
            sc.publish(channel)
        start = StartPosition.FIRST
        with sc.subscribe(channel, durable="d", queue=queue, start=start, manual_acks=True) as sub:
            for msg in [sub.next_msg(10) for _ in range(5)]:
                if msg.sequence != 3:
                    msg.ack()
        assert first_unacknowledged(sc, channel, "d", queue) == 3
        with sc.subscribe(channel, durable="d", queue=queue) as sub:
            assert sub.next_msg(10).sequence == 3
        assert first_unacknowledged(sc, channel, "d", queue) is None
