"""`nats-dissect audit`: runs rules over captures or tables, and prints findings.

Exit status: 0 done; 1 a finding of `--fail-on` or worse; 2 wrong usage, a rule or an input that cannot be
used; 3 done without such a finding, but a capture was cut short or damaged; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice

from ..capture.time_range import TimeRange
from ..commands.processes import processes
from ..commands.run import Command
from ..commands.sorting import order_among
from ..errors import reason_of
from ..number_formats import copies_text, count_text
from ..output.arrow.types import leave_pandas_out
from ..output.duckdb import Loadable
from ..output.folders import ALWAYS, is_folder, lacking_text
from ..output.sink import Fault, say, sink_of, unwritable, writing
from ..output.terminal import PLAIN, terminal_of
from ..output.text.lines import input_lines
from ..output.writer import Layout
from ..schema.records import printable
from ..storage import is_uri
from .arguments import NEVER, AuditOptions
from .engines.duckdb import over_folder, over_records
from .engines.spark import on_spark
from .findings.finding import Finding
from .findings.store import SORTABLE, Store, store
from .findings.suppressions import Suppressions, load_suppressions, names_of
from .loading import loaded_records
from .output.formats import OUTPUTS, column_names
from .output.report import Report
from .run import Engine, Outcome, check_variables, columns_of, queries_of, run, tables_of
from .sigma.levels import Level
from .sigma.rule_files import load_rules
from .sigma.rules import Correlation, Detection
from .since_last import SinceLast
from .sql.compiler import compiled
from .sql.dialect import Dialect
from .sql.query import Query

_FOUND, _DAMAGED = 1, 3

_WITH_COLUMNS = ("text", "jsonl", "csv", "parquet")

# The options that apply to --list and to --explain.
_LISTED = {"listed", "captures", "rules", "output", "progress"}
_EXPLAINED = {"explain", "captures", "rules", "variables", "master", "output", "progress"}


def audit(options: AuditOptions) -> None:
    """Runs the command."""
    reading = Command("audit", replace(options, format="text"))
    if options.listed or options.explain is not None:
        _check_shown(options)
    binary = OUTPUTS[options.format].binary
    sink = sink_of(options.path, options.captures, binary, options.other_inputs)
    layout, order = _layout(options), _order(options)
    with writing(sink), reading.bar() as clear:
        rules = load_rules(options.rules)
        if options.listed or options.explain is not None:
            lines = _listed(rules) if options.listed else _explained(rules, options)
            sink.writer(lambda output: output.writelines(lines))
            return
        _check(options)
        known = _suppressions(options, rules)
        dialect = Dialect.SPARK if options.master else Dialect.DUCKDB
        queries = queries_of(rules, dialect, options.variables)
        try:
            check_variables(rules, options.variables)
        except ValueError as error:
            raise Fault(f"--var: {error}") from None
        since = None if options.since_last is None else SinceLast(options.since_last)
        between = _between(options, since)
        with _engine(options, between, reading, queries) as engine, store() as kept:
            if options.tables and not engine.tables:
                raise Fault(
                    f"{options.tables}: none of the tables that rules read; `nats-dissect spark"
                    f" CAPTURE... --out {options.tables}` makes tables"
                )
            if engine.lacking:
                say(lacking_text(options.tables or "", engine.lacking))
            outcome = run(queries, engine, kept, _reviewed(known, since))
            clear()
            if engine.copies:
                say(copies_text(engine.copies))
            findings = islice(kept.findings(*order), options.limit)
            ran = {query.rule.name: query.rule for query in queries}
            idle = outcome.not_run.keys() | outcome.unset.keys()
            shown = {name: rule for name, rule in ran.items() if name not in idle}
            report = Report(findings, kept.by_rule, shown, layout)
            sink.writer(lambda output: OUTPUTS[options.format].write(output, report))
    if since:
        _remember(since, options)
    _summarize(kept, outcome, reading, known)
    _exit(options, kept, reading)


def _check_shown(options: AuditOptions) -> None:
    """Refuses the options of an audit if rules are only shown."""
    shown = "--list" if options.listed else "--explain"
    wanted = _LISTED if options.listed else _EXPLAINED
    if options.captures:
        raise Fault(f"{shown} shows rules and reads no capture: name none")
    options.refuse(
        set(options.given) - wanted, f"{shown}, which shows rules and reads nothing else"
    )


def _check(options: AuditOptions) -> None:
    if bool(options.captures) == bool(options.tables):
        raise Fault("audit takes captures, or --tables with a folder of Parquet tables")
    if not options.tables and (options.master or options.conf):
        raise Fault(
            "--master and --conf need --tables: `nats-dissect spark` makes tables of captures"
        )
    if options.conf and not options.master:
        raise Fault("--conf needs --master")
    if options.tables:
        options.refuse_reading()
    if options.since_last is not None:
        options.refuse(("limit",), "--since-last, which shows each finding once")


def _suppressions(
    options: AuditOptions, rules: Mapping[str, Detection | Correlation]
) -> Suppressions:
    today = datetime.now(timezone.utc).date()
    if options.suppress is None:
        return Suppressions([], today)
    names = names_of([(rule.name, rule.id) for rule in rules.values()])
    return load_suppressions(options.suppress, names, today)


def _layout(options: AuditOptions) -> Layout:
    columns = None
    options.refuse_formulas()
    if options.format not in _WITH_COLUMNS:
        options.refuse(("columns",), f"--format {options.format}, whose fields are fixed")
    if options.columns is not None:
        columns = tuple(name.strip() for name in options.columns.split(","))
        for name in columns:
            if name not in column_names():
                known = ", ".join(column_names())
                raise Fault(f"--columns: findings have no column {name!r}; they have {known}")
    terminal = terminal_of(sys.stdout) if options.path is None and sys.stdout else PLAIN
    return Layout(columns, terminal, csv_safe=options.csv_safe)


def _order(options: AuditOptions) -> tuple[str, bool] | tuple[()]:
    """The column of the store to sort findings by, and whether to sort descending; empty for the default."""
    if options.sort is None:
        return ()
    if options.format == "text" and options.columns is None:
        grouped = "text grouped by rule: choose --columns or another --format"
        options.refuse(("sort",), grouped)
    try:
        return order_among(SORTABLE, options.sort, "a finding")
    except ValueError as error:
        raise Fault(f"--sort: {error}") from None


def _between(options: AuditOptions, since: SinceLast | None) -> TimeRange:
    """The times of the rows to audit: those that the user names or, with `--since-last`, all that may have
    new findings."""
    if options.tables is None or since is None or not options.between.is_all:
        return options.between if options.tables is not None else ALWAYS
    if is_uri(options.tables):
        return ALWAYS
    try:
        return since.between(options.tables)
    except OSError as error:
        raise Fault(f"{error.filename}: cannot be read: {reason_of(error)}") from None


def _reviewed(
    known: Suppressions, since: SinceLast | None
) -> Callable[[Iterable[Finding]], Iterable[Finding]]:
    """Marks suppressed findings and, with `--since-last`, leaves out those that were shown before."""
    return (lambda found: since.new(known.applied(found))) if since else known.applied


def _remember(since: SinceLast, options: AuditOptions) -> None:
    """Remembers the findings once they are written: if the process ends before, they are written again."""
    try:
        since.save()
    except OSError as error:
        raise unwritable(options.since_last or "", error) from None


@contextmanager
def _engine(
    options: AuditOptions, between: TimeRange, reading: Command, queries: Sequence[Query]
) -> Iterator[Engine]:
    tables = tables_of(queries)
    if options.tables is not None and options.master:
        with on_spark(tables, options.tables, options.master, options.conf, between) as spark:
            yield spark
        return
    if options.tables is not None:
        if not is_folder(options.tables):
            raise Fault(f"{options.tables}: no folder with tables")
        with over_folder(tables, options.tables, between=between) as engine:
            yield engine
        return
    leave_pandas_out()
    jobs, columns = processes(options), columns_of(queries)

    def source(names: Collection[str]) -> Generator[Loadable, None, None]:
        return loaded_records(
            options.captures, names, options.dissection, reading.report, jobs, columns
        )

    with over_records(tables, source, columns) as engine:
        yield engine


def _listed(rules: Mapping[str, Detection | Correlation]) -> Iterator[str]:
    width = max(map(len, rules), default=0)
    for rule in sorted(rules.values(), key=lambda one: (-one.level, one.name)):
        yield f"{rule.level.name:<13} {rule.name:<{width}} {printable(rule.title)}\n"


def _explained(
    rules: Mapping[str, Detection | Correlation], options: AuditOptions
) -> Iterator[str]:
    name = options.explain or ""
    dialect = Dialect.SPARK if options.master else Dialect.DUCKDB
    rule = rules.get(name) or next((one for one in rules.values() if one.id == name.lower()), None)
    if rule is None:
        raise Fault(f"--explain: there is no rule {name!r}; --list prints them")
    (query,) = compiled(rules, [rule.name], dialect, options.variables)
    yield f"-- {rule.name}: {printable(rule.title)} ({rule.level.name})\n"
    for text in (rule.description, rule.remedy, *rule.false_positives, *rule.references):
        if text:
            yield f"-- {printable(text)}\n"
    yield f"{query.sql};\n"


def _summarize(kept: Store, outcome: Outcome, reading: Command, known: Suppressions) -> None:
    """Prints to stderr what was found, what did not run, and what could not be read."""
    for line in (*input_lines(reading.report), *known.remarks()):
        say(line)
    not_run: dict[str, list[str]] = {}
    for rule, lacking in outcome.not_run.items():
        not_run.setdefault(" and ".join(lacking), []).append(rule)
    for tables, rules in not_run.items():
        say(f"no table {tables}: {count_text(len(rules), 'rule')} did not run: {', '.join(rules)}")
    levels = ", ".join(
        f"{kept.counts[level]} {level.name}"
        for level in sorted(Level, reverse=True)
        if kept.counts[level]
    )
    parts = [count_text(kept.counts.total(), "finding") + (f" ({levels})" if levels else "")]
    if kept.suppressed:
        parts.append(f"{kept.suppressed} suppressed")
    parts.append(f"{count_text(outcome.ran, 'rule')} ran")
    if outcome.not_run:
        parts.append(f"{len(outcome.not_run)} did not")
    for rule, names in outcome.unset.items():
        parts.append(f"{rule} needs {' '.join(f'--var {name}=...' for name in names)}")
    say("; ".join(parts))


def _exit(options: AuditOptions, kept: Store, reading: Command) -> None:
    if options.fail_on != NEVER:
        if any(level >= Level[options.fail_on] for level in kept.counts):
            sys.exit(_FOUND)
    if reading.report.damaged or reading.report.unreadable:
        sys.exit(_DAMAGED)
