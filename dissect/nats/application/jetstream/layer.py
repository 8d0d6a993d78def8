"""The JetStream layer: reads the messages of a session once and makes the rows of all its tables.

JetStream consists of ordinary messages with subjects, headers and payloads that have a meaning. API subjects,
ack replies and the reply subjects of earlier messages identify them, so nothing depends on the names of
inboxes or on which side asks. Messages between servers have the same subjects, but their operation does not
show whether a message is a question or an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...outcomes import IDLE_HEARTBEAT_STATUS
from ...schema.declaration import ApplicationLayer, LayerFrame
from ...schema.records import Record
from ..exchanges import Exchanges, Question
from ..messages import LINKS, MESSAGES_AND_INTEREST
from .api import Call, advisory
from .consumers import Consumers
from .deliveries import Confirmation, Deliveries, ack_of
from .kv import KeyValue, KvRecord, kv_write
from .objects import ObjectRecord, Objects
from .publishes import Publication
from .pulls import Pulls
from .streams import Streams
from .subjects import ACK, ADVISORY, NEXT, ApiSubject, ack_subject, api_subject, without_gateway

_FLOW_CONTROL = "$JS.FC."
_STORES = ("KV_", "OBJ_")  # streams of buckets and object stores


class JetStream:
    """The JetStream state of one session."""

    def __init__(self) -> None:
        self._exchanges = Exchanges[Question]()
        self._deliveries = Deliveries()
        self._pulls = Pulls()
        self._early: list[Record] = []  # rows of streams and consumers, of which there are too many
        self._streams = Streams(self._early)
        self._consumers = Consumers(self._early)
        self._buckets = KeyValue()
        self._objects = Objects()

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Reads the next frame; returns the rows that it completes."""
        rows = self._read(frame)
        if self._early:
            rows = [*rows, *self._early]
            self._early.clear()
        return rows

    def _read(self, frame: LayerFrame) -> Iterable[Record]:
        op = frame.op
        if op == "PUB" or op == "HPUB":
            return self._published(frame)
        if op == "MSG" or (op == "HMSG" and frame.kind not in LINKS):
            return self._delivered(frame) or ()
        if op == "SUB":
            self._pulls.subscribe(frame)
            return ()
        if op == "UNSUB":
            return self._pulls.unsubscribe(frame)
        found = self._delivered(frame)
        return self._published(frame) if found is None else found

    def awaited(self) -> list[str]:
        """The reply subjects under which answers may come."""
        return self._exchanges.awaited

    def finish(self) -> Iterator[Record]:
        """Ends the session; yields the remaining rows."""
        for question in self._exchanges.rest():
            yield from question.close(None)
            if isinstance(question, Call) and question.is_proven:
                yield from self._buckets.call(question)
                yield from self._objects.call(question, question.row.ts_ns)
        yield from self._deliveries.finish()
        yield from self._pulls.finish()
        yield from self._streams.finish()
        yield from self._consumers.finish()
        yield from self._buckets.finish()
        yield from self._objects.finish()

    def _delivered(self, frame: LayerFrame) -> Iterable[Record] | None:
        """Reads a message to a subscriber; returns None if it means nothing as such."""
        reply, subject = frame.reply, frame.subject or ""
        if reply:
            ack_reply = ack_subject(reply)
            if ack_reply:
                row, done = self._deliveries.deliver(frame, ack_reply)
                self._streams.deliver(row)
                self._consumers.deliver(row)
                done += self._pulls.deliver(frame, ack_reply)
                if row.stream.startswith(_STORES):
                    self._buckets.deliver(row)
                    done += self._objects.deliver(frame, row)
                return done
        answered = self._exchanges.answered(frame)
        if answered:
            return self._close(answered, frame.ts_ns)
        if frame.status is not None:
            if frame.status == IDLE_HEARTBEAT_STATUS:
                self._consumers.heartbeat(frame.account, subject)
            return self._pulls.status(frame)
        if subject.startswith(ADVISORY):
            return (advisory(frame)[0],)
        return None

    def _published(self, frame: LayerFrame) -> Iterable[Record]:
        """Reads a message from a publisher."""
        subject = without_gateway(frame.subject or "")
        if subject.startswith(ACK):
            return self._acknowledged(frame)
        if subject.startswith(_FLOW_CONTROL):
            self._consumers.flow_control(frame.account, subject)
            return ()
        asked = api_subject(subject)
        if asked and asked.api == NEXT:
            pull, over = self._pulls.pull(frame, asked)
            self._consumers.pull(pull)
            return over
        reply = frame.reply
        if asked and reply:
            instead = None if asked.certain else Publication(frame)
            if instead:
                self._streams.publish(instead)
            return self._exchanges.ask(frame, Call(frame, asked, instead))
        if not reply and not frame.headers and subject[:1] != "$":
            return ()
        ended: list[Record] = []
        stored: KvRecord | ObjectRecord | None = None
        if "$KV." in subject:
            stored = kv_write(frame)
        elif "$O." in subject:
            stored, ended = self._objects.publish(frame)
        publication = Publication(frame, stored)
        self._streams.publish(publication)
        if reply:
            return ended + self._exchanges.ask(frame, publication)
        return [*ended, *publication.close(None)]

    def _acknowledged(self, frame: LayerFrame) -> Iterable[Record]:
        """Reads an ack from a client."""
        ack = ack_of(frame.content)
        row, found = self._deliveries.acknowledge(frame, ack)
        if row is None:
            return found
        self._streams.acknowledge(row, ack, frame.ts_ns)
        self._consumers.acknowledge(row, ack, frame.ts_ns)
        if ack == "next":
            asked = ApiSubject(NEXT, row.domain or "", row.stream, row.consumer, "", True)
            pull, ended = self._pulls.pull(frame, asked)
            self._consumers.pull(pull)
            return [*found, *ended]
        if frame.reply:
            return found + self._exchanges.ask(frame, Confirmation(row))
        return found

    def _close(self, question: Question, ts_ns: int) -> Iterable[Record]:
        """Ends a question that is answered; returns the rows."""
        if isinstance(question, Call):
            if question.is_proven:
                self._streams.call(question, ts_ns)
                self._consumers.call(question, ts_ns)
                stores = [*self._buckets.call(question), *self._objects.call(question, ts_ns)]
                return [*question.close(None), *stores]
            if question.instead:
                question = question.instead
        if isinstance(question, Publication):
            self._streams.store(question, ts_ns)
        return question.close(None)


JETSTREAM = ApplicationLayer(MESSAGES_AND_INTEREST, JetStream, marked=True)
