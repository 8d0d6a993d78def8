"""Every command has an example in its help, and the examples work."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands.examples import EXAMPLES

from tests.support.paths import CAPTURES

LINES = [line for lines in EXAMPLES.values() for line in lines]
RUN = [line for line in LINES if "capture.pcap" in line.split() and " spark " not in line]
"""The examples with a capture; tests/spark run jobs."""


def words_of(line: str) -> list[str]:
    """What follows the name of the program, without other programs of a pipeline."""
    (own,) = [part for part in line.split(" | ") if part.startswith("nats-dissect ")]
    return shlex.split(own)[1:]


def test_every_command_has_an_example() -> None:
    assert {*cli.commands, "nats-dissect"} == {*EXAMPLES}
    for command in cli.commands:
        assert {words_of(line)[0] for line in EXAMPLES[command]} == {command}


@pytest.mark.parametrize("line", LINES)
def test_an_example_has_options_that_its_command_takes(line: str) -> None:
    name, *args = words_of(line)
    cli.commands[name].make_context(name, args)


@pytest.mark.parametrize("line", RUN)
def test_an_example_runs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *args = words_of(line)
    shutil.copy(CAPTURES / "core-2.15.1.pcap", tmp_path / "capture.pcap")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, [name, *args])
    assert done.exit_code == 0, done.output
