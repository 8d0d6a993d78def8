"""One list of options, on every surface: each takes every value as an object and as a text, refuses every
wrong value in the same words, or says by name why it has no such option and what to do instead."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from dissect.nats import Options, Payload, frames, records, table
from dissect.nats.audit.arguments import AuditOptions
from dissect.nats.audit.libraries import check_libraries
from dissect.nats.cli import cli
from dissect.nats.commands.arguments import INPUT, GroupedCommand, takes
from dissect.nats.commands.captures.slice import SliceOptions
from dissect.nats.commands.captures.split import SplitOptions
from dissect.nats.commands.command_options import (
    CommandOptions,
    FactOptions,
    ReportOptions,
    ServerOptions,
    SessionOptions,
)
from dissect.nats.commands.top.options import TopOptions
from dissect.nats.errors import DissectError
from dissect.nats.option_types import declared
from dissect.nats.spark.options.arguments import JobArguments
from dissect.nats.spark.options.job_options import JobOptions, read_options
from dissect.nats.spark.options.settings import Settings, settings_of
from natsync.protocol import Kind

from tests.support.paths import CAPTURES

CORE = str(CAPTURES / "core-2.15.1.pcap")
KEYS = str(CAPTURES / "tls-keys-2.15.1.keylog")


class Case(NamedTuple):
    """Values of an option that mean the same, as objects and as texts, and wrong texts."""

    same: tuple[object, ...]
    texts: tuple[str, ...]
    wrong: tuple[str, ...]


CASES = {
    "port": Case(
        ({4222: Kind.CLIENT, 7222: "leafnode"}, ["4222=client", "7222=leafnode"]),
        ("4222=client,7222=leafnode", " 4222=client , 7222=leafnode"),
        ("4222", "0=client", "65536=client", "4222=server", "x=client", ""),
    ),
    "payload": Case((Payload.TEXT,), ("text",), ("hex", "", "TEXT")),
    "redact": Case((False,), ("false", "False"), ("no", "")),
    "from_time": Case((), ("1.5", "1.500"), ("soon", "-1", "", "1.5s", "tomorrow")),
    "until_time": Case(
        (), ("2026-11-21T02:01:00Z", "2026-11-21 02:01", "@1795226460"), ("2026-13-01", "5 o'clock")
    ),
    "kind": Case(
        ([Kind.ROUTE, "gateway"], {"gateway", "route"}),
        ("route,gateway", "gateway, route"),
        ("router", "client,x", ""),
    ),
    "separate": Case((True,), ("true", "TRUE"), ("yes", "1", "")),
    "keylog": Case((Path(KEYS), [KEYS], (Path(KEYS),)), (KEYS,), ()),
    "gap_seconds": Case(
        (0.5, timedelta(seconds=0.5)), ("0.5", "500ms", "5e-1"), ("-1", "nan", "x")
    ),
    "max_stream_bytes": Case((1 << 16,), ("65536", "64k", "64KiB"), ("1023", "64x", "-1", "")),
    "max_held_bytes": Case((1 << 30,), ("1G", "1024M"), ("1k-", "5", "1.5M")),
    "max_flows": Case((7,), ("7",), ("0", "-3", "1.5", "many", "9" * 5000)),
    "idle_seconds": Case((300, 300.0), ("300", "5m", "5min"), ("0", "2 weeks", "1e10", "inf")),
    "max_expanded": Case((8 << 30,), ("8G", "8192M"), ("8X", "-1")),
}


def from_click(kind: type[CommandOptions], values: Mapping[str, Any]) -> Options:
    """What a command makes of texts."""
    seen: list[Options] = []

    @click.command(cls=GroupedCommand)
    @takes(kind, "payload", *INPUT, arguments="[CAPTURE...]")
    def command(options: CommandOptions) -> None:
        seen.append(options.dissection)

    arguments = []
    for name, value in values.items():
        opt = declared(Options)[name]
        if not opt.form.metavar:
            arguments.append(opt.flag(name))
        else:
            arguments.append(f"{opt.flag(name)}={value}")
    done = CliRunner().invoke(command, arguments)
    if done.exit_code:
        raise ValueError(done.stderr)
    return seen[0]


def from_source(values: Mapping[str, str]) -> Options:
    return settings_of({"path": CORE, **values}).options


def from_read(values: Mapping[str, object]) -> Options:
    return read_options(values).options


def from_python(values: Mapping[str, Any]) -> Options:
    return Options(**values)


COMMANDS = (
    *(CommandOptions, FactOptions, SessionOptions, ServerOptions, TopOptions, SliceOptions),
    *(ReportOptions, AuditOptions, JobArguments),
)
Surface = Callable[[Mapping[str, Any]], Options]
OBJECTS: dict[str, Surface] = {"Options": from_python, "read": from_read}
TEXTS: dict[str, Surface] = {
    **OBJECTS,
    "nats-capture": from_source,
    **{kind.__name__: partial(from_click, kind) for kind in COMMANDS},
}


def test_the_list_has_every_option() -> None:
    assert list(CASES) == list(declared(Options))


@pytest.mark.parametrize("name", CASES)
def test_every_surface_reads_objects_and_texts_as_the_same_value(name: str) -> None:
    case = CASES[name]
    values = [place({name: value}) for place in OBJECTS.values() for value in case.same]
    values += [place({name: text}) for place in TEXTS.values() for text in case.texts]
    assert len(values) >= len(TEXTS) and all(value == values[0] for value in values)
    assert values[0] != Options()


@pytest.mark.parametrize("name", CASES)
def test_every_surface_refuses_a_wrong_value_in_the_same_words(name: str) -> None:
    opt = declared(Options)[name]
    for wrong in CASES[name].wrong:
        words = f"must be {opt.form.expected}, not {wrong!r}"
        for surface, place in TEXTS.items():
            if not opt.form.metavar and place not in (*OBJECTS.values(), from_source):
                continue  # a flag has no value
            with pytest.raises((ValueError, DissectError)) as caught:
                place({name: wrong})
            found = " ".join(str(caught.value).split())
            assert found.endswith(" ".join(words.split())), surface
            named = opt.flag(name) if place not in (*OBJECTS.values(), from_source) else name
            assert named in found


def test_every_surface_refuses_a_range_of_time_without_packets() -> None:
    for surface, place in TEXTS.items():
        with pytest.raises(
            (ValueError, DissectError), match="is not before .*: no packet can match"
        ):
            place({"from_time": "5", "until_time": "2"})
            pytest.fail(surface)


def test_python_functions_take_every_option_by_name() -> None:
    for name, case in CASES.items():
        value = (*case.same, *case.texts)[0]
        for source in (
            frames(CORE, **{name: value}),
            table(CORE, "kv", Options(**{name: value})),
            table(CORE, "kv", **{name: value}),
        ):
            source.close()
        records(CORE, "frames", **{name: value}).close()
        for wrong in case.wrong:
            with pytest.raises(ValueError, match=f"^{name} must be "):
                records(CORE, "frames", **{name: wrong})
    texts = [row.payload for row in frames(CORE, payload="text") if row.payload]
    assert texts == [row.payload for row in frames(CORE, Options(payload="text")) if row.payload]
    assert texts and list(frames(CORE, Options(payload="text"), kind="route")) == []


def test_the_audit_takes_options_by_name() -> None:
    pytest.importorskip("duckdb")
    check_libraries()
    from dissect.nats.audit import audit

    assert list(audit(CORE, kind="route")) == []
    with pytest.raises(ValueError, match="^max_flows must be a whole number, 1 or more, not 0$"):
        audit(CORE, max_flows=0)
    with pytest.raises(TypeError, match="^audit has no option 'jobs'; one process makes the rows"):
        audit(CORE, jobs=3)


# What commands have beside the options of a dissection, and where rows are objects or a DataFrame.
FOR_ROWS = ("columns", "format", "jobs", "limit", "output", "sort", "where")


def test_keywords_that_a_place_does_not_have_say_what_to_do_instead() -> None:
    python = partial(records, CORE, "frames")
    places: dict[str, Callable[..., object]] = {
        "records": python,
        "read": lambda **values: read_options(values),
        "nats-capture": lambda **values: settings_of({"path": CORE, **values}),
    }
    known = {
        "records": declared(Options),
        "read": {**declared(Options), **declared(JobOptions)},
        "nats-capture": {**declared(Options), **declared(Settings)},
    }
    for place, call in places.items():
        for name in {*FOR_ROWS, "chunk_size", "progress"} - known[place].keys():
            with pytest.raises((TypeError, DissectError)) as caught:
                call(**{name: "1"})
            text = str(caught.value)
            assert text.startswith(f"{place} has no option '{name}'; ") and "there are" not in text
        with pytest.raises((TypeError, DissectError)) as caught:
            call(nothing="1")
        listed = re.sub("^.*; there are ", "", str(caught.value)).split(", ")
        assert listed == sorted(known[place])


def test_every_command_takes_an_option_or_refuses_it_by_name() -> None:
    """An option of any command, given to each other one, is an error with its flag, and a reason."""
    kinds = (*COMMANDS, SplitOptions)
    every = {flag for kind in kinds for flag in _flags(kind)}
    for name, command in cli.commands.items():
        taken = {flag for param in command.params for flag in param.opts if not _hidden(param)}
        for flag in sorted(every - taken):
            done = CliRunner().invoke(cli, [name, flag, "1", CORE])
            assert done.exit_code == 2 and done.stderr.count("\n") == 1, (name, flag)
            assert done.stderr.startswith(
                (f"nats-dissect: {name} has no option {flag}; ", f"nats-dissect: {flag}: ")
            )


def _flags(kind: type[CommandOptions]) -> list[str]:
    return [opt.flag(name) for name, opt in {**declared(kind), **declared(Options)}.items()]


def _hidden(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.hidden


def test_options_of_the_command_line_have_one_meaning_each(tmp_path: Path) -> None:
    """The rows of a command, and of the same options in Python."""
    done = CliRunner().invoke(
        cli,
        [
            "frames",
            "--format",
            "jsonl",
            "--kind",
            "client",
            "--from",
            "0.5",
            "--max-flows",
            "3",
            CORE,
        ],
    )
    numbers = [json.loads(line)["number"] for line in done.stdout.splitlines()]
    again = [row.number for row in frames(CORE, kind="client", from_time="0.5", max_flows="3")]
    assert numbers == again and again
