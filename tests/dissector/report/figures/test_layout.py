"""The drawing of a topology: no box covers another one, and everything lies inside."""

from __future__ import annotations

from itertools import combinations

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
