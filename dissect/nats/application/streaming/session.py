"""The NATS Streaming of a session: connections, publications, subscriptions, deliveries and their acks.

Each message is a protobuf payload whose type only its subject shows. The subjects that a server names in its
answer to a connection request are certain (`discovered`), and so are the inboxes that a request names
(`inbox`). If a capture begins later, the default subjects (`subject`) count as evidence, as do two successive
messages on one inbox (`shape`); a single message that merely parses does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from natsync.protocol import ProtocolError
from natsync.protocol.streaming import (
    Ack,
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    MsgProto,
    Ping,
    PingResponse,
    PubAck,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)

from ...durations import elapsed
from ...outcomes import NO_RESPONDERS_TEXT, is_no_responders
from ...schema.anomalies import Anomaly
from ...schema.declaration import ApplicationLayer, LayerFrame, Table, text_columns
from ...schema.records import Record, printable
from ..exchanges import Exchanges
from ..messages import MESSAGES
from ..recent import Recent
from ..rows import mark
from .records import (
    StreamingRecord,
    is_plausible,
    mark_unread,
    new_row,
    parsed,
    show_payload,
    start_text,
)
from .subjects import Purpose, StreamingSubjects
from .waiting import Candidates, DeliveryTimes, Publications

_SUBSCRIPTIONS = 8192
_CLIENTS = 4096
_SECOND_NS = 10**9
# First bytes of messages that no subject explains: protobuf field 1, a number or a string.
_BEGINNINGS = (b"\x08", b"\x0a")


class _Request:
    """A request that waits for its answer: a `Question`."""

    __slots__ = ("row", "_read")
    held_bytes = 0  # a request shows no payload

    def __init__(
        self, row: StreamingRecord, read: Callable[[StreamingRecord, LayerFrame], None]
    ) -> None:
        self.row = row
        self._read = read

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Takes the answer."""
        row = self.row
        row.latency_ns = latency_ns
        if nobody:
            row.error = NO_RESPONDERS_TEXT
        else:
            self._read(row, frame)
        return False

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the request; returns its row, unless the message only looked like a request."""
        if anomaly:
            mark(self.row, anomaly)
        return () if self.row.evidence == "shape" else (self.row,)


class Streaming:
    """The state of one session, of a client or of the streaming server itself."""

    def __init__(self) -> None:
        self._subjects = StreamingSubjects()
        self._exchanges = Exchanges[_Request]()
        self._publications = Publications()
        self._subscriptions = Recent[str, StreamingRecord](_SUBSCRIPTIONS)  # by inbox
        self._acks = Recent[str, StreamingRecord](_SUBSCRIPTIONS)  # by ack inbox
        self._delivered = DeliveryTimes()
        self._candidates = Candidates()
        self._clients = Recent[bytes, str](_CLIENTS)  # connection id -> client id
        self._heartbeats = Recent[str, StreamingRecord](_CLIENTS)  # connections by heartbeat inbox
        self._has_begun = False

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Reads the next frame; returns the rows that it completes."""
        subject = frame.subject or ""
        if self._has_begun:
            return self._read(frame, subject)
        # Most sessions have no NATS Streaming: until a frame shows it, only frames that may are read.
        if frame.content[:1] not in _BEGINNINGS and not subject.startswith("_STAN."):
            return ()
        rows = self._read(frame, subject)
        self._has_begun = bool(subject.startswith("_STAN.") or self._candidates or self._clients)
        return rows

    def awaited(self) -> tuple[str, ...] | None:
        """No subjects, or None once a frame has shown NATS Streaming."""
        return None if self._has_begun else ()

    def _read(self, frame: LayerFrame, subject: str) -> Iterable[Record]:
        """Reads a frame by the subjects known so far; returns the rows that it completes."""
        purpose = self._subjects.purpose(subject)
        if purpose:
            return self._request_rows(frame, purpose)
        answered = self._exchanges.answered(frame)
        if answered:
            return answered.close(None)
        if frame.reply:
            return self._heartbeat(frame, subject) or self._discovery(frame)
        if evidence := self._publications.evidence(subject):
            return self._ack_published(frame, evidence)
        subscription = self._subscriptions.get(subject)
        if subscription:
            return self._deliver(frame, subscription, "inbox")
        subscription = self._acks.get(subject)
        if subscription:
            return self._ack(frame, subscription, "inbox")
        return self._shaped(frame, subject) if frame.content[:1] in _BEGINNINGS else ()

    def finish(self) -> Iterator[Record]:
        """Ends the session; yields the requests that wait for an answer."""
        for question in self._exchanges.rest():
            yield from question.close(None)
        yield from self._publications.rest()

    def _request_rows(self, frame: LayerFrame, purpose: Purpose) -> Iterable[Record]:
        """Reads a message to a subject of the server."""
        if frame.status is not None:
            return ()
        row = new_row(frame, purpose.op, purpose.evidence)
        row.cluster_id = purpose.cluster or None
        try:
            is_one = _REQUESTS[purpose.op](self, row, frame, purpose)
        except ProtocolError:
            mark_unread(row, frame)
            return (row,)
        if not is_one:
            return ()
        if purpose.op == "publish":
            return self._publications.add(row, frame.reply or "")
        if not frame.reply:
            return (row,)
        return self._exchanges.ask(frame, _Request(row, self._reader(purpose.op)))

    def _reader(self, op: str) -> Callable[[StreamingRecord, LayerFrame], None]:
        """The function that reads the answer to a request."""
        return {"connect": self._connected, "subscribe": self._subscribed}.get(op, _ended)

    def _discovery(self, frame: LayerFrame) -> Iterable[Record]:
        """Reads what may be a connection request under a prefix that is not the default. It becomes a row
        only if the answer names the subjects of a server."""
        if frame.content[:1] != b"\x0a":
            return ()
        request = parsed(ConnectRequest, frame)
        if request is None or not request.client_id or not request.heartbeat_inbox:
            return ()
        row = new_row(frame, "connect", "shape")
        row.cluster_id = (frame.subject or "").rpartition(".")[2]
        row.client_id = printable(request.client_id)
        self._meet(request, row)
        return self._exchanges.ask(frame, _Request(row, self._connected))

    def _meet(self, request: ConnectRequest, row: StreamingRecord) -> None:
        # Older clients have no connection id, so many of them share the empty one.
        self._clients.put(request.conn_id, printable(request.client_id))
        self._heartbeats.put(request.heartbeat_inbox, row)

    def _connect(self, row: StreamingRecord, frame: LayerFrame, purpose: Purpose) -> bool:
        request = ConnectRequest.parse(frame.content)
        row.client_id = printable(request.client_id) or None
        self._meet(request, row)
        return bool(request.client_id)

    def _connected(self, row: StreamingRecord, frame: LayerFrame) -> None:
        response = parsed(ConnectResponse, frame)
        if response is None:
            if row.evidence != "shape":
                mark(row, Anomaly.BAD_PROTOBUF.value)
            return
        row.error = _error(response.error, frame)
        if response.pub_prefix and response.sub_requests:
            row.evidence = "discovered"
            self._subjects.learn(row.cluster_id or "", response)

    def _publish(self, row: StreamingRecord, frame: LayerFrame, purpose: Purpose) -> bool:
        message = PubMsg.parse(frame.content)
        row.client_id = printable(message.client_id) or self._clients.get(message.conn_id)
        row.guid, row.channel = printable(message.guid) or None, printable(message.subject)
        show_payload(row, frame, message.data)
        # If the capture begins later, only channel and subject prove the publication, so they have to agree.
        return purpose.evidence == "discovered" or (
            bool(message.guid) and message.subject == purpose.channel
        )

    def _ack_published(self, frame: LayerFrame, evidence: str) -> Iterator[Record]:
        """Reads the ack of a publication, or that there is no server."""
        if frame.status is not None:
            nobody = is_no_responders(frame.status, frame.payload_bytes)
            only = nobody and self._publications.take_only(frame.subject or "")
            if only:
                only.error = NO_RESPONDERS_TEXT
                yield only
            return
        row = new_row(frame, "ack_published", evidence)
        ack = parsed(PubAck, frame)
        if ack is None or not ack.guid:
            mark(row, Anomaly.BAD_PROTOBUF.value)
            yield row
            return
        row.guid, row.error = printable(ack.guid), _error(ack.error, frame)
        published = self._publications.take(row.guid)
        if published:
            row.cluster_id, row.client_id = published.cluster_id, published.client_id
            row.channel, row.evidence = published.channel, published.evidence
            published.error = row.error
            published.latency_ns = row.latency_ns = elapsed(frame.ts_ns - published.ts_ns)
            yield published
        yield row

    def _subscribe(self, row: StreamingRecord, frame: LayerFrame, purpose: Purpose) -> bool:
        request = SubscriptionRequest.parse(frame.content)
        row.client_id, row.channel = printable(request.client_id), printable(request.subject)
        row.queue = printable(request.queue_group) or None
        row.durable = printable(request.durable_name) or None
        row.inbox, row.start = printable(request.inbox), start_text(request)
        row.max_in_flight, row.ack_wait_ns = request.max_in_flight, request.ack_wait * _SECOND_NS
        self._subscriptions.put(request.inbox, row)
        return bool(request.inbox and request.subject)

    def _subscribed(self, row: StreamingRecord, frame: LayerFrame) -> None:
        response = parsed(SubscriptionResponse, frame)
        if response is None:
            mark(row, Anomaly.BAD_PROTOBUF.value)
            return
        row.error = _error(response.error, frame)
        if response.ack_inbox:
            self._acks.put(response.ack_inbox, row)

    def _unsubscribe(self, row: StreamingRecord, frame: LayerFrame, purpose: Purpose) -> bool:
        request = UnsubscribeRequest.parse(frame.content)
        row.client_id, row.channel = printable(request.client_id), printable(request.subject)
        row.durable = printable(request.durable_name) or None
        known = self._acks.take(request.inbox)
        if known:
            row.durable, row.queue, row.inbox = known.durable, known.queue, known.inbox
        return bool(request.inbox)

    def _close(self, row: StreamingRecord, frame: LayerFrame, purpose: Purpose) -> bool:
        row.client_id = printable(CloseRequest.parse(frame.content).client_id) or None
        return row.client_id is not None

    def _ping(self, row: StreamingRecord, frame: LayerFrame, purpose: Purpose) -> bool:
        row.client_id = self._clients.get(Ping.parse(frame.content).conn_id)
        return True

    def _heartbeat(self, frame: LayerFrame, subject: str) -> Iterable[Record]:
        """Reads a heartbeat, with which the server checks whether a client is alive."""
        known = self._heartbeats.get(subject)
        if known is None or frame.content:
            return ()
        row = new_row(frame, "heartbeat", "inbox")
        row.cluster_id, row.client_id = known.cluster_id, known.client_id
        return self._exchanges.ask(frame, _Request(row, _ended))

    def _deliver(
        self, frame: LayerFrame, subscription: StreamingRecord, evidence: str
    ) -> Iterable[Record]:
        """Reads a message to the inbox of a subscription."""
        if frame.status is not None:
            return ()
        row = new_row(frame, "deliver", evidence)
        message = parsed(MsgProto, frame)
        row.cluster_id, row.client_id = subscription.cluster_id, subscription.client_id
        row.durable, row.queue = subscription.durable, subscription.queue
        row.channel = subscription.channel
        if message is None:
            mark_unread(row, frame)
            return (row,)
        show_payload(row, frame, message.data)
        self._fill(row, message, subscription.inbox or "")
        return (row,)

    def _fill(self, row: StreamingRecord, message: MsgProto, inbox: str) -> None:
        row.channel, row.sequence = printable(message.subject), message.sequence
        row.stored_ns = message.timestamp
        row.redelivered = message.redelivered or None
        row.redelivery_count = message.redelivery_count or None
        self._delivered.add(row.channel, row.sequence, inbox, row.ts_ns)

    def _ack(
        self, frame: LayerFrame, subscription: StreamingRecord | None, evidence: str
    ) -> Iterable[Record]:
        """Reads the ack of a delivery."""
        ack = parsed(Ack, frame)
        row = new_row(frame, "ack", evidence)
        if subscription:
            row.cluster_id, row.client_id = subscription.cluster_id, subscription.client_id
            row.durable, row.queue = subscription.durable, subscription.queue
        if ack is None:
            mark(row, Anomaly.BAD_PROTOBUF.value)
            return (row,)
        row.channel, row.sequence = printable(ack.subject), ack.sequence
        inbox = subscription.inbox or "" if subscription else ""
        delivered = self._delivered.take(row.channel, row.sequence, inbox)
        if delivered is not None:
            row.latency_ns = elapsed(frame.ts_ns - delivered)
        return (row,)

    def _shaped(self, frame: LayerFrame, subject: str) -> Iterable[Record]:
        """Reads a message to an inbox whose request was not captured. It is a delivery if it follows another
        message of its channel there, with a higher sequence or redelivered; an ack if it names a delivery.
        """
        if frame.content[:1] == b"\x0a":
            ack = parsed(Ack, frame)
            if (
                ack
                and not ack.unknown
                and (printable(ack.subject), ack.sequence) in self._delivered
            ):
                return self._ack(frame, None, "shape")
            return ()
        message = parsed(MsgProto, frame)
        if message is None or not is_plausible(message, frame):
            return ()
        row = new_row(frame, "deliver", "shape")
        show_payload(row, frame, message.data)
        before = self._candidates.put(subject, row, message)
        if before is None or before.message.subject != message.subject:
            return ()
        if message.sequence <= before.message.sequence and not message.redelivered:
            return ()
        rows = [row]
        if before.row.channel is None:
            self._fill(before.row, before.message, subject)
            rows.insert(0, before.row)
        self._fill(row, message, subject)
        return rows


