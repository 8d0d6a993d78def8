"""`nats-dissect`: what options do, and what is said where nothing came out."""

from __future__ import annotations

from click.testing import CliRunner, Result

from dissect.nats.cli import cli

from tests.support.paths import CAPTURES

CORE = str(CAPTURES / "core-2.15.1.pcap")


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def test_help_shows_the_sentence_of_each_command_whole() -> None:
    text = " ".join(run("--help").stdout.split())
    assert "..." not in text.partition("Commands:")[2]
    assert "flows One row per TCP connection, NATS or not." in text


def test_an_empty_output_name_is_the_fault_of_the_option() -> None:
    done = run("sessions", "-o", "", CORE)
    assert done.exit_code == 2 and "'-o' / '--output': an empty text names no file" in done.stderr


def test_a_condition_that_no_row_matches() -> None:
    http = str(CAPTURES / "http.pcap")
    done = run("frames", "--where", "op = '-ERR'", str(CAPTURES / "bulk-2.15.1.pcap"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no row of frames matches the condition" in done.stderr and "NATS" not in done.stderr
    assert "no NATS found" in run("frames", http).stderr


def test_formulas_in_csv_are_texts_when_that_is_asked_for() -> None:
    args = ("sessions", "--format", "csv", "--columns", "client_name", CORE)
    assert run(*args, "--csv-safe").stdout == run(*args).stdout
    query = ("sql", "SELECT '=1' AS x, -5 AS y", CORE, "--format", "csv")
    assert run(*query).stdout == "x,y\n=1,-5\n"
    assert run(*query, "--csv-safe").stdout == "x,y\n'=1,-5\n"
