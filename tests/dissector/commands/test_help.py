"""The help: one screen with the common options, and everything with `--help-all`."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands.examples import EXAMPLES
from dissect.nats.commands.help import DeclaredOption

from tests.support.paths import ROOT

SCREEN = 30
PAGES = [ROOT / "docs" / page for page in ("nats-dissect.md", "audit.md")]
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def shown(*args: str) -> str:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 0, done.output
    return done.stdout


def options_of(command: str) -> list[DeclaredOption]:
    """The options that a command takes."""
    params = cli.commands[command].params
    return [each for each in params if isinstance(each, DeclaredOption) and not each.hidden]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", ["", *cli.commands])
def test_the_help_of_a_command_fits_a_screen(command: str) -> None:
    text = shown(*command.split(), "--help")
    lines = text.splitlines()
    assert len(lines) <= SCREEN and max(map(len, lines)) <= 80
    for example in EXAMPLES[command or "nats-dissect"]:
        assert f"  {example}" in lines
    assert "--help-all" in names_in(text)


@pytest.mark.parametrize("command", cli.commands)
def test_help_shows_what_is_common_and_help_all_shows_every_option(command: str) -> None:
    options = options_of(command)
    common = {each.opts[-1] for each in options if each.opt.common or each.opt.required}
    assert names_in(shown(command, "--help")) - {"--help-all"} == common
    every = {each.opts[-1] for each in options}
    assert names_in(shown(command, "--help-all")) - {"--help", "--help-all"} == every


@pytest.mark.parametrize("command", cli.commands)
def test_every_option_is_in_the_reference(command: str) -> None:
    names = {each.opts[-1] for each in options_of(command)}
    assert [name for name in names if not re.search(rf"`[^`]*{name}\b", REFERENCE)] == []


def test_common_options_have_a_brief_help() -> None:
    text = " ".join(shown("sessions", "--help").split())
    assert "--session ID Show one session in full. --format" in text
    assert "How to write rows. [default: text]" in text
    assert "Write this file" not in text and "[required]" in shown("report", "--help")


def test_help_all_of_the_program_shows_every_command_with_its_sentence() -> None:
    text = shown("--help-all")
    for name, command in cli.commands.items():
        sentence = command.get_short_help_str(1000)
        assert f" {name} {sentence} " in f" {' '.join(text.split())} "


def test_help_names_every_command() -> None:
    text = shown("--help").partition("Commands:")[2]
    assert {*cli.commands} <= set(re.findall(r"\w+", text))


def test_completion_of_help_all_prints_nothing() -> None:
    command = cli.commands["sessions"]
    context = command.make_context("sessions", ["--help-all", "a"], resilient_parsing=True)
    assert isinstance(context, click.Context)
