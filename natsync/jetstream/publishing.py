"""Publishing with acknowledgement: headers of a message, and the server's PubAck.

A publish is a request on the message's subject; the stream that has the subject answers it. Nobody
answers while the stream has no leader, so a publish without responders is tried again, as in
nats.go (jetstream/publish.go). A message with an id is tried until its timeout, unless the server
lists no stream with the subject.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Literal, NamedTuple, TypedDict, TypeVar

from .._checks import check_count, check_options, check_seconds, check_text, check_unsigned
from .._json import decode_object
from ..errors import (
    ConnectionReconnectingError,
    Error,
    InvalidResponseError,
    NoRespondersError,
    OptionError,
    RequestTimeoutError,
)
from ..message import Data, Headers, HeadersLike, Msg
from .api import API, Timeout
from .errors import (
    DuplicateMsgIdError,
    InvalidPubAckError,
    JetStreamUnavailableError,
    NoStreamResponseError,
    WrongLastMsgIdError,
    WrongLastSequenceError,
    api_error,
)
from .schedule import Schedule, format_ttl

__all__ = [
    "ATTEMPT",
    "EXPECTATIONS",
    "RETRIED_WITH_ID",
    "RETRY_WAIT",
    "PubAck",
    "PublishOptions",
    "RETRIES",
    "Rollup",
    "check_retries",
    "lists_none",
    "message_headers",
    "names_request",
    "names_time",
    "publish",
    "raise_if_gone",
    "read_ack",
]

RETRIES = 2
RETRY_WAIT = 0.25
"""How often, and after how many seconds, a publish without responders is tried again (nats.go:
DefaultPubRetryWait)."""

ATTEMPT = 2.0
"""Seconds to wait for the first attempt to publish a message with an id; each later attempt waits
twice as long. A leader that was killed never answers the requests that had reached it."""

RETRIED_WITH_ID = (ConnectionReconnectingError, DuplicateMsgIdError, JetStreamUnavailableError)
"""After these errors the message may be stored; with an id it is not stored twice."""

EXPECTATIONS = (WrongLastSequenceError, WrongLastMsgIdError)
"""Errors that a repeated message can get because it is already stored: servers check expectations
before the message id (nats-server: server/stream.go, processJetStreamMsg)."""

_T = TypeVar("_T")

Rollup = Literal["sub", "all"]


class PublishOptions(TypedDict, total=False):
    """How a message is stored. The server refuses it if an expectation does not hold."""

    msg_id: str
    """A message with the same id is stored once within the stream's duplicate window. With an id, a
    publish is tried again until its timeout, also after a reconnect: it cannot be stored twice."""
    expected_stream: str
    """The stream that must store it, else WrongStreamError."""
    expected_last_seq: int
    """The expected last sequence of the stream, else WrongLastSequenceError."""
    expected_last_subject_seq: int
    """The expected last sequence of the subject, 0 if it has no message, else
    WrongLastSequenceError."""
    expected_last_subject_seq_subject: str
    """The subject, possibly with wildcards, to which `expected_last_subject_seq` refers (server
    2.11)."""
    expected_last_msg_id: str
    """The expected id of the last message of the stream, else WrongLastMsgIdError."""
    ttl: float | Literal["never"]
    """Seconds, at least 1, after which the message is deleted (server 2.11; stream `allow_msg_ttl`)."""
    rollup: Rollup
    """Deletes all earlier messages of the subject or the stream (stream `allow_rollup_hdrs`)."""
    incr: int
    """Adds to the counter of the subject; the payload is empty (server 2.12; stream `allow_msg_counter`)."""
    schedule: Schedule
    """Publishes the message later, or repeatedly (server 2.12; stream `allow_msg_schedules`)."""


_NAMES = {
    "msg_id": "Nats-Msg-Id",
    "expected_stream": "Nats-Expected-Stream",
    "expected_last_seq": "Nats-Expected-Last-Sequence",
    "expected_last_subject_seq": "Nats-Expected-Last-Subject-Sequence",
    "expected_last_subject_seq_subject": "Nats-Expected-Last-Subject-Sequence-Subject",
    "expected_last_msg_id": "Nats-Expected-Last-Msg-Id",
    "ttl": "Nats-TTL",
    "rollup": "Nats-Rollup",
    "incr": "Nats-Incr",
}
_NEEDED = {
    "expected_last_subject_seq_subject": "2.11",
    "ttl": "2.11",
    "incr": "2.12",
    "schedule": "2.12",
}
"""Earlier servers store a message with this option as a plain one."""


class PubAck(NamedTuple):
    """The acknowledgement that `stream` has stored the message under the sequence `seq`; with
    `duplicate`, it had already stored a message with the same id. `value` is the counter's value
    after `incr`. The acknowledgement of a batch has the batch's id and message count."""

    stream: str
    seq: int
    duplicate: bool = False
    domain: str = ""
    value: int | None = None
    batch_id: str = ""
    batch_count: int = 0


