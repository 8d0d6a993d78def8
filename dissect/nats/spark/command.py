"""`nats-dissect spark`: starts a session, runs the job, and prints its summary.

Exit status: 0 done; 2 wrong usage, or Spark, an input or the output cannot be used; 3 done, but a capture
was cut short or damaged; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from ..capture import CaptureReport
from ..capture.files import size_and_mtime
from ..number_formats import count_text, duration_text, size_text
from ..output.sink import say, sink_of, writing
from ..output.text.lines import passed_over_text
from ..partition.byte_ranges import captures
from ..storage import is_uri
from ..tables import TABLES
from .api import Summary, dissect
from .delta import DeltaSink, is_delta, with_folder
from .iceberg import IcebergSink, is_iceberg
from .options.arguments import JobArguments
from .options.job_options import JobOptions
from .options.settings import absolute
from .output import Folder
from .progress import wants_progress
from .submit import check_libraries, session

_DAMAGED = 3
_NAMED = 10  # most files that are named because they are no captures


def run_job(arguments: JobArguments) -> None:
    """Runs the job, prints its summary to stderr, and exits with status 3 unless everything was read."""
    summary_path = None if arguments.summary == "-" else arguments.summary
    sink = sink_of(summary_path, arguments.captures, others=arguments.other_inputs)
    paths = [absolute(path) for path in arguments.captures]
    out = _absolute_out(arguments.out)
    tables = tuple(dict.fromkeys(arguments.tables))
    with writing(sink):
        _check(paths, out, tables)
        with session(arguments.master, arguments.conf) as spark:
            options = JobOptions(options=arguments.dissection, chunk_size=arguments.chunk_size)
            progress = wants_progress(arguments.progress)
            summary = dissect(spark, paths, tables, options, out, progress)
        if arguments.summary is not None:
            sink.writer(lambda output: output.write(json.dumps(summary.values(), indent=2) + "\n"))
    for line in lines(summary, arguments.out):
        say(line)
    if summary.is_damaged:
        sys.exit(_DAMAGED)


def _absolute_out(out: str) -> str:
    if is_iceberg(out):
        return out
    return with_folder(out, absolute) if is_delta(out) else absolute(out)


def _kernel_text(summary: Summary) -> str:
    """What the kernel decoded, and why not the rest."""
    parts = summary.with_kernel + sum(summary.without_kernel.values())
    text = f"the kernel decoded {summary.with_kernel} of {count_text(parts, 'part')}"
    reasons = [f"{why} ({count})" for why, count in summary.without_kernel.items()]
    return f"{text}, Python alone the others: {'; '.join(reasons)}" if reasons else text


def _check(paths: Sequence[str], out: str, tables: Sequence[str]) -> None:
    """Checks local inputs and the output before Spark starts, which takes seconds."""
    check_libraries()
    for path in captures([path for path in paths if not is_uri(path)], CaptureReport()):
        size_and_mtime(path)
    if is_iceberg(out):
        IcebergSink(out, [], tables)
    elif is_delta(out):
        DeltaSink(out, [], tables)
    elif not is_uri(out):
        Folder(out).check()


def lines(summary: Summary, out: str) -> Iterator[str]:
    """The summary of a job as lines of text."""
    yield from summary.warnings
    yield from summary.damaged
    yield from summary.unreadable
    rows = ", ".join(
        count_text(count, TABLES[table].singular) for table, count in summary.rows.items()
    )
    yield f"{rows} in {out}"
    read = f"{count_text(summary.packets, 'packet')} ({size_text(summary.bytes)})"
    yield (
        f"read {read} of {count_text(summary.files, 'file')} in {count_text(summary.chunks, 'chunk')};"
        f" starts guessed wrong: {summary.wrong_starts}"
    )
    yield from summary.passed_over[:_NAMED]
    if len(summary.passed_over) > _NAMED:
        others = passed_over_text(summary.passed_over)
        yield f"{others}, {_NAMED} of them named here; --summary names all"
    if summary.with_kernel or summary.without_kernel:
        yield _kernel_text(summary)
    if summary.shares > 1:
        tasks = count_text(summary.shares, "task")
        yield f"flows were divided among {tasks}, each of which read all packets"
    if summary.continued:
        again = count_text(summary.read_again, "time")
        yield (
            f"flows went on into another chunk {count_text(summary.continued, 'time')}, and were read again"
            f" {again}; {size_text(summary.moved_bytes)} moved between tasks"
        )
    if summary.no_tcp:
        reasons = ", ".join(f"{reason} {count}" for reason, count in summary.no_tcp.items())
        yield f"packets passed over: {reasons}"
    if summary.missing_bytes or summary.skipped_bytes:
        lost, left = size_text(summary.missing_bytes), size_text(summary.skipped_bytes)
        yield f"missing {lost}, skipped {left}"
    times = {stage: duration_text(round(s * 1e9)) for stage, s in summary.seconds.items()}
    yield ", ".join(f"{stage} {time}" for stage, time in times.items())
