"""What the user of `nats-dissect spark` may ask for."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result

from dissect.nats.commands.arguments import GroupedCommand, payload_option
from dissect.nats.options import Payload
from dissect.nats.spark.options.arguments import JobArguments, job_arguments, job_options
from dissect.nats.tables import TABLES
from natsync.protocol import Kind

seen: list[JobArguments] = []


@click.command(cls=GroupedCommand)
@job_options
@payload_option("none")
def command(**values: object) -> None:
    seen.append(job_arguments(values))


def run(*args: str) -> Result:
    return CliRunner().invoke(command, list(args))


def asked(*args: str) -> JobArguments:
    done = run(*args, "--out", "tables")
    assert done.exit_code == 0, done.output
    return seen.pop()


def test_by_default() -> None:
    made = asked("a.pcap", "b/")
    assert made.captures == ("a.pcap", "b/") and made.out == "tables"
    assert made.tables == ("frames", "sessions") and made.chunk_bytes == 128 << 20
    assert (made.master, made.conf, made.summary) == (None, {}, None)
    assert (made.from_time, made.until_time) == (None, None)


def test_options_are_read() -> None:
    made = asked(
        "a.pcap",
        f"--tables={', '.join(TABLES)},frames",
        "--chunk-size=64k",
        "--master=spark://a:7077",
        "--conf=spark.executor.memory=4g",
        "--conf=spark.x=a=b",
        "--from=2023-11-14T22:13:20Z",
        "--until=@1700000001",
        "--port=4222=client",
        "--payload=sha256",
        "--no-redact",
        "--separate",
        "--max-expanded=8G",
        "--summary=-",
    )
    assert made.tables == tuple(TABLES) and made.chunk_bytes == 1 << 16
    assert made.conf == {"spark.executor.memory": "4g", "spark.x": "a=b"}
    assert made.from_time == (1_700_000_000 * 10**9, False)
    assert made.until_time == (1_700_000_001 * 10**9, False)
    assert made.dissection.hints == {4222: Kind.CLIENT}
    assert (made.dissection.payload, made.dissection.redact) == (Payload.SHA256, False)
    assert (made.master, made.summary) == ("spark://a:7077", "-")


@pytest.mark.parametrize(
    "args, expected",
    [
        (["--tables=frame"], "'frame' is not a table; tables are frames, sessions"),
        (["--tables="], "'' is not a table"),
        (["--conf=spark.executor.memory"], "is not a setting such as spark.executor.memory=4g"),
        (["--conf=memory=4g"], "'memory=4g' is not a setting"),
        (["--chunk-size=64x"], "'64x' is not a size such as 64M"),
        (["--chunk-size=1k"], "4096 bytes are the least"),
        (["--from=yesterday"], "'yesterday' is not a time"),
    ],
)
def test_what_is_wrong_is_reported(args: list[str], expected: str) -> None:
    done = run("a.pcap", "--out=x", *args)
    assert done.exit_code == 2 and expected in " ".join(done.stderr.split())


def test_it_must_be_said_where_to() -> None:
    done = run("a.pcap")
    assert done.exit_code == 2 and "Missing option '--out'" in done.stderr


def test_help_shows_groups() -> None:
    text = run("--help").output
    assert text.index("\nOutput:") < text.index("\nSpark:") < text.index("\nDissection:")


def test_separate_and_max_expanded_are_options_of_the_dissection() -> None:
    options = asked("a.pcap", "--separate", "--max-expanded", "8G").dissection
    assert options.separate and options.max_expanded == 8 << 30


def test_the_order_of_rows_is_not_for_the_job() -> None:
    done = run("a.pcap", "--out", "tables", "--sort", "ts_ns")
    assert done.exit_code == 2 and "sort where you read them" in done.stderr
    assert "--sort" not in run("--help").output
