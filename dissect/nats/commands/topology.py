"""`servers --graph` and `servers --format dot`: servers and the links between them, as text or for Graphviz.

    cluster east
      n1  2 clients
        route n2

A link that both ends show is one edge of the graph. Names come from the wire: they are quoted, and terminal
control characters in them are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from ..application.servers import ServerRecord
from ..number_formats import count_text
from ..output.sink import say
from ..output.text.lines import totals
from ..output.writer import LineWriter, OutputFormat
from ..schema.records import Record, printable
from .rows import rows_of
from .run import Command, RenderedRows, print_chunks

_COLOURS = {"route": "black", "gateway": "blue", "leafnode": "darkgreen"}


def print_topology(run: Command, dot: bool) -> None:
    """Prints the servers that the captures show and their links."""

    run.options.refuse(
        ("format", "columns", "sort", "limit", "csv_safe", "jobs"), "a graph, which has no rows"
    )

    def chunks() -> Iterator[RenderedRows]:
        servers = [*rows_of(run.table, run.options, run.report)]
        if not servers:
            say(totals(run.table, 0, 0, run.report, run.options.filters))
        yield RenderedRows([*(dot_text(servers) if dot else graph_text(servers))])

    print_chunks(run, OutputFormat(str, LineWriter), chunks(), silent=True)


def graph_text(rows: Iterable[Record]) -> Iterator[str]:
    """The servers of each cluster, with their links, as indented lines."""
    for cluster, servers in _clusters(rows):
        yield f"cluster {printable(cluster)}\n" if cluster else "no cluster\n"
        for server in servers:
            clients = f"  {count_text(server.clients, 'client')}" if server.clients else ""
            yield f"  {printable(_name(server))}{clients}\n"
            yield from (f"    {printable(link)}\n" for link in server.links or ())


def dot_text(rows: Iterable[Record]) -> Iterator[str]:
    """The same in the DOT language (https://graphviz.org/doc/info/lang.html)."""
    yield "graph servers {\n"
    edges: dict[tuple[str, str, str], None] = {}
    for number, (cluster, servers) in enumerate(_clusters(rows)):
        indent = "  "
        if cluster:
            yield f"  subgraph cluster_{number} {{\n    label={_quoted(cluster)};\n"
            indent = "    "
        yield from (f"{indent}{_quoted(name)};\n" for name in dict.fromkeys(map(_name, servers)))
        for server in servers:
            name = _name(server)
            for link in server.links or ():
                kind, _, other = link.partition(" ")
                edges[kind, min(name, other), max(name, other)] = None
        if cluster:
            yield "  }\n"
    for kind, one, other in edges:
        colour = _COLOURS.get(kind, "black")
        yield f"  {_quoted(one)} -- {_quoted(other)} [label={_quoted(kind)}, color={colour}];\n"
    yield "}\n"


def _clusters(rows: Iterable[Record]) -> Iterator[tuple[str, list[ServerRecord]]]:

    servers = [row for row in rows if isinstance(row, ServerRecord)]
    servers.sort(key=lambda row: (row.cluster or "", _name(row)))
    for cluster, group in groupby(servers, key=lambda row: row.cluster or ""):
        yield cluster, list(group)


def _name(server: ServerRecord) -> str:
    return server.server_name or server.server_id or ""


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
