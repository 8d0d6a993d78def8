"""The drawing of a topology: no box covers another one, and everything lies inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from dissect.nats.report.figures.layout import CLIENTS, SERVERS, WIDTH, Box, drawing
from dissect.nats.report.topology import Client, ConnectionGroup, Server, ServerLink, Topology


def covers(one: Box, other: Box) -> bool:
    apart = one.x + WIDTH <= other.x or other.x + WIDTH <= one.x
    return not (apart or one.y + one.height <= other.y or other.y + other.height <= one.y)


def mesh(count: int, clients: int) -> Topology:
    found = Topology()
    names = [f"n{number}" for number in range(count)]
    found.servers = {name: Server(f"c{int(name[1:]) % 3}") for name in names}
    found.links = {
        ServerLink(*pair, "route"): ConnectionGroup(1) for pair in combinations(sorted(names), 2)
    }
    found.clients = {
        Client(name, f"app {number}"): ConnectionGroup(
            1, bytes=number, sessions=[f"{name}-{number}"]
        )
        for name in names
        for number in range(clients)
    }
    return found


def test_boxes_lie_apart_and_inside() -> None:
    drawn = drawing(mesh(9, 4))
    assert len(drawn.boxes) == 9 and len(drawn.areas) == 3 and len(drawn.wires) == 36
    assert not any(covers(*pair) for pair in combinations(drawn.boxes, 2))
    for box in drawn.boxes:
        assert 0 <= box.x <= drawn.width - WIDTH and box.y + box.height <= drawn.height


def sampled(path: str) -> Iterator[tuple[float, float]]:
    """Points of an SVG path of cubic curves."""
    numbers = [float(each) for each in re.findall(r"-?\d+", path)]
    points = list(zip(numbers[::2], numbers[1::2]))
    for at in range(0, len(points) - 1, 3):
        corners = points[at : at + 4]
        for step in range(201):
            t = step / 200
            weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
            x, y = (sum(w * corner[axis] for w, corner in zip(weights, corners)) for axis in (0, 1))
            yield x, y


def linked(kinds: Sequence[str], clusters: Sequence[str], count: int = 28) -> Topology:
    names = [f"n{number}" for number in range(len(clusters))]
    pairs = combinations(names, 2)
    links = {ServerLink(*pair, kind): ConnectionGroup(count) for pair in pairs for kind in kinds}
    return Topology({name: Server(of) for name, of in zip(names, clusters)}, links)


def joined(routes: Topology, gateways: Topology) -> Topology:
    """Routes within clusters, and gateways between them."""
    cluster = {name: server.cluster for name, server in routes.servers.items()}
    for found, within in ((routes, True), (gateways, False)):
        for link in [*found.links]:
            if (cluster[link.one] == cluster[link.other]) != within:
                del found.links[link]
    return Topology(routes.servers, {**routes.links, **gateways.links})


@pytest.mark.parametrize(
    "found",
    [
        linked(["route"], "aa"),
        linked(["route"], "aaa"),
        linked(["gateway", "leafnode"], "ab"),
        linked(["gateway"], "abc"),
        joined(linked(["route"], "aab"), linked(["gateway"], "aab", 1)),
    ],
    ids=["pair", "cluster", "two kinds", "three clusters", "two clusters"],
)
def test_the_text_of_a_link_is_inside_and_off_lines_boxes_and_texts(found: Topology) -> None:
    drawn = drawing(found)
    points = [point for wire in drawn.wires for point in sampled(wire.path)]
    texts = [(wire.x, wire.y - 11, 6.6 * len(wire.text), 13) for wire in drawn.wires]
    solid = [(box.x, box.y, WIDTH, box.height) for box in drawn.boxes]
    for place, (x, y, width, height) in enumerate(texts):
        assert 0 <= x and x + width <= drawn.width and 0 <= y and y + height <= drawn.height
        assert not any(x < a < x + width and y < b < y + height for a, b in points)
        for left, top, wide, high in [*solid, *texts[:place]]:
            apart = left + wide <= x or x + width <= left or top + high <= y or y + height <= top
            assert apart, drawn.wires[place]


def test_texts_of_very_many_links_are_inside_and_cost_little() -> None:
    drawn = drawing(mesh(SERVERS, 8))
    for wire in drawn.wires:
        assert 0 <= wire.x <= drawn.width - 6.6 * len(wire.text) and 0 < wire.y < drawn.height


def test_what_is_too_much_is_counted() -> None:
    drawn = drawing(mesh(SERVERS + 5, CLIENTS + 3))
    assert (len(drawn.boxes), drawn.hidden) == (SERVERS, 5)
    for box in drawn.boxes:
        *_, (last, group) = box.clients
        assert len(box.clients) == CLIENTS
        assert last.name == "4 more clients" and group.count == 4


def test_nothing_to_draw() -> None:
    drawn = drawing(Topology())
    assert (drawn.boxes, drawn.wires, drawn.hidden) == ([], [], 0)


def test_a_screen_reader_hears_of_a_link() -> None:
    (wire,) = drawing(mesh(2, 0)).wires
    assert wire.label == "route between n0 and n1: 1 connection, 0 B"
    assert wire.text == "route"
