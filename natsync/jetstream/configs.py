"""The configuration of streams and consumers, with every field that nats-server 2.15 knows.

Field names and meanings are those of nats-server (server/stream.go: StreamConfig, server/consumer.go:
ConsumerConfig). Times are seconds. Each field that came after 2.9 names the server version that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from .._checks import INT32, UINT64, plain
from .._json import JSONObject, check_patterns, patterns, since, within

__all__ = [
    "AckPolicy",
    "Compression",
    "ConsumerConfig",
    "ConsumerLimits",
    "DeliverPolicy",
    "DiscardPolicy",
    "ExternalStream",
    "PersistMode",
    "Placement",
    "PriorityPolicy",
    "RePublish",
    "ReplayPolicy",
    "RetentionPolicy",
    "StorageType",
    "StreamConfig",
    "StreamConsumerSource",
    "StreamSource",
    "SubjectTransform",
]

RetentionPolicy = Literal["limits", "interest", "workqueue"]
DiscardPolicy = Literal["old", "new"]
StorageType = Literal["file", "memory"]
Compression = Literal["none", "s2"]
PersistMode = Literal["default", "async"]
AckPolicy = Literal["none", "all", "explicit", "flow_control"]
DeliverPolicy = Literal[
    "all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"
]
ReplayPolicy = Literal["instant", "original"]
PriorityPolicy = Literal["none", "overflow", "pinned_client", "prioritized"]


@dataclass(frozen=True, slots=True, repr=False)
class Placement(JSONObject):
    """Where a stream is placed: on servers of this cluster that have all these tags. `preferred`
    names the server to lead it."""

    _: KW_ONLY
    cluster: str = ""
    tags: Sequence[str] = ()
    preferred: str = since("2.11", "")


@dataclass(frozen=True, slots=True, repr=False)
class SubjectTransform(JSONObject):
    """Stores messages whose subject matches `src` under the subject that `dest` makes of it."""

    src: str = field(metadata={"limit": check_patterns})
    dest: str


@dataclass(frozen=True, slots=True, repr=False)
class RePublish(JSONObject):
    """Publishes stored messages again if their subject matches `src` (empty: all), on the subject
    that `dest` makes of it."""

    src: str = patterns("")
    dest: str = ""
    _: KW_ONLY
    headers_only: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ExternalStream(JSONObject):
    """Access to a stream of another account or domain. `api` is the prefix of its API, without a
    trailing dot; `deliver` is the prefix of the subjects on which its messages arrive."""

    api: str
    deliver: str = ""

    @classmethod
    def in_domain(cls, domain: str) -> ExternalStream:
        """The API of a domain that the server is connected to."""
        return cls(f"$JS.{plain(domain)}.API")


@dataclass(frozen=True, slots=True, repr=False)
class StreamConsumerSource(JSONObject):
    """The durable consumer of the origin that a mirror or source reads from (ADR-60)."""

    name: str = ""
    deliver_subject: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class StreamSource(JSONObject):
    """The origin of a mirror, or one of the sources of a stream."""

    name: str
    _: KW_ONLY
    opt_start_seq: int = within(0, 0, UINT64)
    opt_start_time: datetime | None = None
    filter_subject: str = patterns("")
    subject_transforms: Sequence[SubjectTransform] = since("2.10", ())
    external: ExternalStream | None = None
    consumer: StreamConsumerSource | None = since("2.14", None)


@dataclass(frozen=True, slots=True, repr=False)
class ConsumerLimits(JSONObject):
    """Limits for the consumers of a stream, and their defaults: `inactive_threshold` in seconds."""

    _: KW_ONLY
    inactive_threshold: float = 0.0
    max_ack_pending: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class StreamConfig(JSONObject):
    """A stream. -1 means no limit; 0 seconds means no limit or the server's default. Without
    `subjects`, `mirror` or `sources`, its subject is its name.

    `max_age`, `duplicate_window` and `subject_delete_marker_ttl` are in seconds.
    """

    name: str
    _: KW_ONLY
    description: str = ""
    subjects: Sequence[str] = patterns(())
    retention: RetentionPolicy = "limits"
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: float = within(0.0, 0)
    max_msgs_per_subject: int = -1
    max_msg_size: int = within(-1, -1, INT32)
    discard: DiscardPolicy = "old"
    discard_new_per_subject: bool = False
    storage: StorageType = "file"
    num_replicas: int = within(1, 0)
    no_ack: bool = False
    duplicate_window: float = within(0.0, 0)
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: Sequence[StreamSource] = ()
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    republish: RePublish | None = None
    allow_direct: bool = False
    mirror_direct: bool = False
    compression: Compression = since("2.10", "none")
    first_seq: int = within(0, 0, UINT64, since="2.10")
    subject_transform: SubjectTransform | None = since("2.10", None)
    consumer_limits: ConsumerLimits | None = since("2.10", None)
    metadata: Mapping[str, str] = field(default_factory=dict, metadata={"since": "2.10"})
    allow_msg_ttl: bool = since("2.11", False)
    subject_delete_marker_ttl: float = within(0.0, 0, since="2.11")
    allow_msg_counter: bool = since("2.12", False)
    allow_atomic: bool = since("2.12", False)
    allow_msg_schedules: bool = since("2.12", False)
    persist_mode: PersistMode = since("2.12", "default")
    allow_batched: bool = since("2.14", False)


@dataclass(frozen=True, slots=True, repr=False)
class ConsumerConfig(JSONObject):
    """A consumer. With a `durable_name` it is durable; otherwise it is ephemeral, named `name` or
    by the server. With a `deliver_subject` it is a push consumer.

    0 leaves a limit or time to the server, -1 means no limit. `ack_wait`, `backoff`,
    `idle_heartbeat`, `inactive_threshold`, `max_expires` and `priority_timeout` are in seconds,
    `rate_limit_bps` is in bits per second. Messages are acknowledged one by one unless `ack_policy`
    says otherwise.
    """

    _always: ClassVar[frozenset[str]] = frozenset({"ack_policy"})  # the server's default is none

    _: KW_ONLY
    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = "all"
    opt_start_seq: int = within(0, 0, UINT64)
    opt_start_time: datetime | None = None
    ack_policy: AckPolicy = "explicit"
    ack_wait: float = within(0.0, 0)
    max_deliver: int = -1
    backoff: Sequence[float] = ()
    filter_subject: str = patterns("")
    filter_subjects: Sequence[str] = patterns((), since="2.10")
    replay_policy: ReplayPolicy = "instant"
    rate_limit_bps: int = within(0, 0, UINT64)
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    headers_only: bool = False
    max_batch: int = 0
    max_expires: float = 0.0
    max_bytes: int = 0
    deliver_subject: str = patterns("")
    deliver_group: str = ""
    flow_control: bool = False
    idle_heartbeat: float = 0.0
    inactive_threshold: float = 0.0
    num_replicas: int = within(0, 0)
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = since("2.14", False)
    metadata: Mapping[str, str] = field(default_factory=dict, metadata={"since": "2.10"})
    pause_until: datetime | None = since("2.11", None)
    priority_groups: Sequence[str] = since("2.11", ())
    priority_policy: PriorityPolicy = since("2.11", "none")
    priority_timeout: float = since("2.11", 0.0)
