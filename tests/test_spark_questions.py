"""The questions in Spark SQL find what the captures hold, say no more than they prove, and their page
shows it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.output.arrow.records import batch
from dissect.nats.schema.records import (
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)
from dissect.nats.tables import TABLES

from tests.support.joined import run_joined
from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing
from tests.support.spark import drop_views, lack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Six questions take a while where other tests run.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

PROGRAM = ROOT / "samples" / "spark_questions.py"
SECTION = (ROOT / "docs" / "spark-sql.md").read_text(encoding="utf-8")
SECRETS = ("s3cret", "hunter2", "m0ney", "guess", "t0ken-for-all", "wr0ng")


def ask_here(folder: Path, output: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The same program in this process and the session of the other tests: status, output, errors."""
    output.readouterr()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["spark_questions.py", str(folder)])
        runpy.run_path(str(PROGRAM), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code, *output.readouterr()


def answers(output: str) -> dict[str, list[list[str]]]:
    """Title -> rows of cells, without the heads of columns."""
    found: dict[str, list[list[str]]] = {}
    for part in output.strip().split("\n\n"):
        title, *lines = part.splitlines()
        rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
        found[title] = [[cell.strip() for cell in row] for row in rows[1:]]
    return found


@pytest.fixture(autouse=True)
def _spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """The program leaves its views to the end of its session, which here is that of the other tests."""
    if lacking := lack():
        missing(*lacking)
    yield
    if "spark" in request.fixturenames:
        drop_views(request.getfixturevalue("spark"))


def named(text: str) -> list[str]:
    """The tables that a command in the text asks for."""
    tables = re.search(r"--tables (\S+)", text)
    assert tables
    return tables[1].split(",")


def part(folder: Path, table: str) -> Path:
    """The file for the rows of a table, where the Spark form of the dissector has one."""
    path = folder / table / "date=2026-11-21" / "part.parquet"
    path.parent.mkdir(parents=True)
    return path


def write(folder: Path, records: dict[str, Sequence[Record]]) -> None:
    from pyarrow import Table
    from pyarrow.parquet import write_table

    for table in TABLES:
        (folder / table).mkdir()
        if table in records:
            write_table(Table.from_batches([batch(table, records[table])]), part(folder, table))


def test_it_finds_what_the_samples_hold(tmp_path: Path, spark: SparkSession) -> None:
    for table in named(SECTION):
        to = str(part(tmp_path, table))
        made = CliRunner().invoke(cli, [table, str(CAPTURES), "--format", "parquet", "-o", to])
        assert made.exit_code == 0, made.output
    done = run_joined(spark, ROOT, PROGRAM, tmp_path)
    assert done.returncode == 1, done.stderr
    assert [secret for secret in SECRETS if secret in done.stdout] == []
    found = answers(done.stdout)
    assert sum(int(row[-1]) for row in found["Plaintext credentials"]) == 43
    console = re.search(r"```console\n(?:\$[^\n]*\n)+(.*?)```", SECTION, re.DOTALL)
    assert console
    expected = re.escape(console[1].rstrip()).replace(re.escape("\n...\n"), "\n(?:.*\n)+?")
    assert re.fullmatch(expected, done.stdout.rstrip()), done.stdout


def test_it_says_no_more_than_is_proven(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, conversation())
    status, output, errors = ask_here(tmp_path, capsys)
    assert status == 0, errors
    assert "\x1b" not in output
    found = answers(output)
    assert found["Plaintext credentials"] == found["Sessions that ended in error"] == []
    nobody, unseen = "nobody listened (503)", "no subscriber in these captures"
    assert found["Subjects nobody subscribed to, as far as can be seen"] == [
        ["void", "1", "1", nobody],
        ["ax.b", "1", "1", unseen],
        ["late", "1", "1", unseen],
        ["one", "1", "1", unseen],
        ["one.two.three", "1", "1", unseen],
        ["refused", "1", "1", unseen],
        ["x.two.b", "1", "1", unseen],
    ]
    assert found["Requests that got no answer"] == [
        ["asked", "none seen, bytes are missing", "1", "1", "7"],
        ["void", "503, nobody listens", "1", "1", "NULL"],
    ]
    assert found["Slow responders"] == [
        ["?[2J", "100", "50", "99", "100"],
        ["answered", "1", "0", "0", "0"],
    ]


def conversation() -> dict[str, Sequence[Record]]:
    """Over TLS that somebody could read, with a gap, and with a subject that clears screens."""
    published = "one one.two one.two.three x.two.a x.two.b ax.b deep.er.still late refused void"
    return {
        "sessions": [session()],
        "frames": [
            frame("CONNECT", 0, json='{"user":"ada","pass":"***"}'),
            *(frame("PUB", 10, subject) for subject in published.split()),
            *(frame("PUB", 10, subject) for subject in ("delivered", "answered", "_INBOX.1")),
            frame("MSG", 11, "delivered", reply="_INBOX.1"),
            frame("RMSG", 11, "late", kind="gateway"),
        ],
        "subscriptions": [
            *map(subscribed, "one.* *.two.a deep.> x.two.b.> a*.b one.two.three.>".split()),
            subscribed("late", opened_ns=11),
            subscribed("late", closed_ns=9, close="unsub"),
            subscribed("refused", close="refused"),
        ],
        "requests": [
            request("asked"),
            request("void", replied_ns=1_000_009, status=503),
            request("answered", replied_ns=1_000_000, latency_ns=0, responses=1),
            *(
                request("\x1b[2J", latency_ns=micros * 1000, replied_ns=1, responses=1)
                for micros in range(1, 101)
            ),
        ],
    }


def session() -> SessionRecord:
    return SessionRecord(
        session="s",
        capture="c",
        kind="client",
        transport="tls",
        originator="192.0.2.1:1",
        responder="192.0.2.2:2",
        first_ns=0,
        last_ns=8_500_000,
        start="handshake",
        end="fin",
        missing_bytes=1,
    )


def frame(
    op: str,
    ts_ns: int,
    subject: str | None = None,
    *,
    kind: str = "client",
    reply: str | None = None,
    json: str | None = None,
) -> FrameRecord:
    return FrameRecord(
        session="s",
        number=1,
        ts_ns=ts_ns,
        packet=1,
        capture="c",
        sender="originator",
        kind=kind,
        op=op,
        subject=subject,
        reply=reply,
        total_bytes=1,
        offset=0,
        json=json,
    )


def subscribed(
    subject: str,
    opened_ns: int | None = None,
    closed_ns: int | None = None,
    close: str | None = None,
) -> SubscriptionRecord:
    return SubscriptionRecord(
        session="s",
        subject=subject,
        opened_ns=opened_ns,
        closed_ns=closed_ns,
        close=close,
        sender="originator",
    )


def request(subject: str, **answer: int) -> RequestRecord:
    return RequestRecord(
        session="s", subject=subject, reply="_INBOX.1", sent_ns=1_000_000, request_bytes=1, **answer
    )


@pytest.mark.parametrize(
    "lacking, expected",
    [
        ("sys.modules['pyspark'] = None", r".*'pyspark.*: pip install '.\[spark\]'"),
        ("os.environ['JAVA_HOME'] = os.devnull", "Spark needs Java 17 or later: "),
        ("sys.argv.pop()", "usage: spark_questions.py DIR"),
    ],
)
def test_it_says_in_a_line_what_is_missing(lacking: str, expected: str) -> None:
    code = f"import os, runpy, sys; {lacking}; runpy.run_path({str(PROGRAM)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code, "tables"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert re.match(f"spark_questions: {expected}.*\n\\Z", done.stderr)
    assert (done.stdout, done.returncode) == ("", 2)


def test_a_folder_without_tables_is_reported(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, errors = ask_here(tmp_path, capsys)
    assert status == 2
    last = errors.splitlines()[-1]
    assert f"spark_questions: no frames in {tmp_path}: nats-dissect spark" in last
    assert named(last) == named(SECTION)


def test_it_ends_quietly_when_its_reader_has_gone(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {})
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as broken, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", broken)
        status, _, errors = ask_here(tmp_path, capsys)
    assert status == 0, errors


def test_it_prints_its_usage_without_starting_spark() -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "--help"], capture_output=True, text=True, timeout=50
    )
    assert done.stdout.startswith("spark_questions: usage: spark_questions.py DIR, which")
    assert (done.stderr, done.returncode) == ("", 0)
