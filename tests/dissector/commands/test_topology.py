"""Servers and their links as text and for Graphviz."""

from __future__ import annotations

from click.testing import CliRunner

from dissect.nats.application.servers import ServerRecord
from dissect.nats.cli import cli
from dissect.nats.commands.topology import dot_text, graph_text

from tests.support.paths import CAPTURES


def server(name: str, cluster: str | None, *links: str, clients: int = 0) -> ServerRecord:
    return ServerRecord(
        server_name=name,
        cluster=cluster,
        links=list(links) or None,
        clients=clients,
        first_ns=0,
        last_ns=0,
    )


SERVERS = [
    server("n2", "east", "route n1"),
    server("n1", "east", "route n2", "gateway far", clients=2),
    server('a"\x1b', None),
]


def test_clusters_servers_and_links_as_text() -> None:
    assert "".join(graph_text(SERVERS)).splitlines() == [
        "no cluster",
        '  a"\\x1b',
        "cluster east",
        "  n1  2 clients",
        "    route n2",
        "    gateway far",
        "  n2",
        "    route n1",
    ]


def test_a_link_is_one_edge_and_names_are_quoted() -> None:
    text = "".join(dot_text(SERVERS))
    assert text.count(" -- ") == 2 and '"n1" -- "n2" [label="route", color=black];' in text
    assert 'label="east";' in text and '"a\\"\\\\x1b";' in text
    assert text.startswith("graph servers {") and text.endswith("}\n")


def test_servers_of_one_name_are_one_node() -> None:
    lines = "".join(dot_text([SERVERS[0], *SERVERS])).splitlines()
    assert lines.count('    "n2";') == 1


def test_at_the_command_line() -> None:
    capture = str(CAPTURES / "cluster-2.15.1.pcap")
    graph = CliRunner().invoke(cli, ["servers", "--graph", capture])
    assert graph.exit_code == 0 and graph.stdout.startswith(("cluster ", "no cluster"))
    assert "route " in graph.stdout
    dot = CliRunner().invoke(cli, ["servers", "--format", "dot", capture])
    assert dot.exit_code == 0 and " -- " in dot.stdout
