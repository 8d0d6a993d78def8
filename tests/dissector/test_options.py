"""What the user decides has defaults that change nothing."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from dissect.nats import Options, Payload
from dissect.nats.option_types import declared
from dissect.nats.options import changed_options
from dissect.nats.tcp.limits import FlowLimits, Limits
from natsync.protocol import Kind


def test_by_default_secrets_are_masked_and_payloads_left_out() -> None:
    options = Options()
    assert options.redact and options.payload is Payload.NONE and not options.port
    assert (options.stream_limits, options.flow_limits) == (Limits(), FlowLimits())


def test_each_parameter_is_a_field_with_a_declaration() -> None:
    names = [each.name for each in fields(Options)]
    assert names == list(declared(Options)) == list(inspect.signature(Options).parameters)


def test_processes_share_what_limits_a_capture_as_a_whole() -> None:
    options = Options(
        payload="text", max_stream_bytes=5000, gap_seconds=2, max_flows=5, max_held_bytes="9k"
    )
    assert options.share(1) == options
    shared = options.share(3)
    assert (shared.max_flows, shared.max_held_bytes) == (1, 3072)
    assert replace(shared, max_flows=5, max_held_bytes="9k") == options
    assert options.share(50).max_flows == 1 and options.share(50).max_held_bytes == 1024


def test_limits_have_the_units_of_the_stages() -> None:
    options = Options(
        gap_seconds="250ms",
        max_stream_bytes="5k",
        max_held_bytes="6k",
        max_flows="7",
        idle_seconds="1.5",
    )
    assert options.stream_limits == Limits(held_bytes=5120, patience_ns=250_000_000)
    assert options.flow_limits == FlowLimits(7, idle_ns=1_500_000_000, held_bytes=6144)


def test_options_can_be_pickled() -> None:
    options = Options("4222=client", "sha256", "false", kind="route", max_expanded="8G")
    assert pickle.loads(pickle.dumps(options)) == options
    assert (options.port, options.redact) == ({4222: Kind.CLIENT}, False)
    assert (options.kind, options.max_expanded) == (frozenset([Kind.ROUTE]), 8 << 30)


@pytest.mark.parametrize("wrong", [5, 1.5, datetime(2026, 11, 21), date(2026, 11, 21)])
def test_a_time_is_a_text(wrong: Any) -> None:
    with pytest.raises(TypeError, match="^from_time must be a time such as .*, not "):
        Options(from_time=wrong)
    with pytest.raises(TypeError, match="^until_time must be a time such as .*, not "):
        Options(until_time=wrong)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"redact": None}, "redact must be True or False, not None"),
        ({"max_flows": None}, "max_flows must be a whole number, 1 or more, not None"),
        ({"keylog": None}, "keylog must be a path or several, not None"),
        ({"kind": 3}, "kind must be one or several of client, route, gateway or leafnode, not 3"),
    ],
)
def test_a_value_of_another_type_is_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        Options(**wrong)


def test_key_logs_may_be_one_path(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.touch()
    for given in (path, str(path), [path], (str(path),)):
        assert Options(keylog=given).keylog == (str(path),)


def test_options_may_be_changed_by_name() -> None:
    options = Options(max_flows=5)
    assert changed_options("frames", options, {}) is options
    changed = changed_options("frames", options, {"payload": "text"})
    assert changed == Options(max_flows=5, payload="text")
    with pytest.raises(TypeError, match="^options must be Options, not dict$"):
        changed_options("frames", {}, {})
    with pytest.raises(
        TypeError, match="^frames has no option 'max_flow'; there are from_time, ga"
    ):
        changed_options("frames", options, {"max_flow": 3})
    with pytest.raises(TypeError, match="^frames has no option 'limit'; stop when you have enough"):
        changed_options("frames", options, {"limit": 3})
