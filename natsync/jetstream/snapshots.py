"""Snapshots: a stream with its messages and consumers as one archive, and streams made from archives.

A snapshot arrives as chunks on an inbox; the server wants an acknowledgement of most of them, and sends an
empty message at the end. A restored stream is sent the same way: chunks as requests, and an empty one at the
end (nats-server: server/jetstream_api.go). The archive is the file that `nats stream backup` keeps,
compressed with S2: NATSARC1, or a tar file from a server before 2.15. This module does not read it.
"""

from __future__ import annotations

from typing import BinaryIO

from .._checks import check_kind
from .._json import decode_object
from ..errors import (
    ConnectionReconnectingError,
    Error,
    InvalidResponseError,
    NextMsgTimeoutError,
    NoRespondersError,
    RequestTimeoutError,
)
from ..subscription import Subscription
from .api import API, Timeout
from .errors import SnapshotError, api_error
from .infos import StreamInfo
from .names import check_stream_name

__all__ = ["restore_stream", "take_snapshot"]

CHUNK = 128 << 10
"""Bytes per chunk, as in `nats stream backup` (jsm.go)."""

_END = 204


def take_snapshot(
    api: API, stream: str, file: BinaryIO, consumers: bool, check: bool, timeout: Timeout
) -> StreamInfo:
    """Writes a snapshot to `file`: see `Stream.snapshot`."""
    _check_file(file, "write")
    call = f"STREAM.SNAPSHOT.{check_stream_name(stream)}"
    seconds = api.seconds(timeout)
    # Without a subscription to exactly this subject, the server waits two seconds.
    sub = api.core.open_inbox(api.core.new_inbox(), limited=False, on_outage=_end_at)
    try:
        body = {"deliver_subject": sub.subject, "chunk_size": _chunk(api)}
        body |= {"no_consumers": not consumers, "jsck": check}
        response = api.request(call, body, timeout=timeout)
        info = StreamInfo.from_json(response, api.subject(call))
        _receive(stream, sub, file, seconds)
    except NextMsgTimeoutError:
        raise RequestTimeoutError(api.subject(call), seconds) from None
    finally:
        sub.unsubscribe()
    return info


def _end_at(outage: Error | None) -> None:
    """Ends the snapshot: chunks were lost with the connection."""
    raise outage or ConnectionReconnectingError()


def _receive(stream: str, sub: Subscription, file: BinaryIO, timeout: float) -> None:
    number = 0
    while (msg := sub.next_msg(timeout)).data:
        number += 1
        # $JS.SNAPSHOT.ACK.<stream>.<id>.<bytes>.<number of the chunk>
        if msg.reply and msg.reply.rpartition(".")[2] != str(number):
            raise SnapshotError(stream, f"chunk {number} is missing")
        file.write(msg.data)
        if msg.reply:
            msg.respond(b"")
    if msg.status not in (0, _END):  # servers before 2.10 send no status
        raise SnapshotError(stream, f"{msg.status} {msg.description}")


def restore_stream(api: API, info: StreamInfo, file: BinaryIO, timeout: Timeout) -> StreamInfo:
    """Creates a stream from a snapshot: see `JetStream.restore_stream`."""
    check_kind(StreamInfo, info=info)
    _check_file(file, "read")
    api.check_supported(info.config)
    call = f"STREAM.RESTORE.{check_stream_name(info.config.name)}"
    body = {"config": info.config.to_json(), "state": info.state.to_json()}
    target = api.request(call, body, timeout=timeout).get("deliver_subject")
    if not isinstance(target, str):
        raise InvalidResponseError(api.subject(call), "no subject to send the snapshot to")
    while True:
        data = file.read(_chunk(api))
        try:
            answer = api.core.request(target, data, timeout=api.seconds(timeout)).data
        except NoRespondersError as error:
            raise SnapshotError(info.config.name, "the server gave up the restore") from error
        if answer:
            response = decode_object(answer, target)
            if "error" in response:
                raise api_error(response["error"])
            return StreamInfo.from_json(response, target)
        if not data:
            raise InvalidResponseError(target, "nothing at the end of a snapshot")


def _check_file(file: object, method: str) -> None:
    if not hasattr(file, method):
        raise TypeError(f"file must be an open binary file, not {type(file).__name__}")


def _chunk(api: API) -> int:
    return min(CHUNK, api.core.server_info.max_payload)
