"""The exceptions that JetStream adds to those of `natsync`; all are subclasses of `JetStreamError`.

An error response of the server becomes an `APIError` with its code, err_code and description; the
err_codes that programs act on have their own classes. The numbers are those of nats-server:
server/errors.json.
"""

from __future__ import annotations

import re
from typing import TypeVar

from ..errors import Facts, InvalidResponseError, NoRespondersError

__all__ = [
    "APIError",
    "BatchClosedError",
    "BatchPublishError",
    "ConsumerExistsError",
    "ConsumerNameInUseError",
    "ConsumerNotFoundError",
    "DuplicateMsgIdError",
    "FilterSubjectsError",
    "InsufficientResourcesError",
    "InvalidConsumerNameError",
    "InvalidNameError",
    "InvalidStreamNameError",
    "JetStreamError",
    "JetStreamNotEnabledError",
    "JetStreamUnavailableError",
    "MaximumConsumersError",
    "MaximumStreamsError",
    "MessageNotFoundError",
    "MessageTTLError",
    "InvalidPubAckError",
    "NoDirectGetError",
    "NoStreamResponseError",
    "RequiredAPILevelError",
    "ScheduleError",
    "SnapshotError",
    "StoreFailedError",
    "StreamNameInUseError",
    "StreamNotFoundError",
    "StreamSealedError",
    "SubjectsOverlapError",
    "TooManyRequestsError",
    "TooManyStalledMsgsError",
    "UnsupportedError",
    "WrongLastMsgIdError",
    "WrongLastSequenceError",
    "WrongStreamError",
    "api_error",
]


class JetStreamError(Facts):
    """The base of all errors of `natsync.jetstream`."""


class APIError(JetStreamError):
    """The server refused a request or a published message. `code` resembles an HTTP status,
    `err_code` is the stable number of the error, and `description` is the server's text."""

    code: int
    err_code: int
    description: str

    def __str__(self) -> str:
        number = f", err_code {self.err_code}" if self.err_code else ""
        return f"{self.description} (code {self.code}{number})"


class JetStreamNotEnabledError(APIError):
    """JetStream is off: on this server, in this domain, or for this account."""


class JetStreamUnavailableError(APIError):
    """JetStream has no leader at the moment, all servers with a copy are stopped, or it cannot
    answer now: try again."""


class InsufficientResourcesError(APIError):
    """The account's or the server's limit of memory or storage is reached, or too few servers can take
    a copy."""


class TooManyRequestsError(APIError):
    """The server sheds load: publish more slowly, and try again."""


class RequiredAPILevelError(APIError):
    """The server's JetStream API level is below that in the request header
    `Nats-Required-Api-Level`."""


class StreamNotFoundError(APIError):
    """There is no stream of that name."""


class StreamNameInUseError(APIError):
    """A stream of that name exists with another configuration."""


class SubjectsOverlapError(APIError):
    """Another stream has some of the subjects."""


class StreamSealedError(APIError):
    """The stream is sealed: nothing can be stored or deleted."""


class MaximumStreamsError(APIError):
    """The account may have no more streams."""


class ConsumerNotFoundError(APIError):
    """There is no consumer of that name."""


class ConsumerExistsError(APIError):
    """A consumer of that name exists with another configuration."""


class ConsumerNameInUseError(APIError):
    """A consumer of that name exists, and is in use."""


class MaximumConsumersError(APIError):
    """The stream, or the account, may have no more consumers."""


class FilterSubjectsError(APIError):
    """The filters of a consumer are empty, overlap, or are given in two ways."""


class MessageNotFoundError(APIError):
    """The stream has no such message."""


class StoreFailedError(APIError):
    """The message was not stored: the stream is full and discards new messages, or the store failed."""


class WrongLastSequenceError(APIError):
    """The expected last sequence, of the stream or of the subject, is not the actual one."""

    @property
    def last_seq(self) -> int | None:
        """The actual last sequence; None if the server does not report it, as for replicated
        streams."""
        found = re.fullmatch(r"wrong last sequence: (\d{1,20})", self.description)
        return int(found[1]) if found else None


class WrongLastMsgIdError(APIError):
    """The expected id of the last message is not the actual one."""


class WrongStreamError(APIError):
    """The message was not stored: the stream of its subject is not the expected one."""


class DuplicateMsgIdError(APIError):
    """A message with the same id is being stored at this moment."""


class MessageTTLError(APIError):
    """The stream does not allow message TTLs, or not this one."""


class ScheduleError(APIError):
    """The stream does not allow scheduled messages, or not this schedule."""


