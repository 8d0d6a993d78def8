"""`nats-dissect audit`, over the sample captures and over their tables."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats.cli import cli

from tests.support.audit import detection_text
from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing

try:
    from pyarrow import parquet
except ImportError as lack:
    missing("pyarrow", str(lack))

pytestmark = pytest.mark.usefixtures("worker_processes")

AUTH = str(CAPTURES / "auth-2.15.1.pcap")


def audit(*args: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *args])


@cache
def audit_of_sample(*options: str) -> Result:
    """Of `AUTH`, once for all tests: it takes a second or two."""
    return audit(AUTH, *options)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A rule that finds every CONNECT."""
    path = tmp_path_factory.mktemp("rules") / "mine.yml"
    text = detection_text("  selection: {op: CONNECT}", more="level: low\nfields: [json]\n")
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options for one table, to which few rules of the package belong, and for a rule that finds rows.
    An audit of a capture takes ten times as long."""
    folder = tmp_path_factory.mktemp("services")
    (folder / "services").mkdir()
    path = str(folder / "services" / "part-0.parquet")
    capture = str(CAPTURES / "services-2.15.1.pcap")
    made = CliRunner().invoke(cli, ["services", capture, "--format", "parquet", "-o", path])
    assert made.exit_code == 0
    rule = folder / "rule.yml"
    text = detection_text("  selection: {requests|gte: 1}", "services", more="level: high\n")
    rule.write_text(text, encoding="utf-8")
    return ["--tables", str(folder), "--rules", str(rule)]


def test_findings_and_their_number() -> None:
    result = audit_of_sample()
    assert result.exit_code == 1
    assert result.stdout.startswith("HIGH ")
    assert "password-in-clear" in result.stdout
    assert " findings (" in result.stderr and " ran" in result.stderr


def test_the_manual_shows_what_is_printed() -> None:
    page = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    console = re.search(r"```console\n\$ nats-dissect audit (\S+)\n(.*?)```", page, re.DOTALL)
    assert console
    result = audit(str(ROOT / console[1]))
    shown = [line for line in console[2].splitlines() if line != "..."]
    assert len(shown) > 4
    assert set(shown) <= set((result.stdout + result.stderr).splitlines())


def test_the_status_depends_on_the_level(services: list[str]) -> None:
    assert audit(*services).exit_code == 1
    assert audit(*services, "--fail-on", "never").exit_code == 0
    assert audit(*services, "--fail-on", "critical").exit_code == 0
    assert audit(*services, "--fail-on", "low").exit_code == 1


def test_secrets_are_masked_as_in_the_tables(mine: str) -> None:
    result = audit(AUTH, "--rules", mine, "--format", "jsonl")
    found = [one for one in map(json.loads, result.stdout.splitlines()) if one["rule"] == "rule-1"]
    assert found
    assert '"pass":"***"' in json.dumps([one["fields"] for one in found]).replace("\\", "")
    assert "secret" not in result.stdout


def test_tables_give_the_findings_of_their_capture(tmp_path: Path) -> None:
    for table in ("frames", "sessions"):
        (tmp_path / table).mkdir()
        path = str(tmp_path / table / "part-0.parquet")
        made = CliRunner().invoke(cli, [table, AUTH, "--format", "parquet", "-o", path])
        assert made.exit_code == 0
    own = audit_of_sample("--format", "jsonl").stdout
    of_tables = audit("--tables", str(tmp_path), "--format", "jsonl")
    assert own and set(of_tables.stdout.splitlines()) <= set(own.splitlines())


def test_columns_that_older_tables_lack_are_named(tmp_path: Path) -> None:
    for table, lacking in (("frames", []), ("sessions", ["stalled_ns", "client_name"])):
        path = tmp_path / f"{table}.parquet"
        made = CliRunner().invoke(cli, [table, AUTH, "--format", "parquet", "-o", str(path)])
        assert made.exit_code == 0
        parquet.write_table(parquet.read_table(path).drop_columns(lacking), path)
    result = audit("--tables", str(tmp_path), "--format", "jsonl")
    (line,) = (line for line in result.stderr.splitlines() if "an earlier version" in line)
    assert line.startswith(f"nats-dissect: {tmp_path}: ") and line.endswith(
        ": sessions lacks client_name, stalled_ns"
    )
    assert "password-in-clear" in result.stdout


def test_rules_without_their_tables_are_named(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    result = audit("--tables", str(tmp_path))
    assert result.exit_code == 0
    (line,) = (line for line in result.stderr.splitlines() if "no table sessions:" in line)
    assert "did not run: " in line and ", password-in-clear," in line
    assert re.search(r"\b[1-9]\d* rules? ran; [1-9]\d* did not", result.stderr)


def test_a_folder_without_tables_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    result = audit("--tables", str(tmp_path))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"nats-dissect: {tmp_path}: none of the tables")


def test_rules_are_listed_and_explained(mine: str) -> None:
    listed = audit("--list", "--rules", mine)
    assert listed.exit_code == 0
    assert "low           rule-1" in listed.stdout
    assert listed.stdout.index("high ") < listed.stdout.index("low ")
    explained = audit("--explain", "password-in-clear")
    assert explained.exit_code == 0
    assert "-- password-in-clear: " in explained.stdout and "FROM sessions AS r" in explained.stdout


def test_a_file_that_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no capture", encoding="utf-8")
    result = audit(str(tmp_path / "x"))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_output_to_a_file_and_a_limit(services: list[str], tmp_path: Path) -> None:
    every = audit(*services, "--format", "jsonl")
    assert every.stdout.count("\n") > 1
    path = tmp_path / "findings.jsonl"
    result = audit(*services, "--format", "jsonl", "--limit", "1", "-o", str(path))
    assert result.exit_code == 1
    assert path.read_text(encoding="utf-8").count("\n") == 1


def test_what_is_read_is_no_output(services: list[str], mine: str, tmp_path: Path) -> None:
    known = tmp_path / "known.yml"
    known.write_text("- {rule: rule-1, match: all, reason: no}\n")
    (table,) = Path(services[1]).glob("services/*.parquet")
    for path in (mine, str(known), str(table)):
        before = Path(path).read_bytes()
        result = audit(*services, "--rules", mine, "--suppress", str(known), "-o", path)
        assert result.exit_code == 2 and result.stdout == ""
        assert result.stderr == f"nats-dissect: {path}: is an input, and stays as it is\n"
        assert Path(path).read_bytes() == before


@pytest.mark.parametrize("name", ["jsonl", "csv", "text"])
def test_findings_in_the_order_of_a_column(services: list[str], name: str) -> None:
    args = [*services, "--format", name, "--columns", "rule,ts_ns,session"]
    every = audit(*args).stdout.splitlines()
    most = audit(*args, "--sort", "session:desc", "--limit", "2").stdout.splitlines()
    rows = [line for line in every if "rule-1" in line]
    sessions = sorted((re.findall("[0-9a-f]{16}", row)[-1] for row in rows), reverse=True)
    found = [re.findall("[0-9a-f]{16}", line)[-1] for line in most if "rule-1" in line]
    assert found == sessions[:2] and len(set(sessions)) > 1


@pytest.mark.parametrize("name", ["sarif", "ocsf", "ecs"])
def test_formats_of_others_are_sorted_too(services: list[str], name: str) -> None:
    def sessions(*options: str) -> list[str]:
        found = audit(*services, "--format", name, *options).stdout
        return re.findall(r'"[0-9a-f]{16}"', found)

    assert list(dict.fromkeys(sessions("--sort", "session:desc"))) == sorted(
        set(sessions()), reverse=True
    )


def test_two_processes_find_the_same() -> None:
    alone = audit_of_sample("--format", "jsonl")
    together = audit(AUTH, "--format", "jsonl", "--jobs", "2")
    assert alone.stdout and together.stdout == alone.stdout


def test_suppressed_findings_are_shown_and_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    text = "- {rule: %s, match: %s, reason: A lab.}\n"
    every = sorted(
        {
            one["rule"]
            for one in map(json.loads, audit_of_sample("--format", "jsonl").stdout.splitlines())
        }
    )
    path.write_text("".join(text % (rule, "all") for rule in every), encoding="utf-8")
    result = audit(AUTH, "--suppress", str(path), "--fail-on", "informational")
    assert result.exit_code == 0
    assert "(suppressed: A lab.)" in result.stdout
    assert "0 findings; " in result.stderr and " suppressed" in result.stderr


def test_a_suppression_that_holds_for_nothing_is_named(services: list[str], tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    text = "- {rule: rule-1, match: {name: nobody}, reason: A lab.}\n"
    path.write_text(text, encoding="utf-8")
    assert "matched no finding" in audit(*services, "--suppress", str(path)).stderr


@pytest.mark.parametrize("name", ["sarif", "ocsf", "ecs"])
def test_formats_of_others(services: list[str], name: str) -> None:
    result = audit(*services, "--format", name)
    assert result.exit_code == 1
    for line in [result.stdout] if name == "sarif" else result.stdout.splitlines():
        assert json.loads(line)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["x.pcap", "--master", "local[1]"], "need --tables"),
        (["--tables", ".", "--conf", "spark.x=1"], "--conf needs --master"),
        (["x.pcap", "--var", "nothing=1"], "no rule has the placeholder %nothing%"),
        (["--tables", "nowhere"], "nowhere: no folder with tables"),
        (["x.pcap", "--no-redact"], "findings never show secrets"),
        (["x.pcap", "--sort", "count"], "--sort does not go with text grouped by rule: choose"),
    ],
)
def test_options_that_do_not_go_together(args: list[str], reason: str) -> None:
    result = audit(*args)
    assert result.exit_code == 2
    assert reason in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_finds_the_same(spark: object, tmp_path: Path) -> None:
    """In the session that runs, which `--master` leaves alone; over one table, to which few rules belong."""
    (tmp_path / "services").mkdir()
    path = str(tmp_path / "services" / "part-0.parquet")
    capture = str(CAPTURES / "services-2.15.1.pcap")
    made = CliRunner().invoke(cli, ["services", capture, "--format", "parquet", "-o", path])
    assert made.exit_code == 0
    rule = tmp_path / "rule.yml"
    rule.write_text(detection_text("  selection: {requests|gte: 1}", "services"), encoding="utf-8")
    args = ["--tables", str(tmp_path), "--rules", str(rule), "--format", "jsonl"]
    here, there = audit(*args), audit(*args, "--master", "local[2]")
    assert here.stdout and there.stdout == here.stdout
    assert there.exit_code == here.exit_code
    order = ["--sort", "session:desc"]
    here, there = audit(*args, *order), audit(*args, *order, "--master", "local[2]")
    assert here.stdout and there.stdout == here.stdout


def test_rules_without_a_value_are_named_in_the_last_line_only() -> None:
    err = audit_of_sample().stderr.splitlines()
    lines = [line for line in err if "known_clusters" in line]
    assert lines == err[-1:]
    assert lines[0].endswith("; unknown-cluster needs --var known_clusters=...")
    assert "known_clusters" not in audit(AUTH, "--var", "known_clusters=east").stderr
