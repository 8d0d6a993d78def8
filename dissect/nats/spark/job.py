"""One dissection in Spark, from partitions to rows.

A `TimelineJob` dissects several timelines, each in one task. A `Job` cuts one timeline into many tasks:

    survey    one task per partition           the flows of each partition
    stitch    one task per share of the flows  the state in which each flow reaches each partition
    decode    one task per partition           the rows

If few tasks with whole flows take less time (see `partition.flow_shares`), there are two stages instead:

    sample    one task per partition           the flows in some of its packets
    decode    one task per share of the flows  the rows

Only the keys, states and summaries of flows go between these stages, and no payloads. `tasks.stages` has the
code of each stage. The rows are equal to those of one process, because the same code makes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from ..kernel.load import LOADED_AFTER
from ..partition import flow_shares
from ..partition.flow_shares import FlowShares, divided
from ..partition.partitions import Partition
from ..tables import FROM_ENGINE
from .progress import Stages
from .tasks import application
from .tasks import arrow_tasks as tasks
from .tasks.inputs import (
    ChunkContext,
    Inputs,
    JobSpec,
    SharedFlows,
    Timeline,
    WholeTimelines,
)
from .tasks.stages import SurveyResult, chunk_contexts, needs_resurvey, sample
from .tasks.task_runner import RESULTS, TaskRunner, gathered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_SURVEYED = "partition long, flow binary, state binary, summary binary"
_STITCHED = "partition long, flow binary, body binary, read boolean"
_CHUNKS = "share long, partition long, flow binary, following long, first boolean, result binary"


Decode = Callable[[Inputs], tasks.Function]
"""Makes the function that decodes these inputs."""


@dataclass(slots=True)
class TimelineJob:
    """A dissection of timelines that are not cut: a task dissects some of them, one by one."""

    runner: TaskRunner
    spec: JobSpec
    timelines: Sequence[Timeline]
    stages: Stages = field(default_factory=Stages)
    has_whole_flows: ClassVar[bool] = True

    def decodes(self, table: str) -> bool:
        """Whether the decode makes the rows of a table: of every table, because a task has all frames."""
        return True

    def decoded(self, function: Decode, schema: StructType | str = RESULTS) -> DataFrame:
        """Decodes all timelines."""
        count = len(self.timelines)
        size = sum(timeline.bytes for timeline in self.timelines) // count
        rows = gathered(_runs(self.runner, count), self.runner.tasks(count, size), "partition")
        return rows.mapInArrow(function(WholeTimelines(self.timelines)), schema)


@dataclass(slots=True)
class Job:
    """A dissection of one timeline in several partitions. See `JobOptions` for `whole_flows`, and
    `api.Summary` for the counts. `is_served` is whether the kernel may make the tables of whole flows.
    """

    runner: TaskRunner
    spec: JobSpec
    partitions: Sequence[Partition]
    bytes: int
    stages: Stages = field(default_factory=Stages)
    whole_flows: bool = True
    is_served: bool = False
    shares: int = 0
    surveyed_again: int = 0
    continued: int = 0
    read_again: int = 0
    moved_bytes: int = 0
    _prepared: tuple[DataFrame, Inputs] | None = None
    _samples: list[FlowShares | None] = field(
        default_factory=list
    )  # the result, once it was sampled

    def for_tables(self, tables: Iterable[str]) -> Job:
        """A job over the same captures for other tables."""
        spec = replace(self.spec, tables=frozenset(tables))
        whole = self.whole_flows
        return Job(
            self.runner,
            spec,
            self.partitions,
            self.bytes,
            whole_flows=whole,
            _samples=self._samples,
        )

    def decodes(self, table: str) -> bool:
        """Whether the decode makes the rows of a table, because its tasks have all that the rows depend on.
        Sessions may name those of other tasks. The first call may sample."""
        if table == "sessions":
            return False
        if table in FROM_ENGINE:
            return True
        return application.is_by_session(table) and self.has_whole_flows

    @property
    def has_whole_flows(self) -> bool:
        """Whether each task dissects flows as a whole. The first call may sample."""
        return self._flow_shares() is not None

    def decoded(self, function: Decode, schema: StructType | str = RESULTS) -> DataFrame:
        """Decodes all partitions into rows. The first call samples, or surveys and stitches; later calls
        reuse the result."""
        rows, inputs = self._prepared = self._prepared or self._prepare()
        if not self.shares:  # else each share has a task already
            count = self.runner.tasks(len(self.partitions), self._size())
            rows = gathered(rows, count, "partition", "kind")
        return rows.mapInArrow(function(inputs), schema)

    def _prepare(self) -> tuple[DataFrame, Inputs]:
        if shares := self._flow_shares():
            self.shares = shares.count
            runs = _runs(self.runner, shares.count, shares.count)
            return runs, SharedFlows(self.partitions, shares)
        flows, found = self._survey()
        return self._stitch(flows, found), found

    def _flow_shares(self) -> FlowShares | None:
        """The shares of the flows, if they take less time than chunks."""
        if not self._samples:
            self._samples.append(self._sample())
        return self._samples[0]

    def _sample(self) -> FlowShares | None:
        is_packed = any(each.packed for part in self.partitions for each in part.byte_ranges)
        # How much a compressed file has in it, and how long it takes to read, is unknown.
        if not self.whole_flows or is_packed or self.bytes < flow_shares.LEAST_BYTES:
            return None
        has_kernel = self.is_served and self.bytes >= LOADED_AFTER and self.runner.have_kernel()
        costs = flow_shares.KERNEL if has_kernel else flow_shares.PYTHON
        if self.bytes > costs.most_bytes:
            return None
        with self.stages.running("sample", self.runner.spark):
            samples = self.runner.call(partial(sample, self.spec), self.partitions, self._size())
        cores = self.runner.cores
        shares = divided(cast(list[Counter[int]], samples), cores)
        return shares if shares.is_faster(min(cores, len(self.partitions)), costs) else None

    def _size(self) -> int:
        return self.bytes // max(1, len(self.partitions))

    def _survey(self) -> tuple[DataFrame, list[ChunkContext]]:
        """Surveys all partitions. Returns the surveys of their flows, and the context of each partition."""
        with self.stages.running("survey", self.runner.spark):
            count, size = len(self.partitions), self._size()
            function = tasks.surveying(self.spec, self.partitions, {})
            result = self.runner.keep(self.runner.each(count, size, function, _SURVEYED))
            facts = self._facts(result)
            while again := needs_resurvey([facts[number] for number in range(count)]):
                self.surveyed_again += len(again)
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
        """Stitches the flows. Returns the input rows of the decode."""
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
            _runs(self.runner, len(self.partitions))
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


def _runs(runner: TaskRunner, count: int, task_count: int | None = None) -> DataFrame:
    """One row per partition, share or timeline, so that each is decoded."""
    numbers = runner.spark.range(0, count, 1, task_count)
    return numbers.selectExpr(
        "id as partition", f"{tasks.RUN} as kind", "X'' as flow", "X'' as body"
    )
