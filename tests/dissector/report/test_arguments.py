"""The options of `nats-dissect report`."""

from __future__ import annotations

from click.testing import CliRunner

from dissect.nats.cli import cli


def test_help_names_every_option() -> None:
    done = CliRunner().invoke(cli, ["report", "--help"])
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


def test_an_output_is_required() -> None:
    done = CliRunner().invoke(cli, ["report", "a.pcap"])
    assert done.exit_code == 2 and "Missing option '-o'" in done.stderr


def test_the_usage_says_that_tables_stand_in_place_of_captures() -> None:
    usage, *_ = CliRunner().invoke(cli, ["report", "--help"]).stdout.splitlines()
    assert usage.endswith(" report [OPTIONS] [CAPTURE...]")