def publish(
    api: API,
    subject: str,
    data: Data,
    headers: HeadersLike | None,
    timeout: Timeout,
    options: PublishOptions,
    retry_attempts: int = RETRIES,
    retry_wait: float = RETRY_WAIT,
) -> PubAck:
    """Publishes, and returns the acknowledgement: see `JetStream.publish`."""
    sent = message_headers("publish", api, headers, options) if options else headers
    has_id = "msg_id" in options
    seconds = api.seconds(timeout)
    asked = monotonic()
    until = asked + seconds
    attempts, patience = 0, ATTEMPT if has_id else seconds
    left = patience if patience < seconds else seconds
    unsure: Error | None = None  # the error of an attempt that may have stored the message
    while True:
        try:
            return read_ack(
                api.core.request(subject, data, timeout=left, headers=sent).data, subject
            )
        except RequestTimeoutError as error:
            if not has_id or monotonic() >= until:
                raise RequestTimeoutError(subject, seconds, error.outage) from None
            unsure = error
            patience *= 2
            left = max(0.0, min(patience, until - monotonic()))
            continue
        except EXPECTATIONS as error:
            if unsure is None:
                raise
            raise unsure from error
        except (NoRespondersError, *RETRIED_WITH_ID) as error:
            nobody = isinstance(error, NoRespondersError)
            if isinstance(error, ConnectionReconnectingError):
                unsure = error
            attempts += nobody
            if not (nobody or has_id):
                raise
            if until < monotonic() + retry_wait:
                if not nobody:
                    raise
                if unsure:
                    raise RequestTimeoutError(subject, seconds) from error
                raise NoStreamResponseError(subject) from error
            if nobody and attempts > retry_attempts and not unsure:
                if not (has_id and _may_have_stream(api, subject, names_time(asked))):
                    raise NoStreamResponseError(subject) from error
        api.pause(retry_wait)
        asked = monotonic()
        left = max(0.0, min(patience, until - asked))


def check_retries(retry_attempts: object, retry_wait: object) -> None:
    """Checks how often, and after how many seconds, a publish without responders is tried again."""
    check_count(retry_attempts=retry_attempts)
    check_seconds(retry_wait=retry_wait)
    for name, value in (("retry_attempts", retry_attempts), ("retry_wait", retry_wait)):
        assert isinstance(value, (int, float))
        if value < 0:
            raise OptionError(name, "must not be negative")


def _may_have_stream(api: API, subject: str, timeout: float) -> bool:
    try:
        call, data = names_request(api, subject)
        return not lists_none(api.core.request(call, data, timeout=timeout))
    except Error:  # the server does not say at the moment
        return True


def names_request(api: API, subject: str) -> tuple[str, bytes]:
    """Returns subject and payload of the request that lists the streams with `subject`. The
    cluster's leader answers it, even for streams without a leader."""
    return api.subject("STREAM.NAMES"), api.encode({"subject": subject})


def names_time(asked: float) -> float:
    """Returns the seconds to wait for the answer to that request, now that nobody has answered a
    publish of the time `asked`: long enough for the round trip, but without a leader of the cluster
    no answer comes, and the message waits."""
    return RETRY_WAIT + 2 * (monotonic() - asked)


def lists_none(answer: Msg) -> bool:
    """Returns whether the answer lists no stream."""
    try:
        response = decode_object(answer.data, answer.subject)
    except InvalidResponseError:
        return False
    return "error" not in response and response.get("total") == 0


