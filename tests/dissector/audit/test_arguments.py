"""The options of the command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli


def test_the_help_shows_options_in_groups() -> None:
    result = CliRunner().invoke(cli, ["audit", "--help-all"])
    assert result.exit_code == 0
    for group in ("Rules:", "Output:", "Selection:", "Dissection:"):
        assert group in result.stdout
    assert "--fail-on" in result.stdout and "--no-redact" not in result.stdout


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ([], "audit takes captures, or --tables"),
        (["x.pcap", "--tables", "d"], "audit takes captures, or --tables"),
        (["x.pcap", "--columns", "nobody"], "findings have no column 'nobody'"),
        (["x.pcap", "--columns", "rule", "--sort", "nobody"], "a finding has no column 'nobody'"),
        (["x.pcap", "--columns", "rule", "--sort", "rule:up"], "'up' is not a direction"),
        (["--explain", "nobody"], "there is no rule 'nobody'"),
        (["x.pcap", "--rules", "nowhere"], "nowhere: cannot be read"),
    ],
)
def test_wrong_usage_is_one_line(args: list[str], reason: str) -> None:
    result = CliRunner().invoke(cli, ["audit", *args])
    assert result.exit_code == 2
    assert reason in result.stderr and result.stderr.count("\n") == 1


def test_a_value_of_a_placeholder_has_a_name() -> None:
    result = CliRunner().invoke(cli, ["audit", "x.pcap", "--var", "known"])
    assert result.exit_code == 2
    assert (
        "Invalid value for '--var': must be NAME=VALUE, such as known_clusters=east"
        in result.stderr
    )
