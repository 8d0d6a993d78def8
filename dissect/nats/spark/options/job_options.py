"""The options of a job as one value, also made from the named arguments of `read` and `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from ...errors import SparkError
from ...option_types import Opt, OptionGroup, byte_size, declared, flag, unknown
from ...options import Options

CHUNK_BYTES = 128 << 20
CHUNK_SIZE = Opt(
    OptionGroup.SPARK,
    byte_size(4096),
    "The approximate size of the part of a capture that one task reads.",
)

INSTEAD = {
    "columns": "choose columns of the DataFrame: .select(COLUMN, ...)",
    "format": "a DataFrame has none until it is written: .write.parquet(PATH)",
    "jobs": "each core of the Spark session runs a task: .master('local[4]')",
    "limit": "limit the DataFrame: .limit(N)",
    "output": "write the DataFrame: .write.parquet(PATH)",
    "sort": "a DataFrame has no order until it is sorted: .orderBy(COLUMN)",
    "where": "filter the DataFrame: .where(CONDITION)",
}
"""Options of the command line, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a job. `chunk_size` is the approximate size of a partition, in bytes or as a text. With
    `whole_flows`, tasks may read all packets and dissect whole flows, if that takes less time. `progress` is
    whether stderr shows the progress of each stage, by default at a terminal and in a notebook."""

    options: Options = field(default_factory=Options)
    chunk_size: Annotated[int, CHUNK_SIZE] = CHUNK_BYTES
    progress: Annotated[
        bool | None, "Show the progress of each stage on stderr.", Opt(OptionGroup.OUTPUT, flag())
    ] = field(default=None, compare=False)
    whole_flows: bool = True

    def __post_init__(self) -> None:
        for name, opt in declared(JobOptions).items():
            object.__setattr__(self, name, opt.read(name, getattr(self, name)))


def read_options(values: Mapping[str, object]) -> JobOptions:
    """The options of `read` and `plan`. Raises SparkError for an unknown or invalid one."""
    taken = {*declared(Options), *declared(JobOptions)}
    for name in values.keys() - taken:
        raise SparkError(*unknown("read", name, taken, INSTEAD))
    own = declared(JobOptions)
    job = {name: values[name] for name in own if values.get(name) is not None}
    dissection = {name: value for name, value in values.items() if name not in own}
    try:
        return JobOptions(options=Options(**dissection), **job)  # type: ignore[arg-type]  # checked there
    except (TypeError, ValueError) as error:
        raise SparkError(str(error)) from None
