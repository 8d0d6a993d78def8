"""The positions of servers, links and clients in the drawing: clusters from left to right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from ...number_formats import count_text, size_text
from ..topology import Client, ConnectionGroup, Server, ServerLink, Topology

SERVERS = 60
"""The most servers that are drawn."""
CLIENTS = 8
"""The most lines for clients at each server; if there are more clients, the last line sums up the rest."""

WIDTH = 230
"""The width of a box."""
_ROW = 26
_BOX = 34
_GAP = 26
_TITLE = 24
_BETWEEN = 3 * _GAP
_INDENT = 12


class Box(NamedTuple):
    """A server in the drawing: its top left corner, its height, and its clients, one below the other."""

    name: str
    server: Server
    x: int
    y: int
    height: int
    clients: list[tuple[Client, ConnectionGroup]]


class Area(NamedTuple):
    """A cluster in the drawing."""

    name: str
    x: int
    y: int
    width: int
    height: int


class Wire(NamedTuple):
    """A link in the drawing: an SVG path, and the position of its text."""

    link: ServerLink
    group: ConnectionGroup
    path: str
    x: int
    y: int

    @property
    def text(self) -> str:
        """The text beside the line."""
        many = f"{self.group.count}× " if self.group.count > 1 else ""
        return f"{many}{self.link.kind}"

    @property
    def label(self) -> str:
        """The text for screen readers."""
        group, link = self.group, self.link
        count = count_text(group.count, "connection")
        return f"{link.kind} between {link.one} and {link.other}: {count}, {size_text(group.bytes)}"


@dataclass(slots=True)
class Drawing:
    """The positions of everything. `hidden` is the number of servers that are not drawn."""

    boxes: list[Box]
    areas: list[Area]
    wires: list[Wire]
    width: int
    height: int
    hidden: int


def drawing(found: Topology) -> Drawing:
    """Lays out the servers with the most connections, with their clients and the links between them."""
    weights: Counter[str] = Counter(dict.fromkeys(found.servers, 0))
    for client, group in found.clients.items():
        weights[client.server] += group.count
    for link, group in found.links.items():
        weights[link.one] += group.count
        weights[link.other] += group.count
    shown = sorted(sorted(weights, key=lambda name: (-weights[name], name))[:SERVERS])
    shown.sort(key=lambda name: found.servers[name].cluster)
    boxes: dict[str, Box] = {}
    areas = []
    x, tallest = _GAP // 2, 0
    for cluster, names in groupby(shown, key=lambda name: found.servers[name].cluster):
        y = _GAP + _TITLE
        for name in names:
            clients = _clients_of(found, name)
            height = _BOX + _ROW * len(clients)
            boxes[name] = Box(name, found.servers[name], x + _INDENT, y, height, clients)
            y += height + _GAP
        areas.append(Area(cluster, x, _GAP // 2, WIDTH + 2 * _INDENT, y - _GAP))
        tallest = max(tallest, y)
        x += WIDTH + 2 * _INDENT + _BETWEEN
    wires = _wires(found, boxes, tallest)
    height = max([tallest, *(wire.y + _GAP for wire in wires)])
    return Drawing(
        [*boxes.values()], areas, wires, max(x - _GAP, 1), height, len(found.servers) - len(boxes)
    )


def _wires(found: Topology, boxes: dict[str, Box], below: int) -> list[Wire]:
    wires = []
    under = 0
    pairs: Counter[tuple[str, str]] = Counter()
    for link in sorted(found.links):
        one, other = boxes.get(link.one), boxes.get(link.other)
        if one is None or other is None:
            continue
        if one.x > other.x:
            one, other = other, one
        shift = 14 * pairs[link.one, link.other]
        pairs[link.one, link.other] += 1
        if other.x - one.x > WIDTH + 2 * _INDENT + _BETWEEN:
            under += 1
            wires.append(_under(link, found.links[link], one, other, below + 18 * under))
        else:
            wires.append(_wire(link, found.links[link], one, other, shift))
    return wires


def _under(link: ServerLink, group: ConnectionGroup, one: Box, other: Box, bottom: int) -> Wire:
    """A link that has to pass other clusters: it goes below them."""
    x, y = one.x + WIDTH, one.y + _BOX // 2
    to_y = other.y + _BOX // 2
    turn, end = x + _INDENT + 30, other.x - _INDENT - 30
    path = f"M{x},{y} C{turn},{y} {turn},{bottom} {turn + 60},{bottom}"
    path += f" L{end - 60},{bottom} C{end},{bottom} {end},{to_y} {other.x},{to_y}"
    return Wire(link, group, path, (turn + end) // 2 - 34, bottom - 5)


def _wire(link: ServerLink, group: ConnectionGroup, one: Box, other: Box, shift: int) -> Wire:
    x, y = one.x + WIDTH, one.y + _BOX // 2 + shift
    to_y = other.y + _BOX // 2 + shift
    if one.x == other.x:  # within one cluster: an arc beside it
        bow = x + _INDENT + 34 + shift
        path = f"M{x},{y} C{bow},{y} {bow},{to_y} {x},{to_y}"
        return Wire(link, group, path, x + 20 + shift, (y + to_y) // 2 + 4)
    middle = (x + other.x) // 2
    path = f"M{x},{y} C{middle},{y} {middle},{to_y} {other.x},{to_y}"
    return Wire(link, group, path, middle - 34, (y + to_y) // 2 - 5)


def _clients_of(found: Topology, server: str) -> list[tuple[Client, ConnectionGroup]]:
    every = [item for item in found.clients.items() if item[0].server == server]
    every.sort(key=lambda item: (-item[1].errors, -item[1].bytes, item[0].name))
    if len(every) > CLIENTS:
        rest = ConnectionGroup()
        for _, group in every[CLIENTS - 1 :]:
            rest.add(group)
        name = f"{len(every) - CLIENTS + 1} more clients"
        every = [*every[: CLIENTS - 1], (Client(server, name), rest)]
    return every
