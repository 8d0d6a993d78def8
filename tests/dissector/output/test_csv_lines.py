"""Records as CSV: values, control characters, and cells that spreadsheets take for formulas."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.output.csv_lines import Csv, csv_line, query_cell, safe_cells
from dissect.nats.output.writer import Layout

from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.records import frame_record


def written(*columns: str, safe: bool = False, subject: str | None = None) -> str:
    row = frame_record()
    row.subject = subject or row.subject
    form = Csv().table("frames", Layout(columns, csv_safe=safe))
    output = io.StringIO()
    form.writer(output).write([form.render(row)])
    return output.getvalue()


def test_absent_values_are_empty_and_maps_are_json() -> None:
    columns = ["capture", "reply", "headers", "number"]
    rows = list(csv.reader(io.StringIO(written(*columns))))
    assert rows == [columns, ["c,1", "", '{"A":["1","2"]}', "1"]]


def test_a_carriage_return_is_no_new_row() -> None:
    assert written("subject", subject="a\rb\nc") == 'subject\n"a\rb\nc"\n'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\x9bb\x85c", "a\\x9bb\\x85c"),
        ("a\x7fb", "a\\x7fb"),
        ("a\u202eb\u2066c\u0416", "a\\u202eb\\u2066c\u0416"),
        ("a\tb", "a\tb"),
    ],
)
def test_what_commands_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert written("subject", subject=text) == f"subject\n{shown}\n"


@pytest.mark.parametrize("start", "=+-@")
def test_formulas_are_texts_when_that_is_asked_for(start: str) -> None:
    text = f"{start}1+1"
    assert written("subject", subject=text) == f"subject\n{text}\n"
    assert written("subject", subject=text, safe=True) == f"subject\n'{text}\n"


def test_numbers_are_no_formulas() -> None:
    assert safe_cells([-5, -1.5, None, "-5", "a-b"]) == [-5, -1.5, None, "'-5", "a-b"]


def test_values_of_queries_as_cells() -> None:
    values = [None, "x", 1, 1.5, True, ["a"], {"b": 1}]
    assert [query_cell(value) for value in values] == [
        None,
        "x",
        1,
        1.5,
        "true",
        '["a"]',
        '{"b":1}',
    ]
    assert csv_line([None, 1, 1.5]) == ",1,1.5\n"


def test_a_cell_of_json_can_be_parsed() -> None:
    names = {"a\x7fb\x9bc\u202ed\udc80": 1}
    (cell,) = next(csv.reader([csv_line([query_cell(names)])]))
    assert json.loads(cell) == names


def test_cells_of_json_of_a_connection_can_be_parsed(tmp_path: Path) -> None:
    name = "a\x7fb\x9bc"
    connect = b'CONNECT {"name":"' + name.encode() + b'"}\r\nPING\r\n'
    talk = Conversation().handshake().from_server(b'INFO {"server_id":"S"} \r\n')
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(talk.from_client(connect).close().records))
    for args in (["frames"], ["sql", "SELECT op, json FROM frames"]):
        done = CliRunner().invoke(cli, [*args, "--format", "csv", str(path)])
        found = {row["op"]: row["json"] for row in csv.DictReader(io.StringIO(done.stdout))}
        assert json.loads(found["CONNECT"]) == {"name": name}
