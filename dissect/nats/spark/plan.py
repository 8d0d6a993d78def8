"""One dissection in Spark, from stretches to rows.

    survey    one task a stretch         which flows it has
    stitch    one a share of the flows   the state in which each flow comes to each stretch
    decode    one a stretch              the rows

Between them go names of flows and their states, never payloads. What each does is in `stages`; rows are
those of the single-machine dissector, since its stages make them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..partition.partitions import Partition
from . import arrow_tasks as tasks
from .executor import TOLD, Runner, gathered
from .progress import Stages
from .stages import ChunkContext, SurveyResult, Work, needs_resurvey, parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_SURVEYED = "stretch long, flow binary, state binary, summary binary"
_STITCHED = "stretch long, flow binary, body binary, read boolean"
_CHUNKS = "share long, stretch long, flow binary, following long, first boolean, told binary"


@dataclass(slots=True)
class Job:
    """One dissection: what is wanted of which stretches. The counts are those of `api.Summary`."""

    runner: Runner
    work: Work
    stretches: Sequence[Partition]
    bytes: int
    stages: Stages = field(default_factory=Stages)
    surveyed_again: int = 0
    visits: int = 0
    read_again: int = 0
    moved_bytes: int = 0
    _prepared: tuple[DataFrame, list[ChunkContext]] | None = None

    def decoded(
        self,
        function: Callable[[Sequence[ChunkContext]], tasks.Function],
        schema: StructType | str = TOLD,
    ) -> DataFrame:
        """The decode of all stretches. The first call surveys and stitches; later ones reuse that."""
        inputs, found = self._prepared = self._prepared or self._prepare()
        inputs = gathered(
            inputs, self.runner.tasks(len(self.stretches), self._size()), "stretch", "kind"
        )
        return inputs.mapInArrow(function(found), schema)

    def _prepare(self) -> tuple[DataFrame, list[ChunkContext]]:
        if len(self.stretches) == 1:
            return self._runs(), [ChunkContext(self.stretches[0])]
        flows, found = self._survey()
        return self._stitch(flows, found), found

    def _size(self) -> int:
        return self.bytes // max(1, len(self.stretches))

    def _runs(self) -> DataFrame:
        """A row for each stretch, so that each is decoded."""
        numbers = self.runner.spark.range(len(self.stretches))
        return numbers.selectExpr(
            "id as stretch", f"{tasks.RUN} as kind", "X'' as flow", "X'' as body"
        )

    def _survey(self) -> tuple[DataFrame, list[ChunkContext]]:
        """What each stretch has, and what each needs to know of the others."""
        with self.stages.running("survey", self.runner.spark):
            count, size = len(self.stretches), self._size()
            function = tasks.surveying(self.work, self.stretches, {})
            told = self.runner.keep(self.runner.each(count, size, function, _SURVEYED))
            facts = self._facts(told)
            fragments: dict[int, bytes] = {}
            while again := needs_resurvey([facts[number] for number in range(count)]):
                self.surveyed_again += len(again)
                fragments.update(again)
                function = tasks.surveying(self.work, self.stretches, again)
                numbers = self.runner.numbers(list(again), size, function, _SURVEYED)
                anew = self.runner.keep(numbers)
                facts.update(self._facts(anew))
                told = told.where(~told.stretch.isin(list(again))).unionByName(anew)
        return told, parts(self.stretches, [facts[number] for number in range(count)])

    def _facts(self, told: DataFrame) -> dict[int, SurveyResult]:
        facts: dict[int, SurveyResult] = {}
        for row in told.where("flow = X''").collect():
            fact = tasks.body_of(row.state)
            assert isinstance(fact, SurveyResult)
            facts[int(row.stretch)] = fact
        return facts

    def _stitch(self, told: DataFrame, found: list[ChunkContext]) -> DataFrame:
        """The rows that the decode takes."""
        with self.stages.running("stitch", self.runner.spark):
            shares = self.runner.cores
            surveys = told.where("flow <> X''").selectExpr(
                f"crc32(flow) % {shares} as share", "stretch", "flow", "state", "summary"
            )
            linked = gathered(surveys, shares, "share", "flow", "stretch")
            visits = self.runner.keep(linked.mapInArrow(tasks.linking(), _CHUNKS))
            rows = visits.sortWithinPartitions("share", "stretch")
            states = self.runner.keep(rows.mapInArrow(tasks.stitching(self.work, found), _STITCHED))
            self._count(visits, states)
        leaving = visits.selectExpr("stretch", "flow", "X'' as body")
        return (
            self._runs()
            .unionByName(_kind(states, tasks.STATE))
            .unionByName(_kind(leaving, tasks.LEAVING))
        )

    def _count(self, visits: DataFrame, states: DataFrame) -> None:
        size = "coalesce(sum(length(flow) + length({})), 0) as bytes"
        (came,) = visits.selectExpr("count(*) as rows", size.format("told")).collect()
        (went,) = states.selectExpr("count_if(read) as read", size.format("body")).collect()
        self.visits, self.read_again = int(came.rows), int(went.read)
        self.moved_bytes = int(came.bytes) + int(went.bytes)


def _kind(frame: DataFrame, kind: int) -> DataFrame:
    return frame.selectExpr("stretch", f"{kind} as kind", "flow", "body")
