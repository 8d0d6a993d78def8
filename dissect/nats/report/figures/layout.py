"""The positions of servers, links and clients in the drawing: clusters from left to right. The text of a link
stands beside its line where no line, box or other text is, if there is such a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
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
_BETWEEN = 4 * _GAP
_INDENT = 12
_LETTER = 7  # the width of a letter of a text, with room to spare
_LINE = 14  # the height of a text
_CELL = 6  # the side of the squares in which the places that are taken are noted

_PLACES = 40  # points of a curve beside which a text may stand
_SPARSE = 200  # links; among more, hardly any place is free

Point = tuple[int, int]
Curve = tuple[Point, Point, Point, Point]
"""A cubic Bezier curve, as in SVG: its begin, two control points, and its end."""


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
    """A link in the drawing: its curves, and the left end of the base line of its text."""

    link: ServerLink
    group: ConnectionGroup
    curves: tuple[Curve, ...]
    x: int = 0
    y: int = 0

    @property
    def path(self) -> str:
        """The curves as an SVG path."""
        (x, y), *_ = self.curves[0]
        ends = (f"C{a},{b} {c},{d} {e},{f}" for _, (a, b), (c, d), (e, f) in self.curves)
        return f"M{x},{y} {' '.join(ends)}"

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
    wires = _with_texts(_wires(found, boxes, tallest), boxes.values(), areas)
    right = max([x - _GAP, 1, *(wire.x + len(wire.text) * _LETTER + _GAP // 2 for wire in wires)])
    lowest = (max(y for curve in wire.curves for _, y in curve) for wire in wires)
    height = max([tallest, *(y + _GAP for y in lowest), *(wire.y + _GAP for wire in wires)])
    return Drawing([*boxes.values()], areas, wires, right, height, len(found.servers) - len(boxes))


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
    left, right = (turn + 60, bottom), (end - 60, bottom)
    down = (x, y), (turn, y), (turn, bottom), left
    up = right, (end, bottom), (end, to_y), (other.x, to_y)
    return Wire(link, group, (down, (left, left, right, right), up))


def _wire(link: ServerLink, group: ConnectionGroup, one: Box, other: Box, shift: int) -> Wire:
    x, y = one.x + WIDTH, one.y + _BOX // 2 + shift
    to_y = other.y + _BOX // 2 + shift
    # Within one cluster: an arc beside it.
    turn = x + _INDENT + 34 + shift if one.x == other.x else (x + other.x) // 2
    to_x = x if one.x == other.x else other.x
    return Wire(link, group, (((x, y), (turn, y), (turn, to_y), (to_x, to_y)),))


def _with_texts(wires: list[Wire], boxes: Iterable[Box], areas: Iterable[Area]) -> list[Wire]:
    """The wires with the places of their texts."""
    is_sparse = len(wires) <= _SPARSE
    taken = {cell for box in boxes for cell in _cells(box.x, box.y, WIDTH, box.height)}
    for area in areas:
        for x in (area.x, area.x + area.width):
            taken.update(_cells(x, area.y, 1, area.height))
    for wire in wires if is_sparse else ():
        for curve in wire.curves:
            points = _points(curve, _length(curve) // 3 + 1)
            taken.update((x // _CELL, y // _CELL) for x, y in points)
    placed = []
    for wire in wires:
        width = len(wire.text) * _LETTER
        places = _places(wire.curves[len(wire.curves) // 2], width)
        best = next(places)
        free = (place for place in places if taken.isdisjoint(_text_cells(place, width)))
        is_free = not is_sparse or taken.isdisjoint(_text_cells(best, width))
        x, y = best if is_free else next(free, best)
        taken.update(_text_cells((x, y), width))
        placed.append(wire._replace(x=x, y=y))
    return placed


def _places(curve: Curve, width: int) -> Iterator[Point]:
    """Places for a text of this width beside a curve, the best first: near its middle."""
    points = enumerate(_points(curve, _PLACES))
    for _, (x, y) in sorted(points, key=lambda item: abs(item[0] - _PLACES // 2)):
        yield x + _CELL, y + 4
        for left in (x - width // 2, x + _CELL):
            yield left, y - _CELL
            yield left, y + _LINE + _CELL
        if x - width > 2 * _CELL:
            yield x - width - _CELL, y + 4


def _length(curve: Curve) -> int:
    """An upper limit of the length of a curve."""
    return sum(abs(a - c) + abs(b - d) for (a, b), (c, d) in zip(curve, curve[1:]))


def _points(curve: Curve, count: int) -> Iterator[Point]:
    """Points of a curve: its begin, and `count` others."""
    (a, b), (c, d), (e, f), (g, h) = curve
    for number in range(count + 1):
        t = number / count
        u = 1 - t
        p, q, r, s = u**3, 3 * u * u * t, 3 * u * t * t, t**3
        yield round(p * a + q * c + r * e + s * g), round(p * b + q * d + r * f + s * h)


def _text_cells(place: Point, width: int) -> Iterator[Point]:
    """The cells of a text that begins at this point of its base line."""
    x, y = place
    return _cells(x, y - _LINE + 3, width, _LINE)


def _cells(x: int, y: int, width: int, height: int) -> Iterator[Point]:
    for column in range(x // _CELL, (x + width) // _CELL + 1):
        for row in range(y // _CELL, (y + height) // _CELL + 1):
            yield column, row


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
