"""Calls of the JetStream API, each with its answer, and the advisories that servers send about it.

A call is a request whose body is a JSON object or empty; its answer has a `type`, and an `error` if the call
failed (ADR-1, ADR-7). The answer to a direct get is the stored message itself (ADR-31): the row shows the
facts in its headers. An advisory or metric (`$JS.EVENT.>`) has its own row, without a request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from ...outcomes import END_OF_BATCH_STATUS, NO_RESPONDERS_TEXT, is_error_status
from ...schema.anomalies import Anomaly
from ...schema.declaration import LayerFrame, TextColumn
from ...schema.records import Record
from ...secrets.redact import NO_SECRETS, Secrets
from ...sessions.advisories import trouble
from ..exchanges import Question
from ..json_bodies import (
    Member,
    Object,
    clock_ns,
    decimal,
    error_of,
    fill,
    header,
    masked_json,
    read_object,
    status_text,
    text,
    why_unread,
)
from ..rows import API_ERROR, CONSUMER, DOMAIN, LATENCY, STREAM, SessionRow, head, mark
from .subjects import ApiSubject

_TYPE = "io.nats.jetstream."
_DIRECT = "DIRECT.GET"


@dataclass(slots=True, kw_only=True)
class ApiRecord(SessionRow):
    """One call of the JetStream API, or one advisory."""

    number: Annotated[int, "number of the frame of the request, or of the advisory"]
    api: Annotated[
        str,
        "name of the call, such as STREAM.CREATE; of an advisory, EVENT.ADVISORY and its name",
        TextColumn("call", 22, may_cut=True),
    ]
    domain: Annotated[
        str | None, "JetStream domain that the subject or the advisory names", DOMAIN
    ] = None
    stream: Annotated[str | None, "stream that the call or advisory names", STREAM] = None
    consumer: Annotated[str | None, "consumer that the call or advisory names", CONSUMER] = None
    subject: Annotated[str, "subject of the request or advisory"]
    request: Annotated[str | None, "body of the request: JSON, with secrets masked"] = None
    response_type: Annotated[str | None, "`type` of the answer or advisory", Member("type")] = None
    response: Annotated[
        str | None,
        "the answer or advisory: JSON, without secrets and stored contents; of a direct get, "
        "its headers",
    ] = None
    responses: Annotated[
        int, "number of answers, more than one only for direct gets of several messages"
    ] = 0
    code: Annotated[int | None, "code of the error, as in HTTP; 503 means that nobody listens"] = (
        None
    )
    err_code: Annotated[int | None, "JetStream's number of the error"] = None
    error: Annotated[str | None, "description of the error", API_ERROR] = None
    latency_ns: Annotated[int | None, "time from the request to the first answer", LATENCY] = None
    reply_number: Annotated[int | None, "number of the frame of the first answer"] = None
    clock_ns: Annotated[
        int | None,
        "how far the clock of the server is ahead of the clock of the capture, by the time in"
        " its answer or advisory",
    ] = None
    anomalies: Annotated[list[str] | None, "anomalies of the call or advisory"] = None


class Call:
    """A request that waits for its answer: a `Question`. `request` and `response` are the parsed bodies,
    `value` is the frame of the first answer, and `rest` the end of the subject. If the message turns out not
    to be a call, it is `instead`: a publication to a stream whose subjects look like calls."""

    __slots__ = "row request response value rest instead held_bytes _certain _many".split()

    def __init__(
        self, frame: LayerFrame, asked: ApiSubject, instead: Question | None = None
    ) -> None:
        self.row = ApiRecord(
            **head(frame),
            api=asked.api,
            domain=asked.domain or None,
            stream=asked.stream or None,
            consumer=asked.consumer or None,
            subject=frame.subject or "",
        )
        self.row.account = _account(frame, asked.api)
        self.request: Object = {}
        self.response: Object = {}
        self.value: LayerFrame | None = None
        self.rest = asked.rest
        self.instead = instead
        self.held_bytes = len(frame.content) + (instead.held_bytes if instead else 0)
        if frame.content:
            read = read_object(frame.content)
            if read is None:
                mark(self.row, why_unread(frame))
            else:
                self.request = read
                self.row.request = masked_json(read, frame.secrets)
        self._certain = asked.certain
        self._many = asked.api == _DIRECT and bool({"batch", "multi_last"} & self.request.keys())

    @property
    def is_proven(self) -> bool:
        """Whether this is certainly a call: its subject shows it or, if the subject has another prefix, the
        answer does."""
        if self._certain:
            return True
        value = self.value
        is_message = value is not None and header(value, "Nats-Sequence") is not None
        return is_message or text(self.response, "type").startswith(_TYPE)

    @property
    def secrets(self) -> Secrets:
        """The secrets that the session had shown when the first answer came."""
        return self.value.secrets if self.value else NO_SECRETS

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Takes an answer; returns whether more may come. Only the first one fills the row."""
        row = self.row
        row.responses += 1
        if self.value is None:
            self.value = frame
            self.held_bytes += len(frame.content)
            row.latency_ns = latency_ns
            row.reply_number = frame.number
            self._read(frame)
            if nobody:
                row.error = row.error or NO_RESPONDERS_TEXT
            if self.instead:
                self.instead.answer(frame, nobody, latency_ns)
        is_last = frame.status == END_OF_BATCH_STATUS or is_error_status(frame.status)
        return self._many and not is_last

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the exchange; returns the row if this is certainly a call."""
        mark(self.row, anomaly)
        if self.is_proven:
            return (self.row,)
        return self.instead.close(anomaly) if self.instead else ()

    def _read(self, frame: LayerFrame) -> None:
        row = self.row
        if is_error_status(frame.status):
            row.code, row.error = frame.status, status_text(frame)
            return
        if row.api == _DIRECT:
            row.response = masked_json(_message_facts(frame), frame.secrets)
            return
        read = read_object(frame.content)
        if read is None:
            mark(self.row, why_unread(frame))
            return
        self.response = read
        row.response = masked_json(read, frame.secrets)
        fill(row, read)
        row.clock_ns = clock_ns(text(read, "ts"), frame.ts_ns)
        row.code, row.err_code, row.error = error_of(read, frame.secrets)
        if row.stream is None:
            row.stream = text(read, "stream_name") or None


def _account(frame: LayerFrame, api: str) -> str | None:
    """The account whose streams a call concerns. Accounts import the API, except for direct gets, from the
    system account, which frames between servers name; a header has the account that imports it, or `svc` if
    that account exports it to the one that asks (nats-server: server/events.go, serviceAccount)."""
    info = header(frame, "Nats-Request-Info") if frame.account and api != _DIRECT else None
    read = read_object(info.encode("utf-8", "replace")) if info else None
    return (read and (text(read, "svc") or text(read, "acc"))) or frame.account


def _message_facts(frame: LayerFrame) -> Object:
    """The facts in the headers of a stored message (ADR-31)."""
    facts: Object = {
        "stream": header(frame, "Nats-Stream"),
        "subject": header(frame, "Nats-Subject"),
        "seq": decimal(header(frame, "Nats-Sequence")),
        "time": header(frame, "Nats-Time-Stamp"),
        "payload_bytes": frame.payload_bytes,
    }
    return {name: value for name, value in facts.items() if value is not None}


_OF_CONSUMER = "EVENT.ADVISORY.CONSUMER", "EVENT.METRIC.CONSUMER"
_OF_STREAM = "EVENT.ADVISORY.STREAM"


def advisory(frame: LayerFrame) -> tuple[ApiRecord, Object]:
    """The row of an advisory or metric, and its body."""
    subject = frame.subject or ""
    tokens = subject.split(".")
    api, names = ".".join(tokens[1:5]), tokens[5:]
    row = ApiRecord(**head(frame), api=api, subject=subject)
    read = read_object(frame.content)
    if read is None:
        row.anomalies = [why_unread(frame)]
        read = {}
    else:
        row.response = masked_json(read, frame.secrets)
        fill(row, read)
        row.clock_ns = clock_ns(text(read, "timestamp"), frame.ts_ns)
        row.domain = text(read, "domain") or None
        row.account = row.account or text(read, "account") or None
        row.error = frame.secrets.masked(text(read, "reason")) or None
    named = names if api.startswith((*_OF_CONSUMER, _OF_STREAM)) else []
    row.stream = text(read, "stream") or (named[0] if named else None)
    row.consumer = text(read, "consumer") or (
        named[1] if len(named) > 1 and api.startswith(_OF_CONSUMER) else None
    )
    if trouble(subject.encode("utf-8", "replace")):
        mark(row, Anomaly.JETSTREAM_TROUBLE.value)
    return row, read
