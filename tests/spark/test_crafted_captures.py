"""The law with Spark, for what no sample has: subflows, tenants, tunnels, proxies, undecoded packets."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.partition import flow_shares
from dissect.nats.schema.records import FlowRecord, Record, SessionRecord
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.tables import FROM_ENGINE, TABLES

from tests.spark.test_api import written
from tests.support.crafted import CRAFTED, crafted
from tests.support.damage import pcap_bytes
from tests.support.partitioned import in_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APART_NS = 600 * 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Each capture begins minutes after the one before, so that all are one timeline of many partitions."""
    made = tmp_path_factory.mktemp("crafted")
    for number, name in enumerate(CRAFTED):
        pcap = crafted(name, 25)
        later = [replace(each, ts_ns=each.ts_ns + number * APART_NS) for each in pcap.records]
        (made / f"{number}-{name}.pcap").write_bytes(pcap_bytes(pcap.with_records(later)))
    return str(made)


@cache
def of_the_command_line(folder: str) -> list[Record]:
    return in_one([folder], list(TABLES))


# A table of a layer is a job of its own, which is the same after both.
@pytest.mark.parametrize(
    "in_shares, tables",
    [(False, [*FROM_ENGINE, "servers"]), (True, [*TABLES])],
    ids=["chunks", "whole flows"],
)
def test_crafted_captures_give_the_rows_of_the_command_line(
    spark: SparkSession,
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_shares: bool,
    tables: list[str],
) -> None:
    monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0 if in_shares else 1 << 40)
    known = [table.row for name, table in TABLES.items() if name in tables]
    expected = [row for row in of_the_command_line(folder) if type(row) in known]
    sessions = [row for row in expected if isinstance(row, SessionRecord)]
    assert {session.proxied_to for session in sessions} == {None, "hub:4222"}
    paths = {row.path for row in expected if isinstance(row, FlowRecord)}
    assert paths > {None, "vlan 10", "vlan 20", "vni 5", "key 1", "teid 7", "mpls 9", "en0"}
    out = tmp_path / "out"
    summary = dissect(spark, [folder], tables, JobOptions(chunk_size=16_000), str(out))
    assert written(out, tables) == expected
    assert summary.no_tcp and summary.chunks > 5
    assert bool(summary.shares) == in_shares != bool(summary.surveyed_again)
