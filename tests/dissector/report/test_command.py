"""`nats-dissect report`: what it writes, what it says, and what it refuses in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dissect.nats.cli import cli
from dissect.nats.output.arrow.records import batch
from dissect.nats.tables import TABLE_OF, TABLES
from natsync._extras import pip_install

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES

pytestmark = pytest.mark.usefixtures("worker_processes")

CORE = CAPTURES / "core-2.15.1.pcap"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


def refused(done: Result, expected: str) -> None:
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert expected in done.stderr


def without_data(path: Path) -> str:
    """The page's own text."""
    return re.sub(r"<script>.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def of_core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The page of a sample, and its standard error: making one takes more than a second."""
    out = tmp_path_factory.mktemp("report") / "a.html"
    return out, run(CORE, "-o", out)


def test_the_command_writes_one_page_and_says_what_it_has(
    of_core: tuple[Path, Result], tmp_path: Path
) -> None:
    out, done = of_core
    assert (done.exit_code, done.stdout) == (0, "")
    assert re.fullmatch(
        rf"nats-dissect: 7 sessions, 210 frames, \d+ findings in {re.escape(str(out))}\n",
        done.stderr,
    )
    text = without_data(out)
    assert text.startswith("<!DOCTYPE html>") and "<title>NATS in core-2.15.1.pcap</title>" in text
    again = tmp_path / "b.html"
    assert run(CORE, "-o", again).exit_code == 0
    assert again.read_bytes() == out.read_bytes()


def test_two_processes_make_the_page_of_one(tmp_path: Path) -> None:
    one, two = tmp_path / "1.html", tmp_path / "2.html"
    paths = (CAPTURES / "auth-2.15.1.pcap", CAPTURES / "leafnode-2.15.1.pcap")
    assert run(*paths, "-o", one).exit_code == 0
    assert run(*paths, "-o", two, "--jobs", "2").exit_code == 0
    assert two.read_bytes() == one.read_bytes()


def write_tables(capture: Path, folder: Path) -> None:
    for table in TABLES:
        some = [row for row in rows([capture], [table])]
        if some:
            pq.write_table(
                pa.Table.from_batches([batch(TABLE_OF[type(some[0])].name, some)]),
                folder / f"{table}.parquet",
            )


def test_tables_have_the_findings_of_captures(tmp_path: Path) -> None:
    capture, found = CAPTURES / "auth-2.15.1.pcap", re.compile(r"[1-9]\d* findings")
    write_tables(capture, tmp_path)
    captured = run(capture, "-o", tmp_path / "a.html").stderr
    stored = run("--tables", tmp_path, "-o", tmp_path / "b.html").stderr
    assert found.findall(stored) == found.findall(captured) != []


def test_tables_in_place_of_captures(of_core: tuple[Path, Result], tmp_path: Path) -> None:
    write_tables(CORE, tmp_path)
    captured, stored = of_core[0], tmp_path / "b.html"
    done = run("--tables", tmp_path, "-o", stored)
    assert done.exit_code == 0 and "7 sessions, 210 frames" in done.stderr
    data = re.compile(r'<script type="application/json" id="data">(.*?)</script>')
    assert data.findall(stored.read_text()) == data.findall(captured.read_text())


def test_columns_that_older_tables_lack_are_named(tmp_path: Path) -> None:
    write_tables(CORE, tmp_path)
    path = tmp_path / "sessions.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["stalled_ns", "duplicate_bytes"]), path)
    done = run("--tables", tmp_path, "-o", tmp_path / "b.html")
    assert done.exit_code == 0 and "7 sessions, 210 frames" in done.stderr
    assert "sessions lacks stalled_ns, duplicate_bytes\n" in done.stderr


@pytest.mark.parametrize(
    "content, status, expected",
    [
        (b"this is not a capture", 2, "not a capture"),
        (CORE.read_bytes()[:3000], 3, "everything before it was read"),
        (CORE.read_bytes()[:24], 0, "no NATS; 0 sessions, 0 frames"),
    ],
    ids=["text", "cut", "empty"],
)
def test_a_strange_capture_gives_a_page_or_one_line(
    tmp_path: Path, content: bytes, status: int, expected: str
) -> None:
    capture, out = tmp_path / "a.pcap", tmp_path / "a.html"
    capture.write_bytes(content)
    done = run(capture, "-o", out)
    assert done.exit_code == status and expected in done.stderr and done.stdout == ""
    assert out.exists() == (status != 2)


def test_audit_and_report_leave_pandas_out(tmp_path: Path) -> None:
    """pyarrow would import it, which takes a second and 37 MB."""
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from dissect.nats.cli import cli\n"
        "for words in (['audit', '--fail-on', 'never'], ['report', '-o', sys.argv[2]]):\n"
        "    done = CliRunner().invoke(cli, [*words, sys.argv[1]])\n"
        "    print(done.exit_code, 'pyarrow' in sys.modules, 'pandas' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(CORE), str(tmp_path / "a.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0 True False"] * 2


def test_what_is_refused(tmp_path: Path) -> None:
    refused(run(CORE, "-o", tmp_path / "none" / "a.html"), "cannot be written: No such file")
    refused(run(tmp_path / "none.pcap", "-o", tmp_path / "a.html"), "none.pcap")
    refused(run("-o", tmp_path / "a.html"), "no capture is named")
    refused(run(CORE, "--tables", tmp_path, "-o", tmp_path / "a.html"), "one or the other")
    refused(run("--tables", tmp_path, "-o", tmp_path / "a.html"), "has no table sessions")
    refused(run("--tables", tmp_path / "none", "-o", tmp_path / "a.html"), "is not a folder")
    capture = tmp_path / "a.pcap"
    capture.write_bytes(CORE.read_bytes())
    refused(run(capture, "-o", capture), "is one of the captures")
    keys = tmp_path / "keys.txt"
    keys.write_text(f"CLIENT_RANDOM {'00' * 32} 00\n")
    refused(run(CORE, "--keylog", keys, "-o", keys), "is an input, and stays as it is")
    table = tmp_path / "sessions.parquet"
    refused(run("--tables", tmp_path, "-o", table), "sessions.parquet: would be read as an input")
    table.touch()
    refused(run("--tables", tmp_path, "-o", table), "is an input, and stays as it is")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.pcap",
        "keys.txt",
        "sessions.parquet",
    ]


def test_a_missing_plotly_is_named_before_a_capture_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    refused(run(tmp_path / "none.pcap", "-o", tmp_path / "a.html"), pip_install("report"))
    refused(run("--tables", tmp_path, "-o", tmp_path / "a.html"), pip_install("report"))
    assert not [*tmp_path.iterdir()]


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dissect.nats.report.command", None)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "dissect.nats.report.command")
    monkeypatch.delitem(sys.modules, "dissect.nats.report.page.page", raising=False)
    refused(run(CORE, "-o", tmp_path / "a.html"), pip_install("report"))
