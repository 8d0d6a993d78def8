"""What the user may ask for."""

from __future__ import annotations

import sys

import click
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands.arguments import FACTS, INPUT, ROWS, GroupedCommand, takes
from dissect.nats.commands.captures.split import SplitOptions
from dissect.nats.commands.command_options import CommandOptions, FactOptions, own
from dissect.nats.options import Options, Payload
from natsync.protocol import Kind

seen: list[CommandOptions] = []


@click.command(cls=GroupedCommand)
@takes(CommandOptions, *ROWS, "payload", *INPUT, refused={"message": "there is none"})
def command(options: CommandOptions) -> None:
    seen.append(options)


@click.command(cls=GroupedCommand)
@takes(FactOptions, *FACTS, *INPUT)
def facts(options: CommandOptions) -> None: ...


def asked(*args: str) -> CommandOptions:
    """What a command with all options makes of arguments."""
    done = CliRunner().invoke(command, list(args))
    assert done.exit_code == 0, done.output
    return seen.pop()


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
    assert options.port == {4222: Kind.CLIENT, 1: Kind.ROUTE}
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
    text = CliRunner().invoke(facts, ["--help-all"]).output
    for group in ("Output:", "Dissection:", "Limits of time and memory"):
        assert f"\n{group}" in text
    assert text.index("--format") < text.index("--port") < text.index("--max-flows")


def test_help_names_the_formats_and_default_values() -> None:
    text = " ".join(CliRunner().invoke(facts, ["--help-all"]).output.split())
    assert (
        "[text|jsonl] How to write rows. text: for people; jsonl: one JSON object per line. [default: text]"
        in text
    )
    assert "--max-flows N TCP connections at a time. [default: 16384; 1 or more]" in text
    assert "in one direction of a connection. [default: 16M; 1024 bytes or more]" in text
    assert "[default: 500 times its size, at least 16 MiB]" in text


def test_a_value_that_is_repeated_is_read_as_one() -> None:
    kinds = asked("--kind=route", "--kind=gateway,client", "a.pcap").dissection.kind
    assert kinds == frozenset([Kind.ROUTE, Kind.GATEWAY, Kind.CLIENT])


def test_an_option_that_a_command_does_not_take_is_refused_with_a_reason() -> None:
    done = CliRunner().invoke(command, ["--message", "ab:1", "a.pcap"])
    assert done.exit_code == 2 and done.stderr == "nats-dissect: --message: there is none\n"
    assert "--message" not in CliRunner().invoke(command, ["--help-all"]).output


def test_an_option_of_other_commands_is_refused_with_their_names() -> None:
    done = CliRunner().invoke(cli, ["frames", "--chunk-size", "64M", "a.pcap"])
    assert done.exit_code == 2
    assert done.stderr == "nats-dissect: frames has no option --chunk-size; spark has it\n"
    done = CliRunner().invoke(cli, ["info", "--where=1", "a.pcap"])
    assert done.stderr == (
        "nats-dissect: info has no option --where;"
        " sessions, frames, servers, paths and 17 others have it\n"
    )
    done = CliRunner().invoke(cli, ["info", "--nothing", "a.pcap"])
    assert "No such option" in done.stderr


def test_choices_can_be_completed() -> None:
    (option,) = (each for each in command.params if each.name == "payload")
    found = option.shell_complete(click.Context(command), "s")
    assert [item.value for item in found] == ["sha256"]


def test_the_options_of_one_class_alone() -> None:
    assert own(SplitOptions) == ("size",) and own(CommandOptions) == ()
