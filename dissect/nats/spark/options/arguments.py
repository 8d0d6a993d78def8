"""The options of `nats-dissect spark`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from ...commands.command_options import CommandOptions
from ...option_types import Opt, OptionGroup, flag, one_of, pairs, several, text
from ...tables import TABLES
from .job_options import CHUNK_BYTES, CHUNK_SIZE

_SETTINGS = pairs("K=V", "spark.executor.memory=4g", begin="spark.")
CONF = Opt(OptionGroup.SPARK, _SETTINGS, "A setting of Spark; repeatable.")

REFUSED = {
    "sort": "the files of a table have no order; sort where you read them, as with ORDER BY",
    "where": "a job writes all rows; choose some where you read them, as with WHERE",
    "limit": "a job writes all rows; choose some where you read them, as with LIMIT",
    "columns": "a job writes all columns; choose some where you read them",
    "format": "a job writes Parquet",
    "output": "a job writes a folder: --out DIR",
    "jobs": "each core runs a task; --master 'local[N]' sets the number of cores",
}
"""Options of other commands, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArguments(CommandOptions):
    """Captures and options of a job."""

    out: Annotated[
        str,
        "The output folder, with one folder per table; tables of an earlier job are replaced. Or a namespace"
        " of Iceberg, as iceberg:CATALOG.NAMESPACE, or a folder of Delta tables, as delta:FOLDER; in both,"
        " only rows of the same captures are replaced.",
        Opt(OptionGroup.OUTPUT, text("DIR"), required=True),
    ] = ""
    tables: Annotated[
        tuple[str, ...],
        f"Which tables to write. There are {', '.join(TABLES)}.",
        Opt(
            OptionGroup.OUTPUT,
            several(one_of(TABLES), "A,B"),
            default="frames,sessions",
            common=True,
        ),
    ] = ("frames", "sessions")
    progress: Annotated[
        bool | None,
        "Show the progress of each stage on stderr; by default at a terminal.",
        Opt(OptionGroup.OUTPUT, flag(), flags=("--progress/--no-progress",)),
    ] = None
    summary: Annotated[
        str | None,
        "Also write the summary as JSON; - is standard output.",
        Opt(OptionGroup.OUTPUT, text("FILE")),
    ] = None
    master: Annotated[
        str | None,
        "The cluster: spark://HOST:PORT, yarn, local[4] ...; by default this machine.",
        Opt(OptionGroup.SPARK, text("URL"), common=True),
    ] = None
    conf: Annotated[Mapping[str, str], CONF] = field(default_factory=dict)
    chunk_size: Annotated[int, CHUNK_SIZE] = CHUNK_BYTES
