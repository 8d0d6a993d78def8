"""Arguments that commands share, and groups, whose modules are loaded when they are asked for."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

import pytest

from natsync.commands import make_parser
from natsync.commands.arguments import (
    Parser,
    age,
    chunk_size,
    count,
    header,
    payload_size,
    seconds,
    sequence,
    whole,
)
from natsync.commands.parser import GROUPS

from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seconds, "0.5", 0.5),
        (count, "3", 3),
        (count, "5000000000", 5_000_000_000),
        (whole, "0", 0),
        (sequence, "18446744073709551615", 2**64 - 1),
        (payload_size, "8000000", 8_000_000),
        (age, "31536000", 31_536_000.0),
        (header, "Name: a:b", ("Name", "a:b")),
        (header, "Name:", ("Name", "")),
    ],
)
def test_good_arguments(read: type, text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(seconds, "0"), (seconds, "inf"), (count, "0"), (count, "1.5"), (whole, "-1")]
    + [(sequence, "0"), (sequence, "18446744073709551616"), (count, "9223372036854775808")]
    + [(chunk_size, "0"), (payload_size, "2147483648"), (age, "0"), (age, "1e10"), (age, "nan")]
    + [(header, "name"), (header, ":value")],
)
def test_bad_arguments(read: type, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)


def test_a_group_is_loaded_when_it_is_asked_for() -> None:
    code = """if True:
        import sys
        from natsync.commands import make_parser
        make_parser("1").parse_args(["pub", "a"])
        assert "natsync.jetstream" not in sys.modules
        make_parser("1").parse_args("-s x stream ls --tls".split())
        assert "natsync.jetstream" in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    from natsync.commands import make_parser

    one = "pub" if group == "streaming" else "ls"
    for arguments in ([group, "--help"], [group, one, "--help"]):
        with pytest.raises(SystemExit) as caught:
            make_parser("1").parse_args(arguments)
        assert caught.value.code == 0
    assert "--server URL" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["sub", "kv watch", "stream purge"])
def test_the_usage_names_connection_options_together(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        make_parser("1").parse_args([*line.split(), "--help"])
    usage, rest = capsys.readouterr().out.split("\n\n", 1)
    assert usage.startswith(f"usage: natsync {line} [-h]") and "[CONNECTION]" in usage
    assert "--server" not in usage and "--server URL" in rest


def test_every_option_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    bare = []
    for parser in _parsers(make_parser("1")):
        for action in parser._actions:
            if action.option_strings and not action.help and not _is_field(parser, action):
                bare.append(f"{parser.prog} {action.option_strings[0]}")
    assert bare == []


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands; a group adds its commands when it parses."""
    if isinstance(parser, Parser) and parser.group:
        with pytest.raises(SystemExit):
            parser.parse_args(["--help"])
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _parsers(each)


def _is_field(parser: argparse.ArgumentParser, action: argparse.Action) -> bool:
    """Whether an option is a field of a configuration, whose name is the server's."""
    fields = [group for group in parser._action_groups if group.title == "configuration"]
    return any(action in group._group_actions for group in fields)
