"""What two places show of one fact is equal: tables by SQL, `top`, `audit`, `info`, plots and the report."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats import CaptureReport, Options, plots, records
from dissect.nats.audit.engines.duckdb import over_records
from dissect.nats.audit.loading import loaded_records
from dissect.nats.cli import cli
from dissect.nats.durations import EXACT
from dissect.nats.output.duckdb import Loadable
from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import BYTES, QUESTIONS, Answers, answers_of
from dissect.nats.report.findings import findings_in, rules, wanted
from dissect.nats.schema.records import FrameRecord, Record, RequestRecord, SessionRecord
from dissect.nats.subjects import SINGLE_USE, generic

from tests.support.paths import CAPTURES
from tests.support.report import answers
from tests.support.sightings import capture_of, proxied, seen

NAMES = sorted(path.name for path in CAPTURES.iterdir() if path.suffix in (".pcap", ".pcapng"))
# 89 rules over a capture take half a second, twice.
AUDITED = ["auth", "core", "gateway", "orders", "services", "slow", "stores", "tls"]
pytestmark = pytest.mark.usefixtures("worker_processes")
every_capture = pytest.mark.parametrize("name", NAMES)

Row = Mapping[str, object]
WILDCARDS = {f"{prefix}>" for prefix in SINGLE_USE}


def printed(*arguments: str) -> list[dict[str, object]]:
    """The lines that a command prints as JSON."""
    done = CliRunner().invoke(cli, [*arguments, "--format", "jsonl"])
    assert done.exit_code in (0, 1, 3), done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def capture(name: str) -> str:
    return str(CAPTURES / name)


@cache
def top(name: str) -> dict[str, list[dict[str, object]]]:
    """The lines of `top --once`, by view."""
    views = defaultdict(list)
    for line in printed("top", "--once", capture(name)):
        views[str(line["view"])].append(line)
    return views


@cache
def rows(name: str) -> tuple[Record, ...]:
    return tuple(records([capture(name)], tables_read(QUESTIONS)))


@cache
def report(name: str) -> Answers:
    """What the report shows."""
    return answers(rows(name))


def query(name: str, text: str) -> list[tuple[object, ...]]:
    """The rows that a query returns; absent values are None."""
    return [
        tuple(
            row[f"c{place}"] if f"c{place}" in row else None for place in range(text.count("AS c"))
        )
        for row in printed("sql", text, capture(name))
    ]


def figures(line: Row) -> tuple[object, ...]:
    return line.get("median_ns"), line.get("p99_ns"), line.get("max_ns")


@every_capture
def test_requests_by_subject(name: str) -> None:
    by_sql = {
        row[0]: row[1:]
        for row in query(
            name,
            "SELECT subject AS c0, count(*) AS c1, count(*) FILTER (outcome <> 'ok') AS c2,"
            " quantile_disc(latency_ns, 0.5) AS c3, quantile_disc(latency_ns, 0.99) AS c4,"
            " max(latency_ns) AS c5, count(latency_ns) AS c6 FROM requests GROUP BY subject",
        )
        if row[0] == generic(str(row[0]))
    }
    assert all(isinstance(row[5], int) and row[5] <= EXACT for row in by_sql.values())
    lines = {
        line["subject"]: (line["requests"], line["failed"], *figures(line))
        for line in top(name)["requests"]
        if line["subject"] not in WILDCARDS
    }
    assert lines == {subject: row[:5] for subject, row in by_sql.items()}
    shown = {
        row.subject: (row.requests, row.failures, row.median_ns, row.p99_ns, row.max_ns)
        for row in report(name).requests.subjects
        if row.subject not in WILDCARDS
    }
    assert shown == lines


@every_capture
def test_subjects_that_are_used_once_are_one_line_with_one_name(name: str) -> None:
    requests = {line["subject"]: line["requests"] for line in top(name)["requests"]}
    assert requests == {row.subject: row.requests for row in report(name).requests.subjects}
    messages: Counter[str] = Counter()
    for line in top(name)["subjects"]:
        counts = line["published"], line["delivered"], line["forwarded"]
        messages[str(line["subject"])] += sum(map(int, map(str, counts)))
    assert messages == {
        subject: volume.messages for subject, volume in report(name).subjects.volumes.items()
    }


@every_capture
def test_outcomes_and_latency_of_all_requests(name: str) -> None:
    outcomes = dict(query(name, "SELECT outcome AS c0, count(*) AS c1 FROM requests GROUP BY 1"))
    found = report(name).requests
    assert found.outcomes == outcomes
    problems: Counter[str] = Counter()
    for line in top(name)["problems"]:
        if str(line["text"] if "text" in line else "").startswith("request to "):
            problems[str(line["problem"])] += int(str(line["count"]))
    assert problems == {each: count for each, count in outcomes.items() if each != "ok"}
    text = (
        "SELECT quantile_disc(latency_ns, 0.5) AS c0, quantile_disc(latency_ns, 0.99) AS c1,"
        " max(latency_ns) AS c2, count(latency_ns) AS c3 FROM requests"
    )
    *exact, count = query(name, text)[0]
    assert found.latency.count == count
    assert [found.latency.median_ns, found.latency.p99_ns, found.latency.max_ns] == exact


@every_capture
def test_nobody_is_timed_who_listens_to_nothing(name: str) -> None:
    for row in rows(name):
        if isinstance(row, RequestRecord):
            answered = row.replied_ns is not None and row.outcome != "no_responders"
            assert (row.latency_ns is not None) == answered


@every_capture
def test_plots_show_the_same_requests(name: str) -> None:
    requests = [row for row in rows(name) if isinstance(row, RequestRecord)]
    bars = plots.latency(requests).data[0].y
    assert sum(bars or ()) == sum(row.latency_ns is not None for row in requests)


@every_capture
def test_plots_show_the_figures_of_the_report(name: str) -> None:
    """They ask the same questions of records, of which the report has stored some columns."""
    found = report(name)
    frames = [row for row in rows(name) if isinstance(row, FrameRecord)]
    for measure, total in ((plots.MESSAGES, found.totals.messages), (BYTES, found.totals.bytes)):
        bars = [each for each in plots.traffic(frames, measure).data if each.type == "bar"]
        assert sum(sum(each.y) for each in bars) == total
    sessions = [row for row in rows(name) if isinstance(row, SessionRecord)]
    drawn = [[*each.x] for each in plots.talkers(sessions).data]
    talkers = found.connections.talkers[:20][::-1]
    assert drawn == [
        [row.sent_bytes for row in talkers],
        [row.received_bytes for row in talkers],
    ]
    requests = [row for row in rows(name) if isinstance(row, RequestRecord)]
    over_time = [[*each.y] for each in plots.latency_over_time(requests).data]
    assert over_time == [
        [getattr(row, column) / 1e6 for row in found.requests.over_time]
        for column in ("median_ns", "p90_ns", "p99_ns")
    ]


@every_capture
def test_messages_and_bytes_of_connections_are_equal_in_tables_top_and_report(name: str) -> None:
    sessions = [row for row in rows(name) if isinstance(row, SessionRecord)]
    by_table = {
        row.session: (
            *(row.kind, row.messages_originator, row.messages_responder),
            row.bytes_originator + row.bytes_responder,
        )
        for row in sessions
        if row.frames_originator or row.frames_responder
    }
    by_top = {
        line["session"]: (line["kind"], line["sent"], line["received"], line["bytes"])
        for line in top(name)["connections"]
        if line["session"] in by_table
    }
    assert by_top == by_table
    by_frames = query(
        name,
        "SELECT session AS c0, count(*) FILTER (sender = 'originator') AS c1,"
        " count(*) FILTER (sender = 'responder') AS c2,"
        " sum(payload_bytes + coalesce(header_bytes, 0))::BIGINT AS c3"
        " FROM frames WHERE payload_bytes IS NOT NULL GROUP BY session",
    )
    assert {row[0]: row[1:] for row in by_frames} == {
        session: row[1:] for session, row in by_table.items() if any(row[1:3])
    }
    found = report(name)
    assert found.totals.messages == sum(sum(row[1:3]) for row in by_table.values())
    assert found.totals.bytes == sum(row[3] for row in by_table.values())


def test_connections_that_are_seen_twice(tmp_path: Path) -> None:
    places = [*proxied(), *proxied(number=8), seen(number=9)]
    path = str(capture_of(tmp_path / "seen.pcap", places))
    made = [row for row in records([path], ["sessions"]) if isinstance(row, SessionRecord)]
    once = [row for row in made if row.copy_of is None]
    assert (len(made), len(once)) == (5, 3)
    messages = {row.session: row.messages_originator + row.messages_responder for row in once}
    lines = printed("top", "--once", "--view", "connections", path)
    assert {
        line["session"]: int(str(line["sent"])) + int(str(line["received"])) for line in lines
    } == messages
    (server,) = printed("servers", path)
    assert (server["clients"], server["connections"], server["copies"]) == (3, 3, 2)
    assert {line["session"] for line in printed("paths", path)} == messages.keys()
    columns = wanted(rules())

    def source(tables: Collection[str]) -> Generator[Loadable, None, None]:
        return loaded_records([path], tables, Options(), CaptureReport(), columns=columns)

    with over_records(columns, source, columns) as engine:
        found = answers_of(engine, engine.copies)
    assert (found.totals.sessions, found.copies) == (3, 2)
    assert found.totals.messages == sum(messages.values())
    assert sum(row.sessions for row in found.connections.talkers) == 3
    listed = {str(row["session"]) for row in printed("audit", path) if "session" in row}
    assert listed <= messages.keys() and listed


@every_capture
def test_errors_of_servers_are_equal_in_tables_top_and_report(name: str) -> None:
    by_table: Counter[str] = Counter()
    for row in rows(name):
        if isinstance(row, SessionRecord):
            by_table.update(row.errors or ())
    by_top: Counter[str] = Counter()
    for line in top(name)["problems"]:
        if line["problem"] == "-ERR":
            by_top[str(line["text"])] += int(str(line["count"]))
    assert by_top == by_table
    assert report(name).connections.errors == by_table
    counted = sum(int(str(line["errors"])) for line in top(name)["connections"])
    assert counted == by_table.total()


@every_capture
def test_counts_of_anomalies_are_equal_in_tables_top_and_report(name: str) -> None:
    by_sql = dict(query(name, "SELECT anomaly AS c0, count(*) AS c1 FROM anomalies GROUP BY 1"))
    assert {row.name: row.count for row in report(name).anomalies} == by_sql
    by_top: Counter[str] = Counter()
    for line in top(name)["problems"]:
        if line["problem"] in by_sql:
            by_top[str(line["problem"])] += int(str(line["count"]))
    assert by_top == by_sql


@pytest.mark.parametrize("name", [f"{start}-2.15.1.pcap" for start in AUDITED])
def test_levels_of_findings_are_equal_in_audit_and_report(name: str) -> None:
    lines = printed("audit", "--fail-on", "never", capture(name))
    queries = rules()
    columns = wanted(queries)
    with over_records(columns, lambda tables: records([capture(name)], tables), columns) as engine:
        findings = findings_in(queries, engine)
    assert findings.levels == Counter(str(line["level"]) for line in lines)


@every_capture
def test_first_and_last_time(name: str) -> None:
    sessions = [row for row in rows(name) if isinstance(row, SessionRecord)]
    found = report(name)
    if not sessions:
        assert found.totals.first_ns is found.totals.last_ns is None
        return
    first_ns = min(row.first_ns for row in sessions)
    last_ns = max(row.last_ns for row in sessions)
    assert (found.totals.first_ns, found.totals.last_ns) == (first_ns, last_ns)
    info = printed("info", capture(name))[-1]
    assert int(str(info["first_ns"])) <= first_ns <= last_ns <= int(str(info["last_ns"]))


@every_capture
def test_services_of_clients(name: str) -> None:
    for service in printed("services", capture(name)):
        if service["side"] != "client" or service["kind"] != "client":
            continue
        requests = query(
            name,
            "SELECT count(*) AS c0, count(latency_ns) AS c1,"
            " quantile_disc(latency_ns, 0.5) AS c2, quantile_disc(latency_ns, 0.99) AS c3,"
            " max(latency_ns) AS c4,"
            " count(*) FILTER (outcome IN ('service_error', 'no_responders')) AS c5 FROM requests"
            f" WHERE session = '{service['session']}' AND subject = '{service['subject']}'",
        )
        assert requests == [
            (
                *(service["requests"], service["replies"], service.get("latency_median_ns")),
                *(service.get("latency_p99_ns"), service.get("latency_max_ns")),
                service["errors"],
            )
        ]


@every_capture
@pytest.mark.parametrize("table", ["api", "publishes", "kv"])
def test_answers_to_clients(name: str, table: str) -> None:
    """An application layer and `sessions` find the same first reply to a message of a client."""
    asked = Counter(
        (row.session, row.sent_ns, row.latency_ns)
        for row in records([capture(name)], ["requests"])
        if isinstance(row, RequestRecord)
    )
    answered = Counter(
        (row["session"], row["ts_ns"], row["latency_ns"])
        for row in printed(table, capture(name))
        if row["kind"] == "client" and "latency_ns" in row
    )
    assert answered <= asked


@every_capture
def test_deliveries_and_ack_latency_of_consumers_are_equal_in_both_tables(name: str) -> None:
    by_deliveries = query(
        name,
        "SELECT session AS c0, stream AS c1, consumer AS c2, count(*) FILTER (subject IS NOT NULL)"
        " AS c3, quantile_disc(ack_latency_ns, 0.5) AS c4, quantile_disc(ack_latency_ns, 0.99)"
        " AS c5 FROM deliveries GROUP BY ALL",
    )
    consumers: Iterable[Row] = printed("consumers", capture(name))
    by_table = {
        (row["session"], row.get("stream"), row.get("consumer")): (
            row["deliveries"],
            row.get("ack_median_ns"),
            row.get("ack_p99_ns"),
        )
        for row in consumers
    }
    for session, stream, consumer, *figures_of in by_deliveries:
        assert by_table[session, stream, consumer] == tuple(figures_of)
