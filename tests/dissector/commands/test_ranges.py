"""Ranges of numbers in options."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli

from tests.support.paths import CAPTURES

CORE = str(CAPTURES / "core-2.15.1.pcap")


@pytest.mark.parametrize(
    ("command", "option"),
    [("sessions", "--gap-seconds"), ("info", "--idle-seconds"), ("top", "--interval")],
)
def test_what_is_not_a_number_is_refused(command: str, option: str) -> None:
    done = CliRunner().invoke(cli, [command, option, "nan", CORE])
    assert done.exit_code == 2
    assert f"Invalid value for '{option}': 'nan' is not a number" in done.stderr


def test_the_ends_of_a_range_are_checked() -> None:
    done = CliRunner().invoke(cli, ["sessions", "--gap-seconds", "-0.5", CORE])
    assert done.exit_code == 2 and "-0.5 is not in the range" in done.stderr


def test_more_processes_than_any_machine_has_use_for_are_refused() -> None:
    done = CliRunner().invoke(cli, ["sessions", "--jobs", "99999", CORE])
    assert done.exit_code == 2 and "99999 is not in the range 0<=x<=512" in done.stderr
