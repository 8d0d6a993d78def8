"""One dissection in Spark, from stretches to rows.

    survey    one task a stretch         which flows it has
    stitch    one a share of the flows   the state in which each flow comes to each stretch
    decode    one a stretch              the rows

Between them go names of flows and their states, never payloads. What each does is in `stages`; rows are
those of the single-machine dissector, since its stages make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from ..partition.partitions import Partition
from . import arrow_tasks as tasks
from .executor import TOLD, Runner, gathered
from .stages import ChunkContext, SurveyResult, Work, needs_resurvey, parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_SURVEYED = "stretch long, flow binary, state binary, stride binary"
_STITCHED = "stretch long, flow binary, body binary, read boolean"
_VISIT = ("share", "stretch", "flow", "following", "first", "told")


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Notes the seconds of a stage when it is done."""
    began = monotonic()
    yield
    seconds[stage] = monotonic() - began


@dataclass(slots=True)
class Job:
    """One dissection: what is wanted of which stretches. `seconds` are those of the stages that are done;
    the counts are those of `jobs.Summary`."""

    runner: Runner
    work: Work
    stretches: Sequence[Partition]
    bytes: int
    seconds: dict[str, float] = field(default_factory=dict)
    surveyed_again: int = 0
    visits: int = 0
    read_again: int = 0
    moved_bytes: int = 0

    def decoded(
        self,
        function: Callable[[Sequence[ChunkContext]], tasks.Function],
        schema: StructType | str = TOLD,
    ) -> DataFrame:
        """What the decode of all stretches gives; the stages before it are done meanwhile."""
        count = len(self.stretches)
        if count == 1:
            found = [ChunkContext(self.stretches[0])]
            inputs = self._runs()
        else:
            flows, found = self._survey()
            inputs = self._stitch(flows, found)
        size = self._size()
        inputs = gathered(inputs, self.runner.tasks(count, size), "stretch", "kind")
        return inputs.mapInArrow(function(found), schema)

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
        with timed(self.seconds, "survey"):
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
        with timed(self.seconds, "stitch"):
            shares = self.runner.cores
            visits = self.runner.keep(
                told.where("flow <> X''")
                .repartition(4 * shares, "flow")
                .selectExpr(
                    f"crc32(flow) % {shares} as share",
                    "stretch",
                    "flow",
                    "lead(stretch) over (partition by flow order by stretch) as following",
                    "row_number() over (partition by flow order by stretch) = 1 as first",
                    "state",
                    "stride",
                )
                .where("following is not null")
                .selectExpr(*_VISIT[:-1], "if(first, state, stride) as told")
            )
            rows = gathered(visits, shares, "share", "stretch")
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
