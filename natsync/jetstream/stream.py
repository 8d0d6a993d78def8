"""`Stream`: one stream, its messages and its consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO, Literal

from .._checks import check_count, check_kind, check_text, check_unsigned, plain
from .._json import check_pattern
from ..errors import InvalidResponseError, OptionError
from ..message import to_wire
from ..options import DEFAULT
from ..protocol import check_publish
from .api import API, Timeout, check_kept
from .configs import ConsumerConfig, StreamConfig
from .consumer import Consumer
from .consumer_api import (
    Action,
    consumer_info,
    create_consumer,
    delete_consumer,
    pause_consumer,
    reset_consumer,
    unpin_consumer,
)
from .infos import ConsumerInfo, PauseInfo, StreamInfo, StreamState
from .names import check_consumer_name, check_stream_name
from .snapshots import take_snapshot
from .stored import (
    StoredMsg,
    batch_request,
    delete_msg,
    direct_get,
    direct_get_batch,
    get_msg,
)

__all__ = [
    "Stream",
    "configure_stream",
    "delete_stream",
    "list_streams",
    "purge_stream",
    "stream_info",
    "stream_names",
]


def configure_stream(
    api: API, verb: Literal["CREATE", "UPDATE"], config: StreamConfig
) -> StreamInfo:
    """Creates or updates the stream in `config`."""
    check_kind(StreamConfig, config=config)
    api.check_supported(config)
    call = f"STREAM.{verb}.{check_stream_name(config.name)}"
    response = api.request(call, config.to_json())
    response.pop("did_create", None)  # true even if the stream already existed
    info = StreamInfo.from_json(response, api.subject(call))
    check_kept(config, info.config)
    return info


def delete_stream(api: API, name: str) -> None:
    """Deletes a stream with its messages and consumers."""
    api.request(f"STREAM.DELETE.{check_stream_name(name)}")


def list_streams(api: API, subject: str = "") -> Iterator[StreamInfo]:
    """Iterates over all streams, or those with a subject that overlaps `subject`."""
    check_pattern(subject or ">")
    body = {"subject": subject} if subject else {}
    return api.pages("STREAM.LIST", "streams", StreamInfo.from_json, **body)


def stream_info(
    api: API, name: str, *, deleted_details: bool = False, subjects_filter: str = ""
) -> StreamInfo:
    """Asks the server for the `StreamInfo`. Subjects arrive in pages of 100,000, which are
    merged."""
    call = f"STREAM.INFO.{check_stream_name(name)}"
    check_pattern(subjects_filter or ">")
    subjects: dict[str, int] = {}
    while True:
        body: dict[str, object] = {}
        if deleted_details:
            body["deleted_details"] = True
        if subjects_filter:
            body |= {"subjects_filter": subjects_filter, "offset": len(subjects)}
        response = api.request(call, body)
        total = response.pop("total", 0)
        response.pop("offset", None)
        response.pop("limit", None)
        info = StreamInfo.from_json(response, api.subject(call))
        known = len(subjects)
        subjects.update(info.state.subjects)
        if len(subjects) == known or not isinstance(total, int) or len(subjects) >= total:
            return replace(info, state=_with_subjects(info.state, subjects))


def stream_names(api: API, subject: str = "") -> Iterator[str]:
    """Iterates over the names of all streams, or of those with a subject that overlaps `subject`."""
    check_pattern(subject or ">")
    body = {"subject": subject} if subject else {}
    return api.pages("STREAM.NAMES", "streams", read_name, **body)


def purge_stream(api: API, name: str, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
    """Deletes messages: see `Stream.purge`."""
    body: dict[str, object] = {"filter": subject, "seq": seq, "keep": keep}
    call = f"STREAM.PURGE.{name}"
    purged = api.request(call, {key: value for key, value in body.items() if value}).get("purged")
    if not isinstance(purged, int):
        raise InvalidResponseError(api.subject(call), "no number of purged messages")
    return purged


def _with_subjects(state: StreamState, subjects: dict[str, int]) -> StreamState:
    return replace(state, subjects=subjects) if len(subjects) != len(state.subjects) else state


def read_name(value: object, subject: str) -> str:
    """An item of a list of names."""
    if not isinstance(value, str):
        raise InvalidResponseError(subject, "a name that is not a string")
    return value


class Stream:
    """A stream. Any number of threads may use it. Made by `JetStream.stream` and `create_stream`.

    Every method sends a request. It raises StreamNotFoundError if the stream no longer exists, and
    the errors of `JetStream`.
    """

    def __init__(self, api: API, info: StreamInfo) -> None:
        self._api = api
        self._info = info

    @property
    def name(self) -> str:
        """Its name."""
        return self._info.config.name

    @property
    def cached_info(self) -> StreamInfo:
        """The `StreamInfo` that the server sent last; sends no request."""
        return self._info

    def info(self, *, deleted_details: bool = False, subjects_filter: str = "") -> StreamInfo:
        """Asks the server for the `StreamInfo`. With `deleted_details` it lists the sequences of
        deleted messages; with `subjects_filter`, the number of messages on each matching
        subject."""
        check_text(subjects_filter=subjects_filter)
        self._info = stream_info(
            self._api, self.name, deleted_details=deleted_details, subjects_filter=subjects_filter
        )
        return self._info

    def purge(self, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """Deletes messages and returns how many were deleted: all messages, or only those on
        subjects that match `subject`. `seq` spares messages with that sequence or a later one;
        `keep` spares the last `keep` messages."""
        check_pattern(subject or ">")
        check_unsigned(seq=seq, keep=keep)
        if seq and keep:
            raise OptionError("keep", "excludes seq")
        return purge_stream(self._api, self.name, subject=subject, seq=seq, keep=keep)

    def get_msg(self, seq: int, *, subject: str = "", direct: bool = False) -> StoredMsg:
        """Returns the message with the sequence `seq`, or with a `subject`, the first matching
        message at or after `seq`.

        The stream's leader answers. With `direct`, any server that has a copy may answer, which may
        lag slightly behind the leader (server 2.9; stream `allow_direct`). Raises
        MessageNotFoundError and NoDirectGetError.
        """
        check_pattern(subject or ">")
        check_unsigned(0 if subject else 1, seq=seq)
        request: dict[str, object] = {"seq": seq}
        if subject:
            request["next_by_subj"] = subject
        read = direct_get if direct else get_msg
        return read(self._api, self.name, request)

    def get_last_msg(self, subject: str, *, direct: bool = False) -> StoredMsg:
        """Returns the last message whose subject matches `subject`. With `direct`, any server that
        has a copy may answer, and `subject` must not contain wildcards. Raises as `get_msg`."""
        if direct:
            check_text(subject=subject)
            check_publish(to_wire(subject))
            return direct_get(self._api, self.name, {}, plain(subject))
        check_pattern(subject)
        return get_msg(self._api, self.name, {"last_by_subj": subject})

    def get_msgs(
        self,
        *,
        seq: int = 0,
        subject: str = "",
        start_time: datetime | None = None,
        batch: int = 1000,
        max_bytes: int = 0,
    ) -> Iterator[StoredMsg]:
        """Returns an iterator over up to `batch` messages in order, beginning at the sequence `seq`
        or at `start_time`; with `subject`, only matching messages. `max_bytes` limits their total
        size. Any server that has a copy may answer (server 2.11; stream `allow_direct`). Raises
        MessageNotFoundError if there are none."""
        check_pattern(subject or ">")
        check_unsigned(seq=seq)
        _check_limits(1, batch, max_bytes)
        if seq and start_time:
            raise OptionError("start_time", "excludes seq")
        request = batch_request(
            seq=seq or (0 if start_time else 1),
            subject=subject,
            start_time=start_time,
            batch=batch,
            max_bytes=max_bytes,
        )
        return direct_get_batch(self._api, self.name, request)

    def get_last_msgs(
        self,
        subjects: Sequence[str],
        *,
        up_to_seq: int = 0,
        up_to_time: datetime | None = None,
        batch: int = 0,
    ) -> Iterator[StoredMsg]:
        """Returns an iterator over the last message of every subject that matches one of
        `subjects`, in stream order, and up to `batch` messages. `up_to_seq` or `up_to_time` selects
        the state of the stream at that point (server 2.11; stream `allow_direct`). The server
        refuses requests that match more than 1024. Raises MessageNotFoundError if there are none.
        """
        if isinstance(subjects, str) or not subjects:
            raise OptionError("subjects", "must be a list with at least one subject")
        if not isinstance(subjects, Iterable):
            raise TypeError(f"subjects must be a list, not {type(subjects).__name__}")
        for subject in (subjects := [*subjects]):
            check_pattern(subject)
        check_unsigned(up_to_seq=up_to_seq)
        if up_to_seq and up_to_time:
            raise OptionError("up_to_time", "excludes up_to_seq")
        _check_limits(0, batch)
        request = batch_request(
            subjects=subjects, up_to_seq=up_to_seq, up_to_time=up_to_time, batch=batch
        )
        return direct_get_batch(self._api, self.name, request)

    def delete_msg(self, seq: int, *, erase: bool = False) -> None:
        """Deletes a message. `erase` also overwrites its bytes, which takes longer. Raises APIError
        if there is no such message."""
        check_unsigned(1, seq=seq)
        delete_msg(self._api, self.name, seq, erase)

    def snapshot(
        self,
        file: BinaryIO,
        *,
        consumers: bool = True,
        check: bool = False,
        timeout: Timeout = DEFAULT,
    ) -> StreamInfo:
        """Writes the stream with its messages, and with its consumers if `consumers` is true, to a
        binary file. Returns the stream's configuration and state; `JetStream.restore_stream` needs
        both the file and this result. With `check`, the server first verifies every message.

        `timeout` limits the wait for each chunk. Raises SnapshotError if the server gives up,
        RequestTimeoutError, and ConnectionReconnectingError if the connection is lost; the file is
        then incomplete.
        """
        return take_snapshot(self._api, self.name, file, consumers, check, timeout)

    def step_down(self, preferred: str = "") -> None:
        """Makes the leader of a replicated stream hand over to the server named `preferred` (server
        2.11), or to any other server. Raises APIError."""
        self._api.step_down(f"STREAM.LEADER.STEPDOWN.{self.name}", preferred)

    def remove_peer(self, peer: str) -> None:
        """Removes the copy of a replicated stream from the server named `peer`; the cluster creates
        another copy on a different server. Raises APIError."""
        check_text(peer=peer)
        self._api.request(f"STREAM.PEER.REMOVE.{self.name}", {"peer": peer})

    def create_consumer(self, config: ConsumerConfig) -> Consumer:
        """Creates a consumer, or returns the existing one if it has the same configuration. Raises
        ConsumerExistsError if its configuration differs (servers before 2.10 update it instead, as
        far as they can)."""
        return self._create(config, "create")

    def update_consumer(self, config: ConsumerConfig) -> Consumer:
        """Replaces the configuration of an existing consumer. Raises ConsumerNotFoundError if there
        is none (servers before 2.10 create it)."""
        return self._create(config, "update")

    def create_or_update_consumer(self, config: ConsumerConfig) -> Consumer:
        """Creates a consumer, or replaces the configuration of an existing one."""
        return self._create(config, "")

    def consumer(self, name: str) -> Consumer:
        """Returns the consumer of that name. Raises ConsumerNotFoundError."""
        return Consumer(self._api, consumer_info(self._api, self.name, name))

    def delete_consumer(self, name: str) -> None:
        """Deletes a consumer. Raises ConsumerNotFoundError."""
        delete_consumer(self._api, self.name, name)

    def pause_consumer(self, name: str, until: datetime) -> PauseInfo:
        """Pauses the deliveries of a consumer until the time `until` (server 2.11)."""
        return pause_consumer(self._api, self.name, name, until)

    def resume_consumer(self, name: str) -> PauseInfo:
        """Ends the pause of a consumer (server 2.11)."""
        return pause_consumer(self._api, self.name, name, None)

    def unpin_consumer(self, name: str, group: str) -> None:
        """Unpins the client of a priority group, so that another client can be pinned (server
        2.11)."""
        unpin_consumer(self._api, self.name, name, group)

    def reset_consumer(self, name: str, seq: int = 0) -> ConsumerInfo:
        """Moves a consumer to the stream sequence `seq`, or by default back to the first message
        that is not acknowledged (server 2.14)."""
        return reset_consumer(self._api, self.name, name, seq)

    def step_down_consumer(self, name: str, preferred: str = "") -> None:
        """Makes the leader of a replicated consumer hand over, as `step_down` does. Raises
        APIError."""
        call = f"CONSUMER.LEADER.STEPDOWN.{self.name}.{check_consumer_name(name)}"
        self._api.step_down(call, preferred)

    def consumers(self) -> Iterator[ConsumerInfo]:
        """Iterates over all consumers; requests each page when the iteration reaches it."""
        return self._api.pages(f"CONSUMER.LIST.{self.name}", "consumers", ConsumerInfo.from_json)

    def consumer_names(self) -> Iterator[str]:
        """Iterates over the names of all consumers; requests each page when the iteration reaches
        it."""
        return self._api.pages(f"CONSUMER.NAMES.{self.name}", "consumers", read_name)

    def _create(self, config: ConsumerConfig, action: Action) -> Consumer:
        return Consumer(self._api, create_consumer(self._api, self.name, config, action))

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"


def _check_limits(least: int, batch: int, max_bytes: int = 0) -> None:
    """Checks how much a request for many messages may return; 0 leaves it to the server."""
    check_count(batch=batch, max_bytes=max_bytes)
    for option, low, limit in (("batch", least, batch), ("max_bytes", 0, max_bytes)):
        if not low <= limit < 1 << 63:
            raise OptionError(option, f"must be from {low} to 2**63 - 1")
