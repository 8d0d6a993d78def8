"""Every field of the configurations is kept by the current server, in both directions."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

import pytest

from natsync.jetstream import (
    ConsumerConfig,
    ConsumerLimits,
    ExternalStream,
    JetStream,
    RePublish,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)

pytestmark = pytest.mark.server

START = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=timezone.utc)


def differing(asked: object, got: object) -> list[str]:
    """The fields that were asked for and are not as they were asked for."""
    return [
        item.name
        for item in fields(asked)  # type: ignore[arg-type]  # a dataclass
        if item.name not in ("metadata", "_exact")
        and getattr(asked, item.name) != item.default
        and getattr(asked, item.name) != getattr(got, item.name)
    ]


def test_a_stream_with_all_that_goes_together(js: JetStream, stream_name: str) -> None:
    asked = StreamConfig(
        stream_name,
        description="all",
        subjects=[f"{stream_name}.>"],
        max_consumers=9,
        max_msgs=1000,
        max_bytes=1 << 20,
        max_age=3600,
        max_msgs_per_subject=10,
        max_msg_size=4096,
        discard="new",
        discard_new_per_subject=True,
        duplicate_window=1.5,
        allow_rollup_hdrs=True,
        republish=RePublish(f"{stream_name}.>", f"again.{stream_name}.>", headers_only=True),
        allow_direct=True,
        compression="s2",
        first_seq=100,
        subject_transform=SubjectTransform(
            f"{stream_name}.*", f"{stream_name}.t.{{{{wildcard(1)}}}}"
        ),
        consumer_limits=ConsumerLimits(inactive_threshold=3600, max_ack_pending=50),
        metadata={"owner": "me"},
        allow_msg_ttl=True,
        subject_delete_marker_ttl=5,
        allow_atomic=True,
        allow_msg_schedules=False,
        allow_batched=True,
    )
    got = js.create_stream(asked).info().config
    assert differing(asked, got) == []
    assert got.metadata["owner"] == "me"
    assert js.update_stream(got).info().config == got  # what it said goes back unchanged


def test_retention_storage_and_the_rest(js: JetStream, stream_name: str) -> None:
    for number, asked in enumerate(
        [
            StreamConfig("", retention="workqueue", storage="memory", no_ack=True),
            StreamConfig("", retention="interest", deny_delete=True, deny_purge=True),
            StreamConfig("", allow_msg_counter=True, allow_direct=True),
            StreamConfig("", allow_msg_schedules=True, allow_rollup_hdrs=True),
            StreamConfig("", persist_mode="async"),
            StreamConfig(
                "",
                sources=[
                    StreamSource("other", opt_start_seq=3, filter_subject="o.a"),
                    StreamSource("more", opt_start_time=START),
                    StreamSource("far", external=ExternalStream.in_domain("hub")),
                    StreamSource("moved", subject_transforms=[SubjectTransform("a.>", "b.>")]),
                ],
            ),
        ]
    ):
        asked = replace(asked, name=f"{stream_name}-{number}")
        got = js.create_stream(asked).info().config
        assert differing(asked, got) == []
        assert js.update_stream(got).info().config == got
    js.create_stream(StreamConfig(f"{stream_name}-d", allow_direct=True))
    mirror = StreamConfig(
        f"{stream_name}-m", mirror=StreamSource(f"{stream_name}-d"), mirror_direct=True
    )
    assert differing(mirror, js.create_stream(mirror).info().config) == []


def test_consumers_with_all_that_goes_together(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    filters = [f"{stream_name}.a", f"{stream_name}.b"]
    for asked in (
        ConsumerConfig(
            durable_name="pull",
            description="all",
            deliver_policy="by_start_sequence",
            opt_start_seq=3,
            ack_wait=2,
            backoff=[2, 4],
            max_deliver=5,
            filter_subjects=filters,
            replay_policy="original",
            sample_freq="30%",
            max_waiting=7,
            max_ack_pending=9,
            headers_only=True,
            max_batch=11,
            max_expires=12,
            max_bytes=13,
            inactive_threshold=60,
            num_replicas=1,
            mem_storage=True,
            metadata={"owner": "me"},
            pause_until=soon,
            priority_groups=["g"],
            priority_policy="pinned_client",
            priority_timeout=3,
        ),
        ConsumerConfig(
            name="push",
            deliver_policy="by_start_time",
            opt_start_time=START,
            ack_policy="all",
            filter_subject=filters[0],
            rate_limit_bps=1_000_000,
            deliver_subject="here",
            flow_control=True,
            idle_heartbeat=5,
            inactive_threshold=60,
        ),
        ConsumerConfig(
            durable_name="q", deliver_subject="there", deliver_group="g", ack_policy="none"
        ),
        ConsumerConfig(
            durable_name="last", deliver_policy="last_per_subject", filter_subjects=filters
        ),
        ConsumerConfig(durable_name="over", priority_groups=["g"], priority_policy="overflow"),
        ConsumerConfig(durable_name="prio", priority_groups=["g"], priority_policy="prioritized"),
    ):
        got = stream.create_consumer(asked).info().config
        assert differing(asked, got) == []
        assert stream.update_consumer(got).info().config == got


def test_an_unknown_enumeration_value_is_kept() -> None:
    config = StreamConfig.from_json({"name": "a", "retention": "forever"})
    assert config.to_json() == {"name": "a", "retention": "forever"}