def message_headers(
    call: str, api: API, headers: HeadersLike | None, options: PublishOptions
) -> HeadersLike | None:
    """Returns the headers of a message with these options, for the public method `call`. Raises
    OptionError or TypeError for invalid options, UnsupportedError if the server is too old for
    one."""
    msg_id = options.get("msg_id")
    if len(options) == 1 and msg_id.__class__ is str and msg_id and not headers:
        return {"Nats-Msg-Id": msg_id}  # the hot path
    own: dict[str, str] = {}
    check_options(call, options, PublishOptions.__optional_keys__)
    for name, value in options.items():
        if name in _NEEDED:
            api.need(name, _NEEDED[name])
        if name == "schedule":
            if not isinstance(value, Schedule):
                raise TypeError(f"schedule must be Schedule, not {type(value).__name__}")
            own.update(value.headers())
        else:
            own[_NAMES[name]] = _value(name, value)
    if "expected_last_subject_seq_subject" in options:
        if "expected_last_subject_seq" not in options:
            option = "expected_last_subject_seq_subject"
            raise OptionError(option, "needs expected_last_subject_seq")
    if not headers:
        return own
    # A dict is encoded fastest; Headers may repeat a name.
    return {**(headers.to_dict() if isinstance(headers, Headers) else headers), **own}


def _value(name: str, value: object) -> str:
    """The value of a header."""
    if name == "ttl":
        return format_ttl(value)
    if name == "incr":
        check_count(incr=value)
        return f"{value:+d}"
    if name in ("expected_last_seq", "expected_last_subject_seq"):
        check_unsigned(**{name: value})
        return str(value)
    check_text(**{name: value})
    assert isinstance(value, str)
    if not value:
        raise OptionError(name, "must not be empty")
    return value


_heads: dict[bytes, tuple[str, str]] = {}
"""Maps the beginning of an acknowledgement, up to the sequence, to its stream and domain. In nearly
all acknowledgements only the sequence follows, and the look-up takes a third of the time of JSON
parsing (CPython 3.11)."""
_MOST_HEADS = 256
_LONGEST_HEAD = 512


def read_ack(data: bytes, subject: str) -> PubAck:
    """Returns the acknowledgement of a message on `subject`. Raises APIError if the server refused
    the message, InvalidPubAckError for anything else."""
    head, _, tail = data.rpartition(b":")
    known = _heads.get(head)
    if known and 1 < len(tail) < 22 and tail[-1] == 125 and (digits := tail[:-1]).isdigit():
        # Calling PubAck takes three times as long: 0.2 us per message.
        return tuple.__new__(PubAck, (known[0], int(digits), False, known[1], None, "", 0))
    ack = _read_json_ack(data, subject)
    is_plain = ack == PubAck(ack.stream, ack.seq, domain=ack.domain)
    if is_plain and head.endswith(b'"seq"') and tail == b"%d}" % ack.seq:
        if len(_heads) >= _MOST_HEADS:
            _heads.clear()
        if len(head) <= _LONGEST_HEAD:
            _heads[head] = ack.stream, ack.domain
    return ack


def raise_if_gone(look: Callable[[], object], gone: type[Error], error: Error) -> None:
    """Raises `gone` from `error` if `look` raises it, because the stream does not exist. `error`
    says that no stream takes messages, which is also the case while the stream has no leader."""
    try:
        look()
    except gone as found:
        raise found from error
    except Error:  # the server does not say at the moment
        pass


def _read_json_ack(data: bytes, subject: str) -> PubAck:
    try:
        ack = decode_object(data, subject)
    except InvalidResponseError as error:
        raise InvalidPubAckError(subject, error.reason) from None
    if ack.get("error"):
        raise api_error(ack["error"])
    try:
        value = ack.get("val")
        return PubAck(
            stream=_of(str, ack["stream"]),
            seq=_of(int, ack["seq"]),
            duplicate=_of(bool, ack.get("duplicate", False)),
            domain=_of(str, ack.get("domain", "")),
            value=None if value is None else int(_of(str, value)),
            batch_id=_of(str, ack.get("batch", "")),
            batch_count=_of(int, ack.get("count", 0)),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidPubAckError(subject, "no stream and sequence") from None


def _of(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError
    return value
