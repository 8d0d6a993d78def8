"""What the user may ask for."""

from __future__ import annotations

import sys

import click
import pytest
from click.testing import CliRunner

from dissect.nats.commands.arguments import (
    GroupedCommand,
    fact_options,
    payload_option,
    row_options,
)
from dissect.nats.commands.command_options import CommandOptions, command_options
from dissect.nats.options import Options, Payload
from natsync.protocol import Kind


def asked(*args: str) -> CommandOptions:
    """What a command with all options makes of arguments."""
    seen: list[CommandOptions] = []

    @click.command(cls=GroupedCommand)
    @row_options
    @payload_option("none")
    def command(**values: object) -> None:
        seen.append(command_options(values))

    done = CliRunner().invoke(command, list(args))
    assert done.exit_code == 0, done.output
    return seen[0]


def test_by_default_all_is_as_the_library_has_it() -> None:
    assert asked("a.pcap").dissection == Options()
    assert (asked("a.pcap").live, asked("-").live) == (False, True)
    assert asked("a.pcap", "-o", "-").path is None


def test_what_is_given_reaches_the_dissector() -> None:
    options = asked(
        "--port=4222=client",
        "--port=1=route",
        "--no-redact",
        "--payload=text",
        "--gap-seconds=0.25",
        "--max-stream-bytes=5000",
        "--max-held-bytes=6000",
        "--max-flows=7",
        "--idle-seconds=1.5",
        "--max-expanded=3MB",
        "a.pcap",
    ).dissection
    assert options.hints == {4222: Kind.CLIENT, 1: Kind.ROUTE}
    assert (options.redact, options.payload) == (False, Payload.TEXT)
    assert options.stream_limits.held_bytes == 5000
    assert options.stream_limits.patience_ns == 250_000_000
    assert options.flow_limits.held_bytes == 6000
    assert (options.flow_limits.max_flows, options.flow_limits.idle_ns) == (7, 1_500_000_000)
    assert options.max_expanded == 3 << 20


def test_a_limit_fits_what_takes_it() -> None:
    """Neither Arrow nor `islice` takes a number beyond 64 bits."""
    assert asked("a.pcap").limit is None
    assert asked("--limit", "3", "a.pcap").limit == 3
    assert asked("--limit", str(1 << 64), "a.pcap").limit == sys.maxsize


def test_help_shows_options_in_groups() -> None:
    @click.command(cls=GroupedCommand)
    @fact_options
    def command(**values: object) -> None: ...

    text = CliRunner().invoke(command, ["--help"]).output
    for group in ("Output:", "Dissection:", "Limits of time and memory"):
        assert f"\n{group}" in text
    assert text.index("--format") < text.index("--port") < text.index("--max-flows")


def test_help_names_the_formats_there_are() -> None:
    @click.command(cls=GroupedCommand)
    @fact_options
    def command(**values: object) -> None: ...

    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "[text|jsonl] text: for people; jsonl: one JSON object per line. [default: text]" in text


@pytest.mark.parametrize(
    "value", ["x=client", "1=nope", "0=client", "65536=client", f"{'9' * 5000}=client", "4222"]
)
def test_a_hint_that_is_none(value: str) -> None:
    with pytest.raises(AssertionError, match="is not port=kind"):
        asked("--port", value, "a.pcap")
