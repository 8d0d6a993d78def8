"""Creates, changes, pauses and deletes consumers, for the objects that represent streams and
consumers.

The subject of the create request depends on the configuration. With a name and one filter it ends
with both, so that permissions can be granted by filter; with several filters or none, it ends with
the name; without a name, with the stream (server 2.9; nats-server: server/jetstream_api.go).
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from .._checks import check_kind, check_text, check_unsigned
from .._json import check_time, format_time
from ..options import DEFAULT
from .api import API, Timeout, check_kept
from .configs import ConsumerConfig
from .infos import ConsumerInfo, PauseInfo
from .names import check_consumer_name, check_stream_name

__all__ = [
    "Action",
    "consumer_info",
    "create_consumer",
    "delete_consumer",
    "pause_consumer",
    "reset_consumer",
    "unpin_consumer",
]

Action = Literal["create", "update", ""]
"""Only create, only update, or whichever is needed."""


def create_consumer(
    api: API,
    stream: str,
    config: ConsumerConfig,
    action: Action = "",
    timeout: Timeout = DEFAULT,
) -> ConsumerInfo:
    """Creates or updates the consumer in `config`. Servers before 2.10 treat every action as ""."""
    check_kind(ConsumerConfig, config=config)
    api.check_supported(config)
    call = f"CONSUMER.CREATE.{check_stream_name(stream)}"
    name = config.name or config.durable_name
    if name:
        call += f".{check_consumer_name(name)}"
        only = config.filter_subject
        # A subject to publish to has no wildcards: the server takes such a filter from the body.
        if only and not config.filter_subjects and not {"*", ">"} & {*only}:
            call += f".{only}"
    body = {"stream_name": stream, "config": config.to_json(), "action": action}
    info = ConsumerInfo.from_json(api.request(call, body, timeout=timeout), api.subject(call))
    check_kept(config, info.config)
    return info


def consumer_info(api: API, stream: str, name: str, timeout: Timeout = DEFAULT) -> ConsumerInfo:
    """Asks the server for the `ConsumerInfo`."""
    call = _call("INFO", stream, name)
    return ConsumerInfo.from_json(api.request(call, timeout=timeout), api.subject(call))


def delete_consumer(api: API, stream: str, name: str) -> None:
    """Deletes a consumer."""
    api.request(_call("DELETE", stream, name))


def pause_consumer(api: API, stream: str, name: str, until: datetime | None) -> PauseInfo:
    """Pauses a consumer until the time `until`; None resumes it."""
    api.need("pausing a consumer", "2.11")
    call = _call("PAUSE", stream, name)
    body = None if until is None else {"pause_until": format_time(check_time("until", until))}
    return PauseInfo.from_json(api.request(call, body), api.subject(call))


def unpin_consumer(api: API, stream: str, name: str, group: str) -> None:
    """Unpins the client of a priority group, so that another client can be pinned."""
    check_text(group=group)
    api.need("unpinning a consumer", "2.11")
    api.request(_call("UNPIN", stream, name), {"group": group})


def reset_consumer(api: API, stream: str, name: str, seq: int) -> ConsumerInfo:
    """Moves a consumer to a sequence of the stream; 0 means the sequence after its acknowledgement
    floor."""
    check_unsigned(seq=seq)
    api.need("resetting a consumer", "2.14")
    consumer_info(api, stream, name)  # the server does not answer for one that does not exist
    call = _call("RESET", stream, name)
    return ConsumerInfo.from_json(api.request(call, {"seq": seq}), api.subject(call))


def _call(verb: str, stream: str, name: str) -> str:
    return f"CONSUMER.{verb}.{check_stream_name(stream)}.{check_consumer_name(name)}"
