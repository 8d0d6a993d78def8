"""The tables of the JetStream layer: their text columns and the order of their rows."""

from __future__ import annotations

from operator import attrgetter

from ...number_formats import duration_text, moment_text, size_text
from ...outcomes import NO_RESPONDERS_STATUS, NO_RESPONDERS_TEXT
from ...schema.declaration import Table, TextColumn
from ..cells import cell, count_cell, payload_cell
from .api import ApiRecord
from .consumers import ConsumerRecord
from .deliveries import DeliveryRecord
from .layer import JETSTREAM
from .publishes import PublishRecord
from .pulls import PullRecord
from .stores.kv import KvRecord
from .stores.objects import ObjectRecord
from .streams import StreamRecord

# Rows wait for answers and acks, and are larger than those of other tables.
_WINDOW = 20_000
_API_WINDOW = 4000


_Marked = ApiRecord | PublishRecord | DeliveryRecord | PullRecord | StreamRecord | ConsumerRecord


def _odd(row: _Marked) -> str:
    return " ".join(row.anomalies or ())


def _failure(row: ApiRecord | PublishRecord) -> str:
    number = row.err_code or row.code
    return " ".join(filter(None, (str(number or ""), row.error, _odd(row))))


_SESSION = TextColumn("session", 16, attrgetter("session"), shorter=lambda cell: cell[:8], rank=8)
_TIME = TextColumn(
    "time",
    23,
    lambda row: moment_text(row.ts_ns),
    shorter=lambda cell: cell[11:],
    rank=7,
)
_STREAM = TextColumn("stream", 12, cell("stream"), may_cut=True)
_CONSUMER = TextColumn("consumer", 12, cell("consumer"), may_cut=True)
_DOMAIN = TextColumn("domain", 8, cell("domain"), may_cut=True, rank=6)
_SUBJECT = TextColumn("subject", 24, cell("subject"), may_cut=True)
_ERROR = TextColumn("error", 24, _failure, may_cut=True, alarm=True)
_ODD = TextColumn("odd", 16, _odd, may_cut=True, alarm=True)
_PAYLOAD = TextColumn("payload", 24, payload_cell, may_cut=True)
_LATENCY = TextColumn("latency", 8, cell("latency_ns", duration_text), right=True, rank=2)


def _number(name: str, column: str, width: int, rank: int = 0) -> TextColumn:
    return TextColumn(name, width, count_cell(column), right=True, rank=rank)


API = Table(
    name="api",
    singular="API call",
    summary="List calls of the JetStream API, with their answers, and advisories.",
    row=ApiRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number"),
    window=_API_WINDOW,
    text=(
        _SESSION,
        _TIME,
        TextColumn("call", 22, attrgetter("api"), may_cut=True),
        _STREAM,
        _CONSUMER,
        _DOMAIN,
        _LATENCY,
        _ERROR,
    ),
    layer=JETSTREAM,
    payloads=True,
)


def _expected(row: PublishRecord) -> str:
    parts = (
        row.expected_stream,
        None if row.expected_last_seq is None else f"last {row.expected_last_seq}",
        (
            None
            if row.expected_last_subject_seq is None
            else f"subject last {row.expected_last_subject_seq}"
        ),
        row.expected_last_msg_id and f"last id {row.expected_last_msg_id}",
    )
    return ", ".join(filter(None, parts))


def _batch(row: PublishRecord) -> str:
    if row.batch_id is None:
        return ""
    return f"{row.batch_id}:{row.batch_seq or '?'}{' commit' if row.batch_commit else ''}"


PUBLISHES = Table(
    name="publishes",
    singular="publication",
    summary="List messages published to JetStream, with their acks.",
    row=PublishRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number"),
    window=_WINDOW,
    text=(
        _SESSION,
        _TIME,
        _SUBJECT,
        TextColumn("id", 10, cell("msg_id"), may_cut=True, rank=4),
        TextColumn("expected", 16, _expected, may_cut=True, rank=5),
        TextColumn("batch", 12, _batch, may_cut=True, rank=3),
        TextColumn("bytes", 7, lambda row: size_text(row.payload_bytes), right=True, rank=6),
        _STREAM,
        TextColumn("seq", 6, cell("seq"), right=True),
        TextColumn("duplicate", 9, lambda row: "yes" if row.duplicate else "", short="dup"),
        _LATENCY,
        _ERROR,
        _PAYLOAD,
    ),
    layer=JETSTREAM,
    payloads=True,
)

DELIVERIES = Table(
    name="deliveries",
    singular="delivery",
    summary="List messages that consumers delivered, with their acks.",
    row=DeliveryRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number"),
    window=_WINDOW,
    text=(
        _SESSION,
        _TIME,
        _STREAM,
        _CONSUMER,
        TextColumn("seq", 6, cell("stream_seq"), right=True),
        TextColumn("attempt", 7, cell("delivered_count"), right=True, short="try"),
        TextColumn("pending", 7, cell("pending"), right=True),
        _SUBJECT,
        TextColumn("ack", 8, cell("ack")),
        TextColumn("after", 8, cell("ack_latency_ns", duration_text), right=True),
        TextColumn("delay", 8, cell("nak_delay_ns", duration_text), right=True, rank=3),
        TextColumn("reason", 16, cell("term_reason"), may_cut=True, rank=2),
        _ODD,
        _PAYLOAD,
    ),
    layer=JETSTREAM,
    payloads=True,
)


def _end(row: PullRecord) -> str:
    text = NO_RESPONDERS_TEXT if row.end == str(NO_RESPONDERS_STATUS) else ""
    return f"{row.end} {row.end_text or text}".rstrip()


