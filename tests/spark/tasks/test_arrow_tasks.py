"""What runs in workers, called here with batches as Spark gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from dissect.nats.errors import CaptureError
from dissect.nats.options import Options
from dissect.nats.output.table_folder import RUNS
from dissect.nats.partition.partitions import Partition
from dissect.nats.spark.output import PartitionWriter
from dissect.nats.spark.tasks import arrow_tasks as tasks
from dissect.nats.spark.tasks.inputs import ChunkContext, JobSpec
from dissect.nats.spark.tasks.stages import chunk_contexts

from tests.support.arrow_rows import records_of
from tests.support.partitioned import WORK, chunks_of, in_one, ordered, planned, surveyed
from tests.support.paths import CAPTURES

SAMPLE = str(CAPTURES / "core-2.15.1.pcap")


def ids(*numbers: int) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": list(numbers)})])


def rows(batches: Sequence[tuple[object, ...]], *names: str) -> Iterator[pa.RecordBatch]:
    columns = zip(*batches)
    return iter([pa.RecordBatch.from_pydict(dict(zip(names, map(list, columns))))])


def results(batches: Iterator[pa.RecordBatch]) -> list[tuple[object, ...]]:
    """The rows as tuples."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def body(value: object) -> object:
    """The result of a task."""
    assert isinstance(value, bytes)
    return tasks.body_of(value)


def test_a_function_is_called_for_each_number() -> None:
    found = results(tasks.calling(len, ["a", "bcd"])(ids(1, 0)))
    assert [(number, body(text)) for number, _, text in found] == [(1, 3), (0, 1)]


def test_an_error_of_ours_comes_back_as_a_value() -> None:
    def refuse(path: str) -> None:
        raise CaptureError(path, "it is gone")

    ((_, _, text),) = results(tasks.calling(refuse, ["a.pcap"])(ids(0)))
    with pytest.raises(CaptureError, match="a.pcap: it is gone"):
        body(text)


def test_a_survey_names_flows_and_tells_the_rest() -> None:
    found = planned([SAMPLE], 8192)
    facts, flows = surveyed(found)
    rows = results(tasks.surveying(WORK, found, {})(ids(*range(len(found)))))
    batches = [
        (number, flow, bool(state), bool(summary)) for number, flow, state, summary in rows if flow
    ]
    assert sorted(batches) == sorted(
        (number, met.flow, bool(met.state), bool(met.summary))
        for number, some in enumerate(flows)
        for met in some
    )
    assert [body(state) for _, flow, state, _ in rows if not flow] == facts


def test_a_survey_of_what_changed_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(Path(SAMPLE).read_bytes())
    found = planned([str(path)], 1 << 20)
    path.write_bytes(b"")
    ((_, _, state, _),) = results(tasks.surveying(WORK, found, {})(ids(0)))
    with pytest.raises(CaptureError, match="changed"):
        body(state)


def prepared(
    size: int, *tables: str
) -> tuple[JobSpec, list[ChunkContext], Iterator[pa.RecordBatch]]:
    """The input of a decode, made by the tasks before it."""
    found: list[Partition] = planned([SAMPLE], size)
    spec = JobSpec(frozenset(tables), Options())
    facts, flows = surveyed(found, spec)
    known = chunk_contexts(found, facts)
    chunks = chunks_of(flows)
    batches = rows(
        sorted((0, *chunk) for chunk in chunks),
        *"share partition flow following first result".split(),
    )
    inputs: list[tuple[object, ...]] = [(at, tasks.RUN, b"", b"") for at in range(len(found))]
    for number, flow, state, _ in results(tasks.stitching(spec, known)(batches)):
        inputs.append((number, tasks.STATE, flow, state))
    inputs += [(chunk.number, tasks.CONTINUING, chunk.flow, b"") for chunk in chunks]
    inputs.sort(key=lambda row: row[:2])
    return spec, known, rows(inputs, "partition", "kind", "flow", "body")


def test_reading_gives_the_rows_of_a_table() -> None:
    spec, known, inputs = prepared(8192, "frames")
    batches = tasks.reading(spec, known, "frames")(inputs)
    got = [row for batch in batches for row in records_of("frames", batch)]
    assert ordered(got) == in_one([SAMPLE], ["frames"])


def test_writing_tells_what_was_written(tmp_path: Path) -> None:
    (tmp_path / RUNS / "run").mkdir(parents=True)
    spec, known, inputs = prepared(8192, "frames", "sessions")
    whole = tasks.Decoded()
    for _, _, text in results(
        tasks.writing(spec, known, ["frames"], partial(PartitionWriter, str(tmp_path), "run"))(
            inputs
        )
    ):
        decoded = body(text)
        assert isinstance(decoded, tasks.Decoded)
        whole.add(decoded)
    frames = len(in_one([SAMPLE], ["frames"]))
    assert sum(one.rows for one in whole.written) == frames == whole.rows["frames"]
    assert whole.rows["sessions"] == len(in_one([SAMPLE], ["sessions"]))
    assert {one.table for one in whole.written} == {"frames"}