class BatchPublishError(APIError):
    """The batch was refused: the stream does not allow batches, or the batch is incomplete, too
    large or abandoned."""


class BatchClosedError(JetStreamError, RuntimeError):
    """The batch has ended: `end` says whether it was committed, discarded, closed or refused."""

    end: str

    _text = "the batch has ended: it was {end}"


class NoStreamResponseError(NoRespondersError, JetStreamError):
    """No stream has the subject of a published message."""

    _text = "no stream takes messages on {subject}"


class NoDirectGetError(JetStreamError):
    """Nobody answers a direct get: there is no such stream, or it does not have `allow_direct`."""

    stream: str

    _text = "no direct get from stream {stream}: it does not exist, or does not allow it"


class TooManyStalledMsgsError(JetStreamError, TimeoutError):
    """The limit of unacknowledged messages is reached, and no acknowledgement arrived within
    `stall` seconds."""

    pending: int
    stall: float

    _text = "{pending} published messages still not acknowledged after {stall:g} s"


class UnsupportedError(JetStreamError):
    """The server is too old for `feature`: it has `version`, and nats-server `needed` is
    required."""

    feature: str
    needed: str
    version: str

    def __str__(self) -> str:
        needed = f"nats-server {self.needed} or later" if self.needed else "a newer nats-server"
        return f"{self.feature} needs {needed}; this one is {self.version or 'older'}"


class InvalidPubAckError(InvalidResponseError, JetStreamError):
    """The response to a published message is not a JetStream acknowledgement: something else
    listens on its subject."""


class SnapshotError(JetStreamError):
    """The server did not send, or take, the whole snapshot of `stream`; `reason` says why."""

    stream: str
    reason: str

    _text = "snapshot of {stream} failed: {reason}"


class InvalidNameError(JetStreamError, ValueError):
    """Nothing in JetStream can have this name; nothing was sent."""

    name: str
    reason: str

    _text = "invalid name {_shown!r}: {reason}"

    @property
    def _shown(self) -> str:
        return self.name[:_SHOWN]


class InvalidStreamNameError(InvalidNameError):
    """No stream can have this name."""

    _text = "invalid stream name {_shown!r}: {reason}"


class InvalidConsumerNameError(InvalidNameError):
    """No consumer can have this name."""

    _text = "invalid consumer name {_shown!r}: {reason}"


_SHOWN = 64

_KINDS: dict[type[APIError], tuple[int, ...]] = {
    JetStreamNotEnabledError: (10039, 10076),
    JetStreamUnavailableError: (10008, 10007, 10009, 10118, 10119, 10163),
    InsufficientResourcesError: (10002, 10023, 10028, 10047),
    TooManyRequestsError: (10167,),
    RequiredAPILevelError: (10185,),
    StreamNotFoundError: (10059,),
    StreamNameInUseError: (10058,),
    SubjectsOverlapError: (10065,),
    StreamSealedError: (10109,),
    MaximumStreamsError: (10027,),
    ConsumerNotFoundError: (10014, 10149),
    ConsumerExistsError: (10105, 10148),
    ConsumerNameInUseError: (10013,),
    MaximumConsumersError: (10026,),
    FilterSubjectsError: (10136, 10138, 10139),
    MessageNotFoundError: (10037, 10043),
    StoreFailedError: (10077,),
    WrongLastSequenceError: (10071, 10164),
    WrongLastMsgIdError: (10070,),
    WrongStreamError: (10060,),
    DuplicateMsgIdError: (10158, 10201),
    MessageTTLError: (10165, 10166),
    ScheduleError: (*range(10188, 10193), 10203, 10212, 10223),
    BatchPublishError: (*range(10174, 10178), 10179, 10199, 10200, *range(10205, 10212)),
}
_NO_PEERS = 10005  # also that of an unknown preferred leader
_BY_NUMBER = {number: kind for kind, numbers in _KINDS.items() for number in numbers}

_T = TypeVar("_T", int, str)


def api_error(error: object) -> APIError:
    """Returns the exception for `error`, the value under that key of a response."""
    facts = error if isinstance(error, dict) else {}

    def fact(key: str, absent: _T) -> _T:
        value = facts.get(key)
        return value if isinstance(value, type(absent)) else absent

    err_code = fact("err_code", 0)
    description = fact("description", "error without a description")
    kind = _BY_NUMBER.get(err_code, APIError)
    if err_code == _NO_PEERS and description.startswith("no suitable peers for placement"):
        kind = InsufficientResourcesError
    return kind(fact("code", 500), err_code, description)
