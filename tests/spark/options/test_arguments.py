"""What the user of `nats-dissect spark` may ask for."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result

from dissect.nats.commands.arguments import INPUT, GroupedCommand, takes
from dissect.nats.commands.command_options import own
from dissect.nats.options import Payload
from dissect.nats.spark.options.arguments import REFUSED, JobArguments
from dissect.nats.tables import TABLES
from natsync.protocol import Kind

seen: list[JobArguments] = []


@click.command(cls=GroupedCommand)
@takes(JobArguments, *own(JobArguments), "payload", *INPUT, refused=REFUSED)
def command(options: JobArguments) -> None:
    seen.append(options)


def run(*args: str) -> Result:
    return CliRunner().invoke(command, list(args))


def asked(*args: str) -> JobArguments:
    done = run(*args, "--out", "tables")
    assert done.exit_code == 0, done.output
    return seen.pop()


def test_options_that_are_not_given_have_their_defaults() -> None:
    made = asked("a.pcap", "b/")
    assert made.captures == ("a.pcap", "b/") and made.out == "tables"
    assert made.tables == ("frames", "sessions") and made.chunk_size == 128 << 20
    assert (made.master, made.conf, made.summary) == (None, {}, None)
    assert made.dissecting == {}


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
    assert made.tables == (*TABLES, "frames") and made.chunk_size == 1 << 16
    assert made.conf == {"spark.executor.memory": "4g", "spark.x": "a=b"}
    assert made.dissection.from_time == (1_700_000_000 * 10**9, False)
    assert made.dissection.until_time == (1_700_000_001 * 10**9, False)
    assert made.dissection.port == {4222: Kind.CLIENT}
    assert (made.dissection.payload, made.dissection.redact) == (Payload.SHA256, False)
    assert (made.master, made.summary) == ("spark://a:7077", "-")


@pytest.mark.parametrize(
    "args, expected",
    [
        (["--tables=frame"], "'--tables': must be one or several of frames, sessions"),
        (["--tables="], "'--tables': must be one or several of"),
        (["--conf=spark.executor.memory"], "must be K=V, such as spark.executor.memory=4g, not"),
        (["--conf=memory=4g"], "such as spark.executor.memory=4g, not 'memory=4g'"),
        (["--chunk-size=64x"], "must be a size such as 64M, 4096 bytes or more, not '64x'"),
        (["--chunk-size=1k"], "must be a size such as 64M, 4096 bytes or more, not '1k'"),
        (["--from=yesterday"], "must be a time such as 2026-11-21T02:01:43Z"),
    ],
)
def test_what_is_wrong_is_reported(args: list[str], expected: str) -> None:
    done = run("a.pcap", "--out=x", *args)
    assert done.exit_code == 2 and expected in " ".join(done.stderr.split())


def test_it_must_be_said_where_to() -> None:
    done = run("a.pcap")
    assert done.exit_code == 2 and "Missing option '--out'" in done.stderr


def test_help_shows_groups() -> None:
    text = run("--help-all").output
    assert text.index("\nOutput:") < text.index("\nSpark:") < text.index("\nDissection:")


def test_separate_and_max_expanded_are_options_of_the_dissection() -> None:
    options = asked("a.pcap", "--separate", "--max-expanded", "8G").dissection
    assert options.separate and options.max_expanded == 8 << 30


@pytest.mark.parametrize("name", REFUSED)
def test_options_for_rows_say_what_to_do_instead(name: str) -> None:
    flag = f"--{name}"
    done = run("a.pcap", "--out", "tables", flag, "1")
    assert done.exit_code == 2 and REFUSED[name] in done.stderr
    assert f"{flag} " not in run("--help-all").output