_REQUESTS: dict[str, Callable[[Streaming, StreamingRecord, LayerFrame, Purpose], bool]] = {
    "connect": Streaming._connect,
    "publish": Streaming._publish,
    "subscribe": Streaming._subscribe,
    "unsubscribe": Streaming._unsubscribe,
    "close_subscription": Streaming._unsubscribe,
    "close": Streaming._close,
    "ping": Streaming._ping,
}


def _error(text: str, frame: LayerFrame) -> str | None:
    """The text of an error in a frame, without secrets."""
    return frame.secrets.masked(printable(text)) or None


def _ended(row: StreamingRecord, frame: LayerFrame) -> None:
    """Reads the answer to a request, if that answer has nothing but an error."""
    response: SubscriptionResponse | CloseResponse | PingResponse | None
    if row.op == "ping":
        response = parsed(PingResponse, frame)
    elif row.op == "close":
        response = parsed(CloseResponse, frame)
    else:
        response = parsed(SubscriptionResponse, frame)
    if response is None:
        mark(row, Anomaly.BAD_PROTOBUF.value)
    else:
        row.error = _error(response.error, frame)


STREAMING = Table(
    name="streaming",
    singular="NATS Streaming operation",
    summary="List operations of NATS Streaming: publications, deliveries, acks.",
    row=StreamingRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "op"),
    window=20_000,
    text=text_columns(
        StreamingRecord,
        "session ts_ns cluster_id client_id op channel sequence redelivered durable queue start"
        " payload_bytes latency_ns error payload",
    ),
    layer=ApplicationLayer(MESSAGES, Streaming, marked=True),
    payloads=True,
)
