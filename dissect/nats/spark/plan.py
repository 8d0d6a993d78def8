"""One dissection in Spark, from partitions to rows.

    survey    one task per partition           the flows of each partition
    stitch    one task per share of the flows  the state in which each flow reaches each partition
    decode    one task per partition           the rows

Only the keys, states and summaries of flows go between the stages, and no payloads. `tasks.stages` has the
code of each stage. The rows are equal to those of one process, because the same code makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..partition.partitions import Partition
from .progress import Stages
from .tasks import arrow_tasks as tasks
from .tasks.stages import ChunkContext, JobSpec, SurveyResult, chunk_contexts, needs_resurvey
from .tasks.task_runner import RESULTS, TaskRunner, gathered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_SURVEYED = "partition long, flow binary, state binary, summary binary"
_STITCHED = "partition long, flow binary, body binary, read boolean"
_CHUNKS = "share long, partition long, flow binary, following long, first boolean, result binary"


@dataclass(slots=True)
class Job:
    """One dissection of some partitions. For the counts see `api.Summary`."""

    runner: TaskRunner
    spec: JobSpec
    partitions: Sequence[Partition]
    bytes: int
    stages: Stages = field(default_factory=Stages)
    surveyed_again: int = 0
    continued: int = 0
    read_again: int = 0
    moved_bytes: int = 0
    _prepared: tuple[DataFrame, list[ChunkContext]] | None = None

    def decoded(
        self,
        function: Callable[[Sequence[ChunkContext]], tasks.Function],
        schema: StructType | str = RESULTS,
    ) -> DataFrame:
        """Decodes all partitions. The first call surveys and stitches; later calls reuse the result."""
        inputs, found = self._prepared = self._prepared or self._prepare()
        inputs = gathered(
            inputs, self.runner.tasks(len(self.partitions), self._size()), "partition", "kind"
        )
        return inputs.mapInArrow(function(found), schema)

    def _prepare(self) -> tuple[DataFrame, list[ChunkContext]]:
        if len(self.partitions) == 1:
            return self._runs(), [ChunkContext(self.partitions[0])]
        flows, found = self._survey()
        return self._stitch(flows, found), found

    def _size(self) -> int:
        return self.bytes // max(1, len(self.partitions))

    def _runs(self) -> DataFrame:
        """One row per partition, so that each is decoded."""
        numbers = self.runner.spark.range(len(self.partitions))
        return numbers.selectExpr(
            "id as partition", f"{tasks.RUN} as kind", "X'' as flow", "X'' as body"
        )

    def _survey(self) -> tuple[DataFrame, list[ChunkContext]]:
        """Surveys all partitions. Returns the surveys of their flows, and the context of each partition."""
        with self.stages.running("survey", self.runner.spark):
            count, size = len(self.partitions), self._size()
            function = tasks.surveying(self.spec, self.partitions, {})
            result = self.runner.keep(self.runner.each(count, size, function, _SURVEYED))
            facts = self._facts(result)
            fragments: dict[int, bytes] = {}
            while again := needs_resurvey([facts[number] for number in range(count)]):
                self.surveyed_again += len(again)
                fragments.update(again)
                function = tasks.surveying(self.spec, self.partitions, again)
                numbers = self.runner.numbers(list(again), size, function, _SURVEYED)
                again_surveyed = self.runner.keep(numbers)
                facts.update(self._facts(again_surveyed))
                result = result.where(~result.partition.isin(list(again))).unionByName(
                    again_surveyed
                )
        return result, chunk_contexts(self.partitions, [facts[number] for number in range(count)])

    def _facts(self, result: DataFrame) -> dict[int, SurveyResult]:
        facts: dict[int, SurveyResult] = {}
        for row in result.where("flow = X''").collect():
            fact = tasks.body_of(row.state)
            assert isinstance(fact, SurveyResult)
            facts[int(row.partition)] = fact
        return facts

    def _stitch(self, result: DataFrame, found: list[ChunkContext]) -> DataFrame:
        """The input rows of the decode."""
        with self.stages.running("stitch", self.runner.spark):
            shares = self.runner.cores
            surveys = result.where("flow <> X''").selectExpr(
                f"crc32(flow) % {shares} as share", "partition", "flow", "state", "summary"
            )
            linked = gathered(surveys, shares, "share", "flow", "partition")
            chunks = self.runner.keep(linked.mapInArrow(tasks.linking(), _CHUNKS))
            rows = chunks.sortWithinPartitions("share", "partition")
            states = self.runner.keep(rows.mapInArrow(tasks.stitching(self.spec, found), _STITCHED))
            self._count(chunks, states)
        continuing = chunks.selectExpr("partition", "flow", "X'' as body")
        return (
            self._runs()
            .unionByName(_kind(states, tasks.STATE))
            .unionByName(_kind(continuing, tasks.CONTINUING))
        )

    def _count(self, chunks: DataFrame, states: DataFrame) -> None:
        size = "coalesce(sum(length(flow) + length({})), 0) as bytes"
        (came,) = chunks.selectExpr("count(*) as rows", size.format("result")).collect()
        (went,) = states.selectExpr("count_if(read) as read", size.format("body")).collect()
        self.continued, self.read_again = int(came.rows), int(went.read)
        self.moved_bytes = int(came.bytes) + int(went.bytes)


def _kind(frame: DataFrame, kind: int) -> DataFrame:
    return frame.selectExpr("partition", f"{kind} as kind", "flow", "body")
