"""The server's reports about streams, consumers and the account. Times are seconds, or datetimes in
UTC.

The fields are those of nats-server: server/stream.go (StreamInfo, StreamState), server/consumer.go
(ConsumerInfo), server/jetstream.go (JetStreamAccountStats). A field that the server did not send
has its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

from .._json import JSONObject
from .configs import ConsumerConfig, ExternalStream, Placement, StreamConfig, SubjectTransform

__all__ = [
    "APIStats",
    "AccountInfo",
    "AccountLimits",
    "ClusterChange",
    "ClusterInfo",
    "ClusterOrigin",
    "ConsumerInfo",
    "DesiredCluster",
    "ErrorInfo",
    "LostData",
    "PauseInfo",
    "PeerInfo",
    "PriorityGroupState",
    "SequenceInfo",
    "StreamAlternate",
    "StreamInfo",
    "StreamSourceInfo",
    "StreamState",
    "Tier",
]


@dataclass(frozen=True, slots=True, repr=False)
class PeerInfo(JSONObject):
    """A server that holds a copy. `active` is the number of seconds since it was last heard of,
    `lag` the number of operations it is behind. `pending`: it is to hold one, and does not yet
    (server 2.15)."""

    name: str
    _: KW_ONLY
    current: bool = False
    offline: bool = False
    active: float = 0.0
    lag: int = 0
    peer: str = ""
    pending: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ClusterOrigin(JSONObject):
    """The configuration of a stream or consumer before the change that is under way; `retention` is
    empty if it does not change."""

    _: KW_ONLY
    replicas: int = 0
    placement: Placement | None = None
    retention: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class ClusterChange(JSONObject):
    """What the leader does at the moment to reach the desired servers, or waits for: text for people,
    the `type` of what has to change, and an error that lasts."""

    _: KW_ONLY
    description: str = ""
    type: str = ""
    err: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class DesiredCluster(JSONObject):
    """The servers that are to hold a stream or consumer, while it moves to them (server 2.15)."""

    _: KW_ONLY
    created: datetime | None = None
    name: str = ""
    replicas: Sequence[PeerInfo] = ()
    origin: ClusterOrigin | None = None
    status: ClusterChange | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ClusterInfo(JSONObject):
    """The servers that hold a stream or consumer; and those that are to hold it, if they differ."""

    _: KW_ONLY
    name: str = ""
    raft_group: str = ""
    leader: str = ""
    leader_since: datetime | None = None
    system_account: bool = False
    traffic_account: str = ""
    replicas: Sequence[PeerInfo] = ()
    desired: DesiredCluster | None = None


@dataclass(frozen=True, slots=True, repr=False)
class LostData(JSONObject):
    """The messages that a damaged store has lost."""

    _: KW_ONLY
    msgs: Sequence[int] = ()
    bytes: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class StreamState(JSONObject):
    """The content of a stream. `subjects` and `deleted` are filled only if `Stream.info` was asked
    for them."""

    _: KW_ONLY
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts: datetime | None = None
    last_seq: int = 0
    last_ts: datetime | None = None
    num_subjects: int = 0
    subjects: Mapping[str, int] = field(default_factory=dict)
    num_deleted: int = 0
    deleted: Sequence[int] = ()
    lost: LostData | None = None
    consumer_count: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class ErrorInfo(JSONObject):
    """The error that prevents a mirror or source from reading its origin."""

    _: KW_ONLY
    code: int = 0
    err_code: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class StreamSourceInfo(JSONObject):
    """The progress of a mirror or source: it is `lag` messages behind, and was last active `active`
    seconds ago, or never if that is negative. `seq` is the last sequence of the origin that it has
    (server 2.15; None if the server does not say)."""

    name: str
    _: KW_ONLY
    lag: int = 0
    seq: int | None = None
    active: float = -1e-9
    external: ExternalStream | None = None
    error: ErrorInfo | None = None
    filter_subject: str = ""
    subject_transforms: Sequence[SubjectTransform] = ()


@dataclass(frozen=True, slots=True, repr=False)
class StreamAlternate(JSONObject):
    """A mirror, from which the messages can be read as well."""

    name: str
    _: KW_ONLY
    domain: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class StreamInfo(JSONObject):
    """A stream as it was at the time `ts` (not reported by servers before 2.10)."""

    config: StreamConfig
    _: KW_ONLY
    created: datetime | None = None
    state: StreamState = field(default_factory=StreamState)
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: StreamSourceInfo | None = None
    sources: Sequence[StreamSourceInfo] = ()
    alternates: Sequence[StreamAlternate] = ()
    ts: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SequenceInfo(JSONObject):
    """A position: the sequences of the consumer and of the stream."""

    _: KW_ONLY
    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class PriorityGroupState(JSONObject):
    """A priority group and the client that it is pinned to."""

    group: str
    _: KW_ONLY
    pinned_client_id: str = ""
    pinned_ts: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ConsumerInfo(JSONObject):
    """A consumer as it was at the time `ts` (not reported by servers before 2.10). `reset_seq` is the
    sequence that `reset_consumer` has moved it to; 0 in other answers."""

    stream_name: str
    name: str
    _: KW_ONLY
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    created: datetime | None = None
    delivered: SequenceInfo = field(default_factory=SequenceInfo)
    ack_floor: SequenceInfo = field(default_factory=SequenceInfo)
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    cluster: ClusterInfo | None = None
    push_bound: bool = False
    paused: bool = False
    pause_remaining: float = 0.0
    priority_groups: Sequence[PriorityGroupState] = ()
    ts: datetime | None = None
    reset_seq: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class PauseInfo(JSONObject):
    """Whether a consumer is paused, until when, and for how many more seconds."""

    _: KW_ONLY
    paused: bool = False
    pause_until: datetime | None = None
    pause_remaining: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class AccountLimits(JSONObject):
    """The limits of an account; -1 means no limit."""

    _: KW_ONLY
    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Tier(JSONObject):
    """The usage and limits of one tier; a tier is a number of replicas, such as `R1` or `R3`."""

    _: KW_ONLY
    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    streams: int = 0
    consumers: int = 0
    limits: AccountLimits = field(default_factory=AccountLimits)


@dataclass(frozen=True, slots=True, repr=False)
class APIStats(JSONObject):
    """Counts of requests to the JetStream API, and the server's API level (ADR-44; 0 before
    2.11)."""

    _: KW_ONLY
    level: int = 0
    total: int = 0
    errors: int = 0
    inflight: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class AccountInfo(Tier):
    """An account's usage of JetStream: bytes of memory and storage, streams, consumers, and its
    limits; the same for each tier, if it has tiers."""

    _: KW_ONLY
    domain: str = ""
    api: APIStats = field(default_factory=APIStats)
    tiers: Mapping[str, Tier] = field(default_factory=dict)
