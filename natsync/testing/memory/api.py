"""`JetStreamAPI`: answers what clients ask of JetStream, and stores what they publish (nats-server
`server/jetstream_api.go`; ADR-1, ADR-31).

A call that nats-server has and this server does not is answered with an error that says so; a call that
nobody has finds no responders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeAlias
from uuid import uuid4

from ..._json import JSONObject
from ...errors import InvalidResponseError
from ...jetstream.configs import ConsumerConfig, StreamConfig
from ...protocol import check_subscribe
from .answers import consumer_info, direct_answers, selected, stored_message, stream_info
from .consumer import MemoryConsumer
from .consumer import completed as completed_consumer
from .consumer import patterns
from .problems import Problem
from .router import Interest, Message, Router
from .stream import MemoryStream, completed

__all__ = ["JetStreamAPI"]

JSON: TypeAlias = dict[str, Any]

_PREFIX = b"$JS.API."
_PAGE = 256
_ELSEWHERE = "not supported by the in-memory server: {}"
_UNKNOWN_STREAM_FIELDS = (
    "mirror sources republish subject_transform consumer_limits sealed mirror_direct no_ack".split()
)
_UNKNOWN_CONSUMER_FIELDS = (
    "deliver_subject flow_control rate_limit_bps pause_until priority_groups sourcing".split()
)
_NAME = re.compile(r"[^\s.*>/\\]+")


class JetStreamAPI:
    """All streams and consumers of a server."""

    def __init__(
        self,
        router: Router,
        clock: Callable[[], int],
        call_at: Callable[[int, Callable[[], None]], None],
        max_payload: int,
    ) -> None:
        self._router = router
        self._clock = clock
        self._call_at = call_at
        self._max_payload = max_payload
        self._streams: dict[str, MemoryStream] = {}
        self._consumers: dict[tuple[str, str], MemoryConsumer] = {}  # by stream and name
        self._taps: dict[str, list[Interest]] = {}
        self._due: dict[object, int] = {}  # of streams and consumers: the time of their next timer
        router.add(Interest(_PREFIX + b">", self._receive))
        router.add(Interest(b"$JS.ACK.>", self._ack))

    # Calls.

    def _receive(self, message: Message) -> bool:
        tokens = message.subject[len(_PREFIX) :].decode("utf-8", "replace").split(".")
        if tokens[:2] == ["DIRECT", "GET"] and len(tokens) > 2:
            return self._direct_get(tokens[2], message)
        if tokens[:3] == ["CONSUMER", "MSG", "NEXT"] and len(tokens) == 5:
            return self._pull(tokens[3], tokens[4], message)
        call = self._call_of(tokens)
        if call is None:
            return False
        name, arguments = call
        kind = f"io.nats.jetstream.api.v1.{name}_response"
        try:
            answer = getattr(self, f"_{name}")(_body(message.payload), *arguments)
        except Problem as problem:
            answer = {"error": problem.to_json()}
        except InvalidResponseError as error:
            answer = {"error": Problem(10025, error.reason).to_json()}
        if message.reply:
            body = json.dumps({"type": kind, **answer}).encode()
            self._router.publish(Message(message.reply, b"", b"", body))
        return True

    def _call_of(self, tokens: list[str]) -> tuple[str, list[str]] | None:
        """Returns the name of a call, and the names of the stream and the consumer."""
        match tokens:
            case ["INFO"]:
                return "account_info", []
            case ["STREAM", "NAMES" | "LIST" as call]:
                return f"stream_{call.lower()}", []
            case ["STREAM", "CREATE" | "UPDATE" | "INFO" | "DELETE" | "PURGE" as call, stream]:
                return f"stream_{call.lower()}", [stream]
            case ["STREAM", "MSG", "GET" | "DELETE" as call, stream]:
                return f"stream_msg_{call.lower()}", [stream]
            case ["CONSUMER", "NAMES" | "LIST" as call, stream]:
                return f"consumer_{call.lower()}", [stream]
            case ["CONSUMER", "INFO" | "DELETE" as call, stream, consumer]:
                return f"consumer_{call.lower()}", [stream, consumer]
            case ["CONSUMER", "CREATE", stream, *named]:
                return "consumer_create", [stream, *named[:1]]
            case ["CONSUMER", "DURABLE", "CREATE", stream, consumer]:
                return "consumer_create", [stream, consumer]
            case ["STREAM" | "CONSUMER", *_]:
                return "elsewhere", [".".join(tokens[:2])]
        return None

    def _elsewhere(self, body: JSON, call: str) -> JSON:
        raise Problem(10052, _ELSEWHERE.format(f"the call {call}"))

    def _account_info(self, body: JSON) -> JSON:
        streams = self._streams.values()
        limits = dict.fromkeys(("max_memory", "max_storage", "max_streams", "max_consumers"), -1)
        return {
            "memory": sum(each.bytes for each in streams if each.config.storage == "memory"),
            "storage": sum(each.bytes for each in streams if each.config.storage == "file"),
            "streams": len(streams),
            "consumers": len(self._consumers),
            "limits": limits,
            "api": {"total": 0, "errors": 0, "level": 1},
        }

    def _stream_create(self, body: JSON, name: str) -> JSON:
        config = completed(self._stream_config(body, name))
        if stream := self._streams.get(name):
            if stream.config != config:
                raise Problem(10058)
            return self._stream_answer(stream)
        self._check_overlap(config)
        stream = MemoryStream(config, self._clock())
        self._streams[name] = stream
        self._tap(stream)
        return self._stream_answer(stream)

    def _stream_update(self, body: JSON, name: str) -> JSON:
        stream = self._stream(name)
        config = completed(self._stream_config(body, name))
        for fixed in ("storage", "retention", "max_consumers"):
            if getattr(config, fixed) != getattr(stream.config, fixed):
                text = f"stream configuration update can not change {fixed.replace('_', ' ')}"
                raise Problem(10052, text)
        self._check_overlap(config)
        stream.config = config
        stream.apply_limits()
        self._untap(stream)
        self._tap(stream)
        self._later(stream)
        return self._stream_answer(stream)

    def _stream_info(self, body: JSON, name: str) -> JSON:
        return self._stream_answer(self._stream(name), body)

    def _stream_delete(self, body: JSON, name: str) -> JSON:
        stream = self._stream(name)
        for consumer in self._consumers_of(stream):
            self._drop(consumer)
        self._untap(stream)
        del self._streams[name]
        self._due.pop(stream, None)
        return {"success": True}

    def _stream_purge(self, body: JSON, name: str) -> JSON:
        stream = self._stream(name)
        if stream.config.deny_purge:
            raise Problem(10110, "stream purge not permitted")
        pattern = str(body.get("filter") or ">").encode()
        seq, keep = int(body.get("seq") or 0), int(body.get("keep") or 0)
        if seq and keep:
            raise Problem(10003)
        return {"success": True, "purged": stream.purge(pattern, seq, keep)}

    def _stream_names(self, body: JSON) -> JSON:
        found = [stream.name for stream in self._selected(body)]
        return self._page(body, "streams", found)

    def _stream_list(self, body: JSON) -> JSON:
        return self._page(body, "streams", [*map(self._stream_answer, self._selected(body))])

    def _stream_msg_get(self, body: JSON, name: str) -> JSON:
        message = selected(self._stream(name), body)
        if message is None:
            raise Problem(10037)
        return {"message": stored_message(message)}

    def _stream_msg_delete(self, body: JSON, name: str) -> JSON:
        stream = self._stream(name)
        if stream.config.deny_delete:
            raise Problem(10110, "message delete not permitted")
        if not stream.remove(int(body.get("seq") or 0)):
            raise Problem(10043, body.get("seq"))
        return {"success": True}

    def _consumer_create(self, body: JSON, name: str, named: str = "") -> JSON:
        stream = self._stream(name)
        config = ConsumerConfig.from_json(body.get("config"))
        _refuse(config, _UNKNOWN_CONSUMER_FIELDS)
        _check_filters(config)
        if config.replay_policy != "instant":
            raise Problem(10012, _ELSEWHERE.format("replay_policy"))
        own = named or config.name or config.durable_name or uuid4().hex[:8]
        if config.durable_name and config.durable_name != own or not _NAME.fullmatch(own):
            raise Problem(10003)
        action = body.get("action")
        if consumer := self._consumers.get((name, own)):
            return self._existing(consumer, config, action)
        if action == "update":
            raise Problem(10149)
        _check_workqueue(stream, config, self._consumers_of(stream))
        made = MemoryConsumer(
            stream, own, config, self._router, self._clock, lambda: self._later(made)
        )
        self._consumers[name, own] = stream.followers[own] = made
        self._later(made)
        return self._consumer_answer(made)

    def _existing(self, consumer: MemoryConsumer, config: ConsumerConfig, action: object) -> JSON:
        wanted = completed_consumer(config, consumer.name)
        if wanted != consumer.config:
            if action == "create":
                raise Problem(10148)
            for fixed in ("deliver_policy", "opt_start_seq", "opt_start_time", "ack_policy"):
                if getattr(wanted, fixed) != getattr(consumer.config, fixed):
                    raise Problem(10012, f"{fixed.replace('_', ' ')} can not be updated")
            consumer.change_config(wanted)
        return self._consumer_answer(consumer)

    def _consumer_info(self, body: JSON, name: str, consumer: str) -> JSON:
        return self._consumer_answer(self._consumer(name, consumer))

    def _consumer_delete(self, body: JSON, name: str, consumer: str) -> JSON:
        self._drop(self._consumer(name, consumer))
        return {"success": True}

    def _consumer_names(self, body: JSON, name: str) -> JSON:
        return self._page(
            body, "consumers", [each.name for each in self._consumers_of(self._stream(name))]
        )

    def _consumer_list(self, body: JSON, name: str) -> JSON:
        consumers = self._consumers_of(self._stream(name))
        return self._page(body, "consumers", [*map(self._consumer_answer, consumers)])

    # Messages.

    def _pull(self, stream: str, consumer: str, message: Message) -> bool:
        try:
            found = self._consumer(stream, consumer)
        except Problem:
            return False
        if message.reply:
            found.pull(message.reply, message.payload)
        return True

    def _ack(self, message: Message) -> bool:
        tokens = message.subject.decode("utf-8", "replace").split(".")
        if len(tokens) != 9 or not tokens[5].isdigit():
            return False
        try:
            consumer = self._consumer(tokens[2], tokens[3])
        except Problem:
            return False
        kind, _, body = message.payload.partition(b" ")
        if kind == b"+NXT":
            consumer.ack(int(tokens[5]), b"+ACK", b"")
            if message.reply:
                consumer.pull(message.reply, body)
            return True
        consumer.ack(int(tokens[5]), kind, body)
        if message.reply:
            self._router.publish(Message(message.reply))
        return True

    def _publish(self, stream: MemoryStream, message: Message) -> bool:
        try:
            seq, duplicate = stream.publish(
                message.subject, message.headers, message.payload, self._clock()
            )
            answer: JSON = {"stream": stream.name, "seq": seq}
            if duplicate:
                answer["duplicate"] = True
        except Problem as problem:
            answer = {"error": problem.to_json(), "stream": stream.name, "seq": 0}
        self._later(stream)
        if message.reply:
            body = json.dumps(answer, separators=(",", ":")).encode()
            self._router.publish(Message(message.reply, b"", b"", body))
        return True

    def _direct_get(self, name: str, message: Message) -> bool:
        stream = self._streams.get(name)
        if stream is None or not stream.config.allow_direct:
            return False
        asked = message.subject[len(_PREFIX) + len(f"DIRECT.GET.{name}.") :]
        for block, payload in direct_answers(stream, asked, message.payload):
            self._router.publish(Message(message.reply, b"", block, payload))
        return True

    # Streams, consumers and their timers.

    def _stream(self, name: str) -> MemoryStream:
        if stream := self._streams.get(name):
            return stream
        raise Problem(10059)

    def _consumer(self, stream: str, name: str) -> MemoryConsumer:
        self._stream(stream)
        if consumer := self._consumers.get((stream, name)):
            return consumer
        raise Problem(10014)

    def _consumers_of(self, stream: MemoryStream) -> list[MemoryConsumer]:
        return [self._consumers[stream.name, name] for name in sorted(stream.followers)]

    def _selected(self, body: JSON) -> Iterator[MemoryStream]:
        wanted = str(body.get("subject") or "")
        for _, stream in sorted(self._streams.items()):
            if not wanted or any(_overlap(wanted, own) for own in stream.config.subjects):
                yield stream

    def _stream_config(self, body: JSON, name: str) -> StreamConfig:
        config = StreamConfig.from_json(body)
        if config.name != name or not _NAME.fullmatch(name):
            raise Problem(10056)
        if config.num_replicas > 1:
            raise Problem(10074)
        _refuse(config, _UNKNOWN_STREAM_FIELDS)
        if config.discard_new_per_subject and config.discard != "new":
            raise Problem(10052, "discard new per subject requires discard new policy to be set")
        for subject in config.subjects:
            check_subscribe(subject.encode())
        return config

    def _check_overlap(self, config: StreamConfig) -> None:
        for other in self._streams.values():
            for own in config.subjects:
                if other.name != config.name and any(
                    _overlap(own, each) for each in other.config.subjects
                ):
                    raise Problem(10065)

    def _tap(self, stream: MemoryStream) -> None:
        taps = [
            Interest(subject.encode(), lambda message: self._publish(stream, message))
            for subject in stream.config.subjects
        ]
        for tap in taps:
            self._router.add(tap)
        self._taps[stream.name] = taps

    def _untap(self, stream: MemoryStream) -> None:
        for tap in self._taps.pop(stream.name):
            self._router.remove(tap)

    def _drop(self, consumer: MemoryConsumer) -> None:
        consumer.end()
        del consumer.stream.followers[consumer.name]
        del self._consumers[consumer.stream.name, consumer.name]
        self._due.pop(consumer, None)

    def _later(self, what: MemoryStream | MemoryConsumer, when: int | None = None) -> None:
        """Runs the timers of a stream or a consumer at a time, or at once."""
        when = self._clock() if when is None else when
        if self._due.get(what, when + 1) > when:
            self._due[what] = when
            self._call_at(when, lambda: self._run(what, when))

    def _run(self, what: MemoryStream | MemoryConsumer, when: int) -> None:
        if self._due.get(what) != when:
            return  # another timer has come before, or it is gone
        del self._due[what]
        if isinstance(what, MemoryStream):
            following = what.expire(self._clock())
        elif what.is_abandoned():
            return self._drop(what)
        else:
            following = what.run()
        if following is not None:
            self._later(what, following)

    # Answers.

    def _page(self, body: JSON, key: str, found: Sequence[object]) -> JSON:
        offset = int(body.get("offset") or 0)
        page = found[offset : offset + _PAGE]
        return {"total": len(found), "offset": offset, "limit": _PAGE, key: page}

    def _stream_answer(self, stream: MemoryStream, asked: JSON | None = None) -> JSON:
        return stream_info(stream, asked or {}, self._clock())

    def _consumer_answer(self, consumer: MemoryConsumer) -> JSON:
        return consumer_info(consumer, self._clock())


def _body(payload: bytes) -> JSON:
    if not payload:
        return {}
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Problem(10025, error) from error
    if not isinstance(body, dict):
        raise Problem(10025, "no object")
    return body


def _refuse(config: JSONObject, fields: list[str]) -> None:
    """Refuses what this server does not have: these fields, and those of later servers."""
    names = [name for name in fields if getattr(config, name)]
    names += [name for name, version in config.needs() if version not in ("2.10", "2.11")]
    if config.extra:
        raise Problem(10025, f'json: unknown field "{next(iter(config.extra))}"')
    if names:
        raise Problem(10052, _ELSEWHERE.format(", ".join(names)))


def _check_filters(config: ConsumerConfig) -> None:
    filters = config.filter_subjects
    if config.filter_subject and filters:
        raise Problem(10136)
    if any(_overlap(one, two) for one, two in combinations(filters, 2)):
        raise Problem(10138)
    if config.deliver_policy == "last_per_subject" and not patterns(config):
        text = "consumer delivery policy is deliver last per subject, but optional filter subject is not set"
        raise Problem(10094, text)


def _check_workqueue(
    stream: MemoryStream, config: ConsumerConfig, others: list[MemoryConsumer]
) -> None:
    if stream.config.retention != "workqueue":
        return
    if config.ack_policy != "explicit":
        raise Problem(10084)
    if config.deliver_policy != "all":
        raise Problem(10101)
    for other in others:
        if not patterns(config) or not patterns(other.config):
            raise Problem(10099)
        if any(_overlap(one, two) for one in patterns(config) for two in patterns(other.config)):
            raise Problem(10100)


def _overlap(one: str, other: str) -> bool:
    """Returns whether some subject matches both patterns."""
    first, second = one.split("."), other.split(".")
    for mine, theirs in zip(first, second):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(first) == len(second)
