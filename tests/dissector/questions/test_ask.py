"""Questions: their texts, and the rules that stand in them, which are those of Python."""

from __future__ import annotations

import random
from importlib.resources import files

import pytest

from dissect.nats.durations import EXACT, Durations, bucket_of
from dissect.nats.outcomes import is_error_status
from dissect.nats.questions.ask import (
    BAR_BITS,
    answer_of,
    ask,
    bucket,
    columns_read,
    over,
    sql_of,
    tables_read,
)
from dissect.nats.report.answers import QUESTIONS
from dissect.nats.schema.records import RequestRecord
from dissect.nats.subjects import SINGLE_USE, generic

from tests.support.audit import frame
from tests.support.report import engine_over


def test_every_text_is_asked() -> None:
    names = [path.name for path in files("dissect.nats.questions").iterdir()]
    texts = {name.removesuffix(".sql") for name in names if name.endswith(".sql")}
    of_plots = {"wildcards", "ladder", "message_path"}
    assert {*QUESTIONS} | of_plots == texts


def test_the_tables_and_columns_that_are_read() -> None:
    assert tables_read(["traffic"]) == ["frames", "requests", "anomalies", "deliveries"]
    assert {"ts_ns", "payload_bytes", "op"} <= {*columns_read(["traffic"], "frames")}
    assert "json" not in columns_read(["traffic"], "frames")


def test_single_use_subjects_are_generic_as_in_python() -> None:
    subjects = [f"{prefix}{rest}" for prefix in (*SINGLE_USE, "_INBOX", "a.", "$") for rest in "xy"]
    frames = [frame(number, subject=each, payload_bytes=1) for number, each in enumerate(subjects)]
    with engine_over(frames) as engine:
        found = ask(engine, "subjects")
    assert {row.subject for row in found} == {*map(generic, subjects)}


def test_buckets_of_durations_are_those_of_python() -> None:
    some = random.Random(1)
    numbers = [0, 1, 2, 15, 16, 17, *(some.getrandbits(some.randrange(1, 63)) for _ in range(300))]
    powers = [number for bits in range(1, 63) for number in ((1 << bits) - 1, 1 << bits)]
    values = ", ".join(f"({number})" for number in (*numbers, *powers))
    sql = f"SELECT n, {bucket('n', BAR_BITS)} AS b FROM (VALUES {values}) AS v(n)"
    with engine_over([]) as engine:
        rows = answer_of(engine, sql)
    assert len(rows) == len(numbers) + len(powers)
    assert [row.b for row in rows] == [bucket_of(row.n, BAR_BITS) for row in rows]


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, EXACT, EXACT + 1, 5000])
def test_quantiles_are_those_of_durations(count: int) -> None:
    """Which are exact up to `EXACT` durations, and within 0.8 % beyond; those of SQL are always exact."""
    some, durations = random.Random(count), Durations()
    numbers = [int(some.lognormvariate(13, 2)) for _ in range(count)]
    for number in numbers:
        durations.add(number)
    requests = [
        RequestRecord(
            session="s", subject="a", reply="r", sent_ns=1, request_bytes=0, latency_ns=ns
        )
        for ns in numbers
    ]
    with engine_over(requests) as engine:
        (all_,) = ask(engine, "latency")
        (of_subject,) = ask(engine, "requests_by_subject", limit=1)
        (over_time,) = ask(engine, "latency_over_time")
    expected = [durations.quantile(50), durations.quantile(99)]
    assert durations.is_exact == (count <= EXACT)
    assert [all_.median_ns, all_.p99_ns] == (
        expected if durations.is_exact else pytest.approx(expected, rel=0.008)
    )
    assert (all_.median_ns, all_.p99_ns) == (of_subject.median_ns, of_subject.p99_ns)
    assert (all_.median_ns, all_.p99_ns) == (over_time.median_ns, over_time.p99_ns)
    assert (all_.count, all_.max_ns) == (durations.count, durations.largest)


def test_the_codes_that_are_errors_are_those_of_python() -> None:
    sql = sql_of("counts", limit=1)
    (condition,) = {line.strip() for line in sql.splitlines() if "WHERE code" in line}
    assert condition == "WHERE code >= 400 GROUP BY 2"
    assert is_error_status(400) and not is_error_status(399)


def test_views_stand_for_tables() -> None:
    sql = "SELECT frames FROM frames AS f JOIN sessions ON frames = 1"
    expected = "SELECT frames FROM v AS f JOIN sessions ON frames = 1"
    assert over(sql, {"frames": "v"}) == expected


def test_a_value_that_is_missing_is_refused() -> None:
    with pytest.raises(KeyError, match="limit"):
        sql_of("sessions")
