"""A cluster of three whose stream leader is killed while messages with ids are published: nothing that was
acknowledged is lost, nothing is stored twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

import natsync
from natsync.jetstream import (
    APIError,
    ConsumerConfig,
    ConsumerInfo,
    JetStream,
    PubAck,
    StreamConfig,
    StreamInfo,
)

from tests.jetstream.streams import unknown
from tests.support.jetstream import JETSTREAM
from tests.support.meshes import mesh
from tests.support.servers import NatsServer, require_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.timeout(120), pytest.mark.xdist_group("cluster")]

TIMEOUT = 40.0
BEFORE, AFTER = 200, 400


@pytest.fixture(scope="module")
def servers() -> Iterator[list[NatsServer]]:
    require_server("current")
    with mesh(3, JETSTREAM) as running:
        yield running


def replicated(js: JetStream, config: StreamConfig) -> None:
    """Makes a stream, once the cluster has a leader that can make one."""

    def make() -> bool:
        try:
            js.create_stream(config)
        except (APIError, natsync.RequestTimeoutError):
            return False
        return True

    eventually(make)


def test_what_was_acknowledged_outlives_its_leader(servers: list[NatsServer]) -> None:
    urls = [server.url for server in servers]
    with natsync.connect(urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=TIMEOUT)
        name = "acknowledged"
        config = StreamConfig(name, subjects=[f"{name}.>"], num_replicas=3)
        replicated(nc.jetstream(timeout=0.5), config)  # without a leader nobody answers
        stream = js.stream(name)
        enough = threading.Event()
        futures = [
            js.publish_async(f"{name}.async.{number}", msg_id=f"a{number}")
            for number in range(BEFORE)
        ]
        acks: list[PubAck] = []

        def publish() -> None:
            for number in range(AFTER):
                ack = js.publish(f"{name}.sync.{number}", b"x", msg_id=f"s{number}")
                acks.append(ack)
                if number == AFTER // 4:
                    enough.set()

        publisher = threading.Thread(target=publish)
        publisher.start()
        assert enough.wait(TIMEOUT)
        cluster_info = stream.info().cluster
        assert cluster_info
        (leader,) = (server for server in servers if server.name == cluster_info.leader)
        futures += [
            js.publish_async(f"{name}.async.{number}", msg_id=f"a{number}")
            for number in range(BEFORE, BEFORE + AFTER)
        ]
        leader.kill()
        publisher.join(TIMEOUT)
        assert not publisher.is_alive() and js.wait_all()
        assert [error for future in futures if (error := future.exception(0))] == []
        leader.start()
        stored = stream.info(subjects_filter=f"{name}.>").state
    expected = {f"{name}.async.{number}": 1 for number in range(BEFORE + AFTER)}
    expected |= {f"{name}.sync.{number}": 1 for number in range(AFTER)}
    assert stored.subjects == expected
    assert stored.messages == len(expected) == len(acks) + len(futures)


def leader(ask: Callable[[], StreamInfo | ConsumerInfo]) -> str:
    """Its name; empty while there is none, when nobody answers."""
    try:
        cluster = ask().cluster
    except (APIError, natsync.RequestTimeoutError, natsync.NoRespondersError):
        return ""
    return cluster.leader if cluster else ""


def peers(ask: Callable[[], StreamInfo]) -> set[str]:
    """The servers that hold a copy."""
    cluster = ask().cluster
    assert cluster
    return {cluster.leader, *(peer.name for peer in cluster.replicas)}


def done(call: Callable[[], object]) -> bool:
    """Whether the cluster does it now."""
    try:
        call()
    except (APIError, natsync.RequestTimeoutError, natsync.NoRespondersError):
        return False
    return True


def refused(call: Callable[[], object]) -> str:
    """The error with which the cluster refuses a call; empty if nobody answers."""
    try:
        call()
    except APIError as error:
        return str(error)
    except (natsync.RequestTimeoutError, natsync.NoRespondersError):
        return ""
    raise AssertionError("it was done")


def asked(
    info: Callable[[], StreamInfo | ConsumerInfo], step_down: Callable[[str], None], name: str
) -> bool:
    """Whether a server leads; if another does, that one is asked to hand over."""
    if leader(info) == name:
        return True
    done(partial(step_down, name))
    return False


def test_leaders_hand_over(servers: list[NatsServer]) -> None:
    with natsync.connect([server.url for server in servers]) as nc:
        name, js, brief = "handed", nc.jetstream(timeout=TIMEOUT), nc.jetstream(timeout=0.5)
        replicated(brief, StreamConfig(name, num_replicas=3, storage="memory"))
        stream = js.stream(name)
        eventually(lambda: done(lambda: stream.create_consumer(ConsumerConfig(durable_name="c"))))
        # Nobody answers during an election, which `info` may not show yet: what is lost is asked again.
        for info, step_down in (
            (
                lambda: brief.stream(name).cached_info,
                lambda *to: brief.stream(name).step_down(*to),
            ),
            (
                lambda: brief.consumer(name, "c").cached_info,
                lambda *to: brief.stream(name).step_down_consumer("c", *to),
            ),
        ):
            before = eventually(lambda: leader(info))
            eventually(lambda: done(step_down))
            eventually(lambda: leader(info) not in ("", before))
            # The server that is named gets it unless another is elected first: then it is asked for again.
            eventually(lambda: asked(info, step_down, before))
        # Nobody answers during an election; a refusal comes from the leader.
        eventually(lambda: refused(lambda: brief.stream(name).step_down("nobody")))
        eventually(lambda: refused(lambda: brief.stream(name).step_down_consumer("c", "nobody")))


def test_a_copy_moves_to_another_server(servers: list[NatsServer]) -> None:
    with natsync.connect([server.url for server in servers]) as nc:
        name, js, brief = "moved", nc.jetstream(timeout=TIMEOUT), nc.jetstream(timeout=0.5)
        replicated(brief, StreamConfig(name, num_replicas=2, storage="memory"))
        stream = js.stream(name)
        eventually(lambda: leader(stream.info) and len(peers(stream.info)) == 2)
        gone = min(peers(stream.info) - {leader(stream.info)})
        # If the cluster's leader has not heard of the third server lately, it has no place to move it to.
        eventually(lambda: done(lambda: stream.remove_peer(gone)))
        eventually(lambda: len(peers(stream.info) - {gone}) == 2)
        wider = replace(stream.info().config, num_replicas=3)
        eventually(lambda: done(lambda: js.update_stream(wider)))
        seen: list[str] = []  # while it moves

        def settled() -> bool:
            info = stream.info()
            seen.extend(unknown(info))
            return len(peers(lambda: info)) == 3 and not (info.cluster and info.cluster.desired)

        eventually(settled)
        assert seen == []
        eventually(lambda: "peer not a member" in refused(lambda: stream.remove_peer("nobody")))
