"""The help: one screen with the common options, and everything with `--help-all`."""

from __future__ import annotations

import click
import pytest

from natsync.cli import main
from natsync.commands.options import Option
from natsync.commands.program import program

SCREEN = 30  # lines, as with nats-dissect

Output = pytest.CaptureFixture[str]


def every_command() -> dict[str, click.Command]:
    """The program, its groups and their commands, by what is typed after `natsync`."""
    context = click.Context(program)
    found: dict[str, click.Command] = {"": program}
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command
        found[name] = command
        if isinstance(command, click.Group):
            found.update((f"{name} {inner}", each) for inner, each in command.commands.items())
    return found


def options_of(command: click.Command) -> list[Option]:
    return [each for each in command.params if isinstance(each, Option)]


@pytest.mark.parametrize("name", every_command())
def test_the_help_of_a_command_fits_a_screen(name: str, capsys: Output) -> None:
    assert main([*name.split(), "--help"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert len(lines) <= SCREEN and max(map(len, lines)) <= 80
    assert "--help-all" in printed and "--server URL" in printed


@pytest.mark.parametrize("name", every_command())
def test_help_shows_what_is_common_and_help_all_shows_every_option(
    name: str, capsys: Output
) -> None:
    options = options_of(every_command()[name])
    main([*name.split(), "--help"])
    words = capsys.readouterr().out.replace("--[no-]", "--").split()
    assert [each for each in options if (each.flag in words) != each.common] == []
    main([*name.split(), "--help-all"])
    printed = capsys.readouterr().out
    assert [
        each for each in options if each.brief not in printed and each.flag not in printed
    ] == []


def test_help_all_of_the_program_tells_the_exit_status_and_the_environment(capsys: Output) -> None:
    assert main(["--help-all"]) == 0
    printed = capsys.readouterr().out
    assert "130  interrupted" in printed and "NATS_PASSWORD" in printed


def test_completion_of_help_all_prints_nothing(capsys: Output) -> None:
    program.make_context("natsync", ["--help-all", "pub"], resilient_parsing=True)
    assert capsys.readouterr().out == ""
