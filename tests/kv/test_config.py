"""The stream that a bucket becomes (ADR-8, "Buckets"), and what makes no bucket."""

from __future__ import annotations

import pytest

from natsync import OptionError
from natsync.jetstream import ExternalStream, Placement, RePublish, StreamSource, SubjectTransform
from natsync.kv import InvalidBucketNameError, KeyValueConfig
from natsync.kv.config import stream_config


def test_defaults_are_those_of_adr_8() -> None:
    made = stream_config(KeyValueConfig("CONFIGURATION"))
    assert (made.name, made.subjects) == ("KV_CONFIGURATION", ("$KV.CONFIGURATION.>",))
    assert (made.max_msgs_per_subject, made.retention, made.discard) == (1, "limits", "new")
    assert made.allow_rollup_hdrs and made.deny_delete and made.allow_direct and not made.deny_purge
    assert (made.max_age, made.duplicate_window) == (0, 120)
    assert (made.max_bytes, made.max_msg_size, made.max_msgs, made.max_consumers) == (-1,) * 4
    assert (made.storage, made.num_replicas, made.compression) == ("file", 1, "none")
    assert not made.allow_msg_ttl and not made.subject_delete_marker_ttl


def test_every_option_reaches_the_stream() -> None:
    made = stream_config(
        KeyValueConfig(
            "b",
            description="settings",
            history=64,
            ttl=30,
            limit_marker_ttl=5,
            max_bytes=1000,
            max_value_size=10,
            storage="memory",
            replicas=3,
            placement=Placement(cluster="east"),
            republish=RePublish(">", "copy.>"),
            compression=True,
            metadata={"owner": "me"},
        )
    )
    assert (made.description, made.max_msgs_per_subject) == ("settings", 64)
    assert (made.max_age, made.duplicate_window) == (30, 30)  # a window is not longer than the age
    assert made.allow_msg_ttl and made.subject_delete_marker_ttl == 5
    assert (made.max_bytes, made.max_msg_size, made.storage) == (1000, 10, "memory")
    assert (made.num_replicas, made.compression, made.metadata) == (3, "s2", {"owner": "me"})
    assert made.placement == Placement(cluster="east")
    assert made.republish == RePublish(">", "copy.>")


def test_a_mirror_has_no_subjects_and_answers_direct_gets() -> None:
    made = stream_config(KeyValueConfig("copy", mirror=StreamSource("origin")))
    assert made.mirror == StreamSource("KV_origin") and made.mirror_direct and made.subjects == ()


def test_sources_are_moved_to_the_keys_of_the_bucket() -> None:
    external = ExternalStream("$JS.hub.API")
    transform = SubjectTransform("$KV.a.x.>", "$KV.all.>")
    made = stream_config(
        KeyValueConfig(
            "all",
            sources=[
                StreamSource("a"),
                StreamSource("KV_b"),
                StreamSource("all", external=external),
                StreamSource("anything", subject_transforms=[transform]),
            ],
        )
    )
    assert made.sources == (
        StreamSource("KV_a", subject_transforms=[SubjectTransform("$KV.a.>", "$KV.all.>")]),
        StreamSource("KV_b", subject_transforms=[SubjectTransform("$KV.b.>", "$KV.all.>")]),
        StreamSource("KV_all", external=external),
        StreamSource("anything", subject_transforms=[transform]),
    )
    assert made.subjects == ("$KV.all.>",)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"history": 0}, OptionError),
        ({"history": 65}, OptionError),
        ({"history": "5"}, TypeError),
        ({"ttl": -1}, OptionError),
        ({"ttl": "1h"}, TypeError),
        ({"limit_marker_ttl": 0.5}, OptionError),
        ({"storage": "disk"}, OptionError),
        ({"replicas": -1}, OptionError),
        ({"max_value_size": 2**31}, OptionError),
        ({"mirror": StreamSource("a"), "sources": [StreamSource("b")]}, OptionError),
        ({"bucket": "a.b"}, InvalidBucketNameError),
    ],
)
def test_what_makes_no_bucket_is_refused(
    options: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        KeyValueConfig(**{"bucket": "b", **options})  # type: ignore[arg-type]  # wrong calls
