"""Messages of a stream, read without a consumer, one or many at a time, and deleted.

A single message comes from the stream's leader by STREAM.MSG.GET, or with direct get from any
server that holds a copy (ADR-31), which is faster but may lag slightly behind the leader. Many
messages come by direct get only.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from .._engine.log import logger
from .._json import check_time, format_time, parse_time
from ..errors import (
    Error,
    InvalidResponseError,
    NoRespondersError,
    ProtocolError,
    RequestTimeoutError,
)
from ..message import Headers, Msg, is_no_responders, to_text
from ..protocol import parse_headers
from .api import API
from .errors import (
    APIError,
    MessageNotFoundError,
    NoDirectGetError,
    RequiredAPILevelError,
    StreamNotFoundError,
    TooManyRequestsError,
    UnsupportedError,
)

__all__ = [
    "PLAIN",
    "StoredMsg",
    "ask_directly",
    "batch_request",
    "delete_msg",
    "direct_get",
    "direct_get_batch",
    "get_msg",
    "read_stored",
]

_T = TypeVar("_T", int, str)
_NO_HEADERS = Headers()

EOB = 204
_FIRST_ADDED = b"\r\nNats-Stream: "
PLAIN = re.compile(
    rb"NATS/1\.0\r\nNats-Stream: ([^\r\n]+)\r\nNats-Subject: ([^\r\n]+)\r\n"
    rb"Nats-Sequence: (\d{1,20})\r\n"
    rb"Nats-Time-Stamp: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)\r\n\r\n"
)
"""The headers of nearly every response to a direct get, for a message without headers of its own:
stream, subject, sequence and time. Matching this pattern takes a tenth of the time of parsing
headers."""


@dataclass(frozen=True, slots=True)
class StoredMsg:
    """A message as its stream holds it. If its headers cannot be read, there are none, and a warning
    is logged. `time` is when it was stored, to the microsecond. `stream` is the stream that answered,
    which may be a mirror. `pending` is the number of messages of the same batch request that are still
    to come."""

    subject: str
    seq: int
    data: bytes
    headers: Headers
    time: datetime
    stream: str
    pending: int = 0


def get_msg(api: API, stream: str, request: Mapping[str, object]) -> StoredMsg:
    """Returns the message that `request` selects, from the leader. It is read by hand, not as a JSONObject,
    which would take three times as long."""
    call = f"STREAM.MSG.GET.{stream}"
    message = api.request(call, request).get("message")
    if not isinstance(message, dict):
        raise InvalidResponseError(api.subject(call), "no message")
    try:
        block = base64.b64decode(message.get("hdrs") or "", validate=True)
        subject, seq = _of(str, message["subject"]), _of(int, message["seq"])
        try:
            headers = _headers(block)
        except ProtocolError as error:
            headers = Headers()
            _warn(subject, str(seq), error)
        return StoredMsg(
            subject=subject,
            seq=seq,
            data=base64.b64decode(message.get("data") or "", validate=True),
            headers=headers,
            time=parse_time(_of(str, message["time"])),
            stream=stream,
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        reason = f"a message that cannot be read: {type(error).__name__}"
        raise InvalidResponseError(api.subject(call), reason) from error


def delete_msg(api: API, stream: str, seq: int, erase: bool) -> None:
    """Deletes a message; `erase` also overwrites its bytes."""
    body: dict[str, object] = {"seq": seq}
    if not erase:
        body["no_erase"] = True
    api.request(f"STREAM.MSG.DELETE.{stream}", body)


def direct_get(
    api: API, stream: str, request: Mapping[str, object], subject: str = ""
) -> StoredMsg:
    """Returns the message that `request` selects, or the last one on `subject`, from any server
    that has a copy."""
    call = f"DIRECT.GET.{stream}"
    if subject:
        call = f"{call}.{subject}"
    wire = api.subject(call)
    return read_stored(
        ask_directly(api, stream, wire, b"" if subject else api.encode(request)), wire
    )


def ask_directly(api: API, stream: str, wire: str, data: bytes) -> Msg:
    """Returns the response to a direct get on the subject `wire`: a message, or a refusal, for
    which `read_stored` raises. Raises NoDirectGetError if no server answers for the stream."""
    try:
        return api.core.request(wire, data, timeout=api.timeout)
    except NoRespondersError as error:
        raise NoDirectGetError(stream) from error
    except RequestTimeoutError as error:
        if not error.outage and api.is_older("2.11") and not _is_direct(api, stream):
            raise NoDirectGetError(stream) from error
        raise


def _is_direct(api: API, stream: str) -> bool:
    """Returns whether the stream allows direct gets, as far as the server says. Before server 2.11, those of
    other streams, also of deleted ones, may stay without an answer (seen with 2.9.10)."""
    try:
        info = api.request(f"STREAM.INFO.{stream}", timeout=min(api.timeout, 1.0))
    except StreamNotFoundError:
        return False
    except Error:
        return True
    config = info.get("config")
    return not isinstance(config, dict) or any(
        config.get(key) for key in ("allow_direct", "mirror_direct")
    )


def read_stored(msg: Msg, wire: str) -> StoredMsg:
    """Returns the message in the response to a direct get on `wire`. Raises APIError for a refusal,
    and InvalidResponseError."""
    plain = PLAIN.fullmatch(msg.header_block)
    if plain:
        return _plain(msg.data, plain, wire)
    if _status(msg):
        raise _refusal(msg)
    return _stored(msg, wire)


def batch_request(
    *,
    seq: int = 0,
    subject: str = "",
    subjects: Sequence[str] = (),
    start_time: datetime | None = None,
    up_to_seq: int = 0,
    up_to_time: datetime | None = None,
    batch: int = 0,
    max_bytes: int = 0,
) -> dict[str, object]:
    """Returns the body of a request for many messages (ADR-31)."""
    body: dict[str, object] = {
        "seq": seq,
        "next_by_subj": subject,
        "multi_last": [*subjects],
        "start_time": start_time and format_time(check_time("start_time", start_time)),
        "up_to_seq": up_to_seq,
        "up_to_time": up_to_time and format_time(check_time("up_to_time", up_to_time)),
        "batch": batch,
        "max_bytes": max_bytes,
    }
    return {key: value for key, value in body.items() if value}


def direct_get_batch(api: API, stream: str, request: Mapping[str, object]) -> Iterator[StoredMsg]:
    """Iterates over the messages that `request` selects, as they arrive; sends the request when the
    iteration begins.

    Raises MessageNotFoundError if there are none, RequestTimeoutError if messages stop arriving
    before the end of the batch, UnsupportedError for a server before 2.11, NoDirectGetError, and
    the errors of `Client.request_many`.
    """
    api.need("getting messages in a batch", "2.11")
    wire = api.subject(f"DIRECT.GET.{stream}")
    with api.core.open_replies(wire, limited=False) as replies:
        replies.request(api.encode(request))
        while True:
            msg = replies.next(api.timeout)
            if msg is None:
                raise RequestTimeoutError(wire, api.timeout)
            if is_no_responders(msg):
                raise NoDirectGetError(stream)
            status = _status(msg)
            if status == EOB:
                return
            if status:
                raise _refusal(msg)
            if "Nats-Num-Pending" not in _headers_in(msg):
                raise UnsupportedError("getting messages in a batch", "2.11", "")
            yield _stored(msg, wire)


def _plain(data: bytes, plain: re.Match[bytes], wire: str) -> StoredMsg:
    stream, subject, seq, time = plain.groups()
    try:
        stored = parse_time(time.decode("ascii", "replace"))
    except ValueError as error:
        raise InvalidResponseError(wire, "a message without its sequence and time") from error
    return StoredMsg(to_text(subject), int(seq), data, _NO_HEADERS, stored, to_text(stream))


def _stored(msg: Msg, wire: str) -> StoredMsg:
    try:
        headers = msg.headers
    except ProtocolError as error:
        headers = _headers_in(msg)
        _warn(headers.get("Nats-Subject", ""), headers.get("Nats-Sequence", ""), error)
    # The server appends its headers: a republished message may already have older ones.
    fields = list(headers.fields)
    added = max((at for at, (name, _) in enumerate(fields) if name == "Nats-Stream"), default=0)
    facts = dict(fields[added:])
    try:
        return StoredMsg(
            subject=facts["Nats-Subject"],
            seq=int(facts["Nats-Sequence"]),
            data=msg.data,
            headers=Headers(fields[:added]),
            time=parse_time(facts["Nats-Time-Stamp"]),
            stream=facts["Nats-Stream"],
            pending=int(facts.get("Nats-Num-Pending", 0)),
        )
    except (KeyError, ValueError) as error:
        raise InvalidResponseError(wire, "a message without its sequence and time") from error


def _status(msg: Msg) -> int:
    """The status of a response that is not a stored message, or 0. Servers before 2.14 keep the
    status with which a message was published."""
    return 0 if "Nats-Sequence" in _headers_in(msg) else msg.status


def _refusal(msg: Msg) -> APIError:
    kind = {
        404: MessageNotFoundError,
        412: RequiredAPILevelError,
        429: TooManyRequestsError,
    }.get(msg.status, APIError)
    return kind(msg.status, 10037 if msg.status == 404 else 0, msg.description or "no message")


def _headers_in(msg: Msg) -> Headers:
    """The headers of the response to a direct get. If those of the stored message cannot be read, these
    are the ones that the server has added after them."""
    try:
        return msg.headers
    except ProtocolError:
        _, name, added = msg.header_block.rpartition(_FIRST_ADDED)
        return _headers(b"NATS/1.0" + name + added) if name else Headers()


def _warn(subject: str, seq: str, error: ProtocolError) -> None:
    logger().warning("message %s on %s has headers that cannot be read: %s", seq, subject, error)


def _headers(block: bytes) -> Headers:
    if not block:
        return Headers()
    text = [(to_text(name), to_text(value)) for name, value in parse_headers(block).fields]
    return Headers(text)


def _of(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError
    return value
