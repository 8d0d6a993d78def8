"""One command's options as one value."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dissect.nats.capture.time_range import TimeBound
from dissect.nats.cli import cli
from dissect.nats.commands.command_options import CommandOptions, command_options
from dissect.nats.options import Options, Payload
from dissect.nats.output.sink import Fault
from natsync.protocol import Kind


def test_without_options_everything_is_as_from_python() -> None:
    assert CommandOptions(captures=("a",)).dissection == Options()


def test_options_of_the_dissection() -> None:
    made = command_options(
        CommandOptions,
        {
            "captures": ("-",),
            "limit": None,
            "sort": "kind",
            "kind": frozenset([Kind.ROUTE]),
            "payload": Payload.TEXT,
            "redact": False,
            "until_time": TimeBound(5, True),
            "separate": True,
        },
    )
    expected = Options(
        payload=Payload.TEXT,
        redact=False,
        kind="route",
        until_time=TimeBound(5, True),
        separate=True,
    )
    assert made.dissection == expected and made.live
    assert made.filters == ("--kind", "--until")
    assert made.given == ["sort", "payload", "redact", "until_time", "kind", "separate"]


def test_an_option_with_its_default_value_is_not_refused() -> None:
    made = command_options(CommandOptions, {"format": "text", "payload": Payload.NONE, "limit": 3})
    made.refuse(("format", "payload"), "a graph")
    with pytest.raises(Fault, match="^--limit does not go with a graph$"):
        made.refuse(("format", "limit"), "a graph")
    with pytest.raises(Fault, match="^--format csv does not go with a graph$"):
        CommandOptions(format="csv").refuse(("format",), "a graph")


def test_standard_output_has_no_path() -> None:
    assert CommandOptions(captures=("a",), output="-").path is None
    assert not CommandOptions(captures=("a",), output="b").filters


def test_the_help_of_a_report_names_every_option() -> None:
    done = CliRunner().invoke(cli, ["report", "--help-all"])
    assert done.exit_code == 0
    for name in (
        "--output",
        "--tables DIR",
        "--keylog",
        "--from",
        "--no-redact",
        "--jobs",
        "[required]",
    ):
        assert name in done.output


def test_a_report_needs_an_output() -> None:
    done = CliRunner().invoke(cli, ["report", "a.pcap"])
    assert done.exit_code == 2 and "Missing option '-o'" in done.stderr


def test_the_usage_of_a_report_says_that_tables_stand_in_place_of_captures() -> None:
    usage, *_ = CliRunner().invoke(cli, ["report", "--help"]).stdout.splitlines()
    assert usage.endswith(" report [OPTIONS] [CAPTURE...]")
