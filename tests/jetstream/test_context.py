"""The context: account, streams by name, domains and prefixes, on real servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import natsync
from natsync.jetstream import (
    JetStream,
    JetStreamNotEnabledError,
    StreamConfig,
    StreamNameInUseError,
    StreamNotFoundError,
    SubjectsOverlapError,
    UnsupportedError,
)

from tests.support.servers import NatsServer, StartServer

pytestmark = pytest.mark.server


def test_a_stream_is_created_changed_and_deleted(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"], max_age=60))
    assert stream.name == stream_name
    assert stream.cached_info.config.max_age == 60
    assert js.create_stream(stream.cached_info.config).name == stream_name  # the same again
    with pytest.raises(StreamNameInUseError):
        js.create_stream(StreamConfig(stream_name, subjects=[stream_name]))
    changed = js.update_stream(replace(stream.info().config, max_msgs=7, description="few"))
    assert (changed.cached_info.config.max_msgs, changed.cached_info.config.max_age) == (7, 60)
    js.delete_stream(stream_name)
    for call in (js.stream, js.delete_stream):
        with pytest.raises(StreamNotFoundError):
            call(stream_name)
    with pytest.raises(StreamNotFoundError):
        js.update_stream(StreamConfig(stream_name))


def test_create_or_update_does_either(js: JetStream, stream_name: str) -> None:
    for limit in (5, 6):
        stream = js.create_or_update_stream(StreamConfig(stream_name, max_msgs=limit))
        assert stream.info().config.max_msgs == limit


def test_streams_are_listed_by_subject(js: JetStream, stream_name: str) -> None:
    subjects = [f"{stream_name}.a", f"{stream_name}.b"]
    js.create_stream(StreamConfig(stream_name, subjects=subjects))
    assert list(js.stream_names(f"{stream_name}.*")) == [stream_name]
    assert [info.config.subjects for info in js.streams(f"{stream_name}.a")] == [tuple(subjects)]
    assert list(js.stream_names(f"{stream_name}.c")) == []
    assert stream_name in set(js.stream_names())
    with pytest.raises(SubjectsOverlapError):
        js.create_stream(StreamConfig(f"{stream_name}-2", subjects=[f"{stream_name}.>"]))


def test_the_account_says_what_it_uses(js: JetStream, stream_name: str) -> None:
    before = js.account_info()
    js.create_stream(StreamConfig(stream_name))
    after = js.account_info()
    assert after.streams == before.streams + 1 and after.api.level >= 1
    assert after.limits.max_streams == -1


def test_a_server_that_is_too_old_is_named(old_js: JetStream, stream_name: str) -> None:
    for config in (
        StreamConfig(stream_name, allow_msg_ttl=True),
        StreamConfig(stream_name, compression="s2"),
    ):
        with pytest.raises(UnsupportedError, match=r"needs nats-server 2\.1\d or later; .* 2\.9\."):
            old_js.create_stream(config)
    assert old_js.create_stream(StreamConfig(stream_name)).info().config.subjects == (stream_name,)


def test_without_jetstream_the_error_says_so(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        with pytest.raises(JetStreamNotEnabledError, match="not enabled"):
            nc.jetstream().account_info()


def test_a_domain_and_a_prefix_reach_the_api(start_server: StartServer) -> None:
    server = start_server("jetstream { store_dir: $FOLDER, domain: hub }")
    with natsync.connect(server.url) as nc:
        for js in (nc.jetstream(domain="hub"), nc.jetstream(prefix="$JS.hub.API.")):
            assert js.account_info().domain == "hub"
        with pytest.raises(JetStreamNotEnabledError, match=r"\$JS\.leaf\.API\.INFO"):
            nc.jetstream("leaf").account_info()


@pytest.mark.parametrize(
    "arguments",
    [{"domain": "a", "prefix": "b"}, {"domain": "a.b"}, {"domain": ""}, {"prefix": "a b"}]
    + [{"prefix": "a.>"}, {"prefix": "a..b"}],
)
def test_a_bad_domain_or_prefix_is_refused(
    js_client: natsync.Client, arguments: dict[str, str]
) -> None:
    with pytest.raises(natsync.OptionError, match=r"option (domain|prefix)"):
        js_client.jetstream(**arguments)  # type: ignore[arg-type]  # names of two options


def test_what_is_no_configuration(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    calls: list[tuple[Callable[[Any], object], object]] = [
        (js.create_stream, "name"),
        (js.update_stream, None),
        (stream.create_consumer, "name"),
        (js.create_key_value, None),
        (js.update_key_value, "name"),
        (js.create_object_store, 5),
        (js.update_object_store, "name"),
    ]
    for call, config in calls:
        with pytest.raises(TypeError, match=r"^config must be \w+Config, not \w+$"):
            call(config)