PULLS = Table(
    name="pulls",
    singular="pull",
    summary="List pull requests: what they got and how they ended.",
    row=PullRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number"),
    window=_WINDOW,
    text=(
        _SESSION,
        _TIME,
        _STREAM,
        _CONSUMER,
        _number("batch", "batch", 6),
        TextColumn("expires", 8, cell("expires_ns", duration_text), right=True, rank=3),
        TextColumn("group", 8, cell("group"), may_cut=True, rank=4),
        TextColumn("delivered", 9, cell("delivered"), right=True, short="got"),
        TextColumn("end", 20, _end, may_cut=True),
        TextColumn(
            "lasted",
            8,
            lambda row: duration_text(row.end_ns - row.ts_ns) if row.end_ns else "",
            right=True,
            rank=2,
        ),
        _ODD,
    ),
    layer=JETSTREAM,
    payloads=True,
)

STREAMS = Table(
    name="streams",
    singular="stream",
    summary="List streams: configuration, state, publications and deliveries.",
    row=StreamRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "stream"),
    text=(
        _SESSION,
        _TIME,
        _STREAM,
        _DOMAIN,
        TextColumn("subjects", 20, lambda row: " ".join(row.subjects or ()), may_cut=True, rank=3),
        TextColumn("messages", 8, cell("messages"), right=True, short="msgs"),
        TextColumn("last", 7, cell("last_seq"), right=True),
        _number("published", "publishes", 9),
        TextColumn("refused", 7, count_cell("publish_errors"), right=True, alarm=True),
        _number("delivered", "deliveries", 9),
        _number("again", "redeliveries", 5),
        _number("acks", "acks", 6),
        _number("naks", "naks", 5, 2),
        _number("terms", "terms", 5, 2),
        TextColumn("pending", 7, cell("max_pending"), right=True),
        TextColumn("deleted", 7, count_cell("deleted"), right=True, rank=1),
        _ODD,
    ),
    layer=JETSTREAM,
    payloads=True,
    at_end=True,
)

CONSUMERS = Table(
    name="consumers",
    singular="consumer",
    summary="List consumers: configuration, deliveries, acks, what waits for them.",
    row=ConsumerRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "stream", "consumer"),
    text=(
        _SESSION,
        _TIME,
        _STREAM,
        _CONSUMER,
        _DOMAIN,
        TextColumn("filter", 16, lambda row: " ".join(row.filter or ()), may_cut=True, rank=5),
        _number("pulls", "pulls", 6, 4),
        _number("delivered", "deliveries", 9),
        _number("again", "redeliveries", 5),
        _number("acks", "acks", 6),
        _number("naks", "naks", 5),
        _number("terms", "terms", 5, 2),
        TextColumn("first", 7, cell("first_pending"), right=True, rank=3),
        TextColumn("pending", 7, cell("last_pending"), right=True),
        TextColumn("most", 7, cell("max_pending"), right=True),
        TextColumn("median", 8, cell("ack_median_ns", duration_text), right=True),
        TextColumn("p99", 8, cell("ack_p99_ns", duration_text), right=True, rank=1),
        _ODD,
    ),
    layer=JETSTREAM,
    payloads=True,
    at_end=True,
)


def _answer(row: KvRecord) -> str:
    if row.error is not None or row.code is not None:
        return f"{row.err_code or row.code or ''} {row.error or ''}".strip()
    return f"{row.removed}d" if row.removed else ""


KV = Table(
    name="kv",
    singular="key-value operation",
    summary="List what happens in key-value buckets: puts, gets, deletes, watches.",
    row=KvRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "op"),
    window=_WINDOW,
    text=(
        _SESSION,
        _TIME,
        TextColumn("bucket", 12, cell("bucket"), may_cut=True),
        TextColumn("op", 7, attrgetter("op")),
        TextColumn("key", 24, cell("key"), may_cut=True),
        TextColumn("revision", 8, cell("revision"), right=True, short="rev"),
        TextColumn("expected", 8, cell("expected_revision"), right=True, rank=3),
        TextColumn("value", 7, count_cell("value_bytes", size_text), right=True, rank=4),
        TextColumn("entries", 7, cell("entries"), right=True, rank=5),
        _LATENCY,
        TextColumn("answer", 24, _answer, may_cut=True),
        _PAYLOAD,
    ),
    layer=JETSTREAM,
    payloads=True,
)


def _whole(row: ObjectRecord) -> str:
    if row.digest_ok is not None:
        return "yes" if row.digest_ok else "digest differs"
    return {None: "", True: "all chunks", False: "no"}[row.complete]


OBJECTS = Table(
    name="objects",
    singular="object operation",
    summary="List what happens in object stores: puts, gets, deletes, links.",
    row=ObjectRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "op"),
    window=_WINDOW,
    text=(
        _SESSION,
        _TIME,
        TextColumn("bucket", 12, cell("bucket"), may_cut=True),
        TextColumn("op", 6, attrgetter("op")),
        TextColumn("name", 24, cell("name"), may_cut=True),
        TextColumn("size", 7, count_cell("bytes", size_text), right=True),
        TextColumn("chunks", 6, cell("chunks"), right=True, rank=2),
        TextColumn("whole", 10, _whole),
        TextColumn(
            "lasted", 8, lambda row: duration_text(row.last_ns - row.first_ns), right=True, rank=3
        ),
        TextColumn("link", 16, cell("link"), may_cut=True, rank=4),
        TextColumn(
            "error",
            20,
            lambda row: " ".join(filter(None, (row.error, *(row.anomalies or ())))),
            may_cut=True,
            alarm=True,
        ),
    ),
    layer=JETSTREAM,
    payloads=True,
)
