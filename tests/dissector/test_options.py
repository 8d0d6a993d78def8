"""What the user decides has defaults that change nothing."""

from __future__ import annotations

import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from dissect.nats import Options, Payload
from dissect.nats.tcp.limits import FlowLimits, Limits
from natsync.protocol import Kind


def test_by_default_secrets_are_masked_and_payloads_left_out() -> None:
    options = Options()
    assert options.redact and options.payload is Payload.NONE and not options.hints


def test_processes_share_what_limits_a_capture_as_a_whole() -> None:
    streams, flows = Limits(held_bytes=10), FlowLimits(5, idle_ns=7, linger_ns=3, held_bytes=90)
    options = Options(payload=Payload.TEXT, stream_limits=streams, flow_limits=flows)
    assert options.share(1) == options
    shared = options.share(3)
    assert shared.flow_limits == FlowLimits(1, idle_ns=7, linger_ns=3, held_bytes=30)
    assert (shared.payload, shared.stream_limits) == (Payload.TEXT, streams)
    assert options.share(9).flow_limits.max_flows == 1


def test_an_unknown_way_to_show_payloads_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="^payload must be none, sha256, text, base64, not 'hex'$"):
        Options(payload="hex")


def test_one_kind_may_be_a_text_and_an_unknown_one_names_those_that_there_are() -> None:
    assert Options(kinds="route").kinds == frozenset([Kind.ROUTE])
    assert Options(kinds=Kind.ROUTE) == Options(kinds=["route"])
    for wrong in ({"kinds": ["x"]}, {"kinds": "x"}, {"hints": {4222: "x"}}):
        with pytest.raises(ValueError, match="one of client, route, gateway, leafnode, not 'x'$"):
            Options(**wrong)


@pytest.mark.parametrize("wrong", [5, 1.5, datetime(2026, 11, 21), date(2026, 11, 21)])
def test_a_time_is_a_text(wrong: Any) -> None:
    with pytest.raises(TypeError, match="^from_time must be a text such as .*, not "):
        Options(from_time=wrong)
    with pytest.raises(TypeError, match="^until_time must be a text such as .*, not "):
        Options(until_time=wrong)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"redact": None}, "redact must be True or False, not None"),
        ({"separate": "yes"}, "separate must be True or False, not 'yes'"),
        ({"hints": {"4222": "client"}}, "a port in hints must be an int, not '4222'"),
        ({"hints": "4222=client"}, "hints must be a dict of ports, not '4222=client'"),
        ({"stream_limits": 3}, "stream_limits must be Limits, not 3"),
        ({"flow_limits": 3}, "flow_limits must be FlowLimits, not 3"),
        ({"kinds": 3}, "kinds must be a kind or several, not 3"),
        ({"max_expanded": "1G"}, "max_expanded must be a number of bytes, not '1G'"),
        ({"key_logs": 3}, "key_logs must be a path or several, not 3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_value_of_another_type_is_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        Options(**wrong)


def test_numbers_have_limits() -> None:
    with pytest.raises(ValueError, match="^a port in hints must be from 1 to 65535, not 65536$"):
        Options(hints={65536: "client"})
    with pytest.raises(ValueError, match="^max_expanded must be 0 bytes or more, not -1$"):
        Options(max_expanded=-1)


def test_key_logs_may_be_one_path(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.touch()
    for given in (path, str(path), [path], (str(path),)):
        assert Options(key_logs=given).key_logs == (str(path),)
