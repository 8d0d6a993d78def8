"""`Stream`: one stream, its messages and its consumers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO

from .._checks import check_count, check_text
from ..errors import OptionError
from ..message import to_wire
from ..protocol import check_publish
from .api import API, TIMEOUT, Timeout
from .configs import ConsumerConfig
from .consumer import Consumer
from .consumers import (
    Action,
    consumer_info,
    create_consumer,
    delete_consumer,
    pause_consumer,
    reset_consumer,
    unpin_consumer,
)
from .errors import InvalidResponseError
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

__all__ = ["Stream", "read_name", "stream_info"]


def stream_info(
    api: API, name: str, *, deleted_details: bool = False, subjects_filter: str = ""
) -> StreamInfo:
    """What the server says of a stream now. Subjects come in pages of 100,000, which are put together."""
    call = f"STREAM.INFO.{check_stream_name(name)}"
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


def _with_subjects(state: StreamState, subjects: dict[str, int]) -> StreamState:
    return replace(state, subjects=subjects) if len(subjects) != len(state.subjects) else state


def read_name(value: object, subject: str) -> str:
    """An item of a list of names."""
    if not isinstance(value, str):
        raise InvalidResponseError(subject, "a name that is not a string")
    return value


class Stream:
    """A stream, for any number of threads. Made by `JetStream.stream` and `create_stream`.

    Every call is a request; it raises StreamNotFoundError where the stream is not there any more, and the
    errors of `JetStream`.
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
        """What the server said of it last; asks nobody."""
        return self._info

    def info(self, *, deleted_details: bool = False, subjects_filter: str = "") -> StreamInfo:
        """What the server says of it now: with the sequences of deleted messages, and with how many
        messages each subject has that matches the filter."""
        self._info = stream_info(
            self._api, self.name, deleted_details=deleted_details, subjects_filter=subjects_filter
        )
        return self._info

    def purge(self, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """Deletes messages, and returns how many: all, or those on subjects that match `subject`; of these,
        those before the sequence `seq`, or all but the last `keep`."""
        check_count(seq=seq, keep=keep)
        if seq and keep:
            raise OptionError("keep", "excludes seq")
        body: dict[str, object] = {"filter": subject, "seq": seq, "keep": keep}
        call = f"STREAM.PURGE.{self.name}"
        purged = self._api.request(call, {key: value for key, value in body.items() if value}).get(
            "purged"
        )
        if not isinstance(purged, int):
            raise InvalidResponseError(self._api.subject(call), "no number of purged messages")
        return purged

    def get_msg(self, seq: int, *, subject: str = "", direct: bool = False) -> StoredMsg:
        """The message `seq`; or, with a `subject`, the first one from there on whose subject matches.

        It comes from the leader; with `direct`, from any server that has a copy, which may be a moment
        behind (server 2.9; stream `allow_direct`). Raises MessageNotFoundError; NoDirectGetError.
        """
        check_count(seq=seq)
        check_text(subject=subject)
        request: dict[str, object] = {"seq": seq}
        if subject:
            request["next_by_subj"] = subject
        read = direct_get if direct else get_msg
        return read(self._api, self.name, request)

    def get_last_msg(self, subject: str, *, direct: bool = False) -> StoredMsg:
        """The last message whose subject matches; with `direct`, from any server, and of a subject without
        wildcards. Raises as `get_msg`."""
        if direct:
            check_publish(to_wire(subject))
            return direct_get(self._api, self.name, {}, subject)
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
        """Up to `batch` messages from the sequence `seq` or the time on, all or those whose subjects
        match, in order, as long as they have `max_bytes` together; from any server that has them (server
        2.11; stream `allow_direct`). Raises MessageNotFoundError where there is none."""
        check_count(seq=seq, batch=batch, max_bytes=max_bytes)
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
        """The last message of every subject that matches one of `subjects`, in the order of the stream;
        as it was at a sequence or time, up to `batch` of them (server 2.11; stream `allow_direct`). The
        server takes up to 1024 subjects. Raises MessageNotFoundError where there is none."""
        if isinstance(subjects, str) or not subjects:
            raise OptionError("subjects", "must be a list with at least one subject")
        request = batch_request(
            subjects=subjects, up_to_seq=up_to_seq, up_to_time=up_to_time, batch=batch
        )
        return direct_get_batch(self._api, self.name, request)

    def delete_msg(self, seq: int, *, erase: bool = False) -> None:
        """Deletes a message; `erase` also overwrites its bytes, which takes longer. Raises
        APIError where there is no such message."""
        check_count(seq=seq)
        delete_msg(self._api, self.name, seq, erase)

    def snapshot(
        self,
        file: BinaryIO,
        *,
        consumers: bool = True,
        check: bool = False,
        timeout: Timeout = TIMEOUT,
    ) -> StreamInfo:
        """Writes the stream, with its messages and its `consumers`, to a binary file, and returns its
        configuration and state: `JetStream.restore_stream` takes both. With `check`, the server first
        verifies every message.

        `timeout` is the longest wait for each part. Raises SnapshotError where the server gives up,
        RequestTimeoutError, and ConnectionReconnectingError where the connection is lost; the file is not
        whole then.
        """
        return take_snapshot(self._api, self.name, file, consumers, check, timeout)

    def step_down(self, preferred: str = "") -> None:
        """Makes the leader of a replicated stream hand over to another server: to the one named
        `preferred` (server 2.11), or to any. Raises APIError."""
        self._api.step_down(f"STREAM.LEADER.STEPDOWN.{self.name}", preferred)

    def remove_peer(self, peer: str) -> None:
        """Takes its copy of a replicated stream from the server named `peer`; the cluster makes one on
        another server. Raises APIError."""
        check_text(peer=peer)
        self._api.request(f"STREAM.PEER.REMOVE.{self.name}", {"peer": peer})

    def create_consumer(self, config: ConsumerConfig) -> Consumer:
        """A new consumer, or the one that is there with the same configuration; ConsumerExistsError where
        it has another one (servers before 2.10 change that, as far as they can)."""
        return self._create(config, "create")

    def update_consumer(self, config: ConsumerConfig) -> Consumer:
        """The consumer of that name with this configuration; ConsumerNotFoundError where there is none
        (servers before 2.10 create it)."""
        return self._create(config, "update")

    def create_or_update_consumer(self, config: ConsumerConfig) -> Consumer:
        """The consumer of that name with this configuration, whether it was there or not."""
        return self._create(config, "")

    def consumer(self, name: str) -> Consumer:
        """The consumer of that name. Raises ConsumerNotFoundError."""
        return Consumer(self._api, consumer_info(self._api, self.name, name))

    def delete_consumer(self, name: str) -> None:
        """Deletes a consumer. Raises ConsumerNotFoundError."""
        delete_consumer(self._api, self.name, name)

    def pause_consumer(self, name: str, until: datetime) -> PauseInfo:
        """Stops the deliveries of a consumer until then (server 2.11)."""
        return pause_consumer(self._api, self.name, name, until)

    def resume_consumer(self, name: str) -> PauseInfo:
        """Ends the pause of a consumer (server 2.11)."""
        return pause_consumer(self._api, self.name, name, None)

    def unpin_consumer(self, name: str, group: str) -> None:
        """Takes the pin of a priority group from the client that holds it, so that another one gets it
        (server 2.11)."""
        unpin_consumer(self._api, self.name, name, group)

    def reset_consumer(self, name: str, seq: int = 0) -> ConsumerInfo:
        """Moves a consumer to the sequence `seq` of the stream, or back to the first message that is not
        acknowledged (server 2.14)."""
        return reset_consumer(self._api, self.name, name, seq)

    def step_down_consumer(self, name: str, preferred: str = "") -> None:
        """Makes the leader of a replicated consumer hand over, as `step_down`. Raises APIError."""
        call = f"CONSUMER.LEADER.STEPDOWN.{self.name}.{check_consumer_name(name)}"
        self._api.step_down(call, preferred)

    def consumers(self) -> Iterator[ConsumerInfo]:
        """Every consumer; asked for in pages, as the iteration goes on."""
        return self._api.pages(f"CONSUMER.LIST.{self.name}", "consumers", ConsumerInfo.from_json)

    def consumer_names(self) -> Iterator[str]:
        """The name of every consumer; asked for in pages, as the iteration goes on."""
        return self._api.pages(f"CONSUMER.NAMES.{self.name}", "consumers", read_name)

    def _create(self, config: ConsumerConfig, action: Action) -> Consumer:
        return Consumer(self._api, create_consumer(self._api, self.name, config, action))

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"
