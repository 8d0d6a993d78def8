"""The options of `nats-dissect top`."""

from __future__ import annotations

from click.testing import CliRunner

from dissect.nats.cli import cli


def test_the_help_names_the_views() -> None:
    text = " ".join(CliRunner().invoke(cli, ["top", "--help-all"]).output.split())
    assert "--view [connections|subjects|requests|problems]" in text
    for option in (
        "--once",
        "--filter TEXT",
        "--interval S",
        "--sort COLUMN[:desc]",
        "--from TIME",
    ):
        assert option in text


def test_an_interval_of_nothing_is_refused() -> None:
    done = CliRunner().invoke(cli, ["top", "--interval", "0", "-"])
    assert done.exit_code == 2 and "--interval" in done.output
