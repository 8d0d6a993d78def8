"""Runs the grouped layer `paths` in tests: in one process, and cut into tasks as others cut it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from zlib import crc32

from dissect.nats.application.item_store import ItemStore
from dissect.nats.application.paths.hops import Hop
from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.application.paths.table import PATHS, stages
from dissect.nats.schema.declaration import Group, LayerFrame, LayerItem
from dissect.nats.schema.records import Record

ORDER = attrgetter("key", "ts_ns", "session", "number")


def items_of(frames: Iterable[LayerFrame]) -> list[LayerItem]:
    """What the sessions of these frames say; the frames of a session are in order."""
    assert PATHS.layer
    found: list[LayerItem] = []
    by_session: dict[str, list[LayerFrame]] = {}
    for frame in frames:
        by_session.setdefault(frame.session, []).append(frame)
    for each in by_session.values():
        found += (item for item in PATHS.layer.rows(each) if isinstance(item, LayerItem))
    return found


def path_rows(items: Iterable[Record]) -> list[PathRecord]:
    """The rows, as the command line makes them."""
    with closing(ItemStore()) as store:
        for item in items:
            assert isinstance(item, LayerItem)
            store.add(item)
        found = [row for row in store.rows(stages) if isinstance(row, PathRecord)]
    return sorted(found, key=PATHS.position)


class Scattered:
    """Runs each stage in several tasks, which get their groups by the hash of the key."""

    def __init__(self, items: Iterable[LayerItem], tasks: int) -> None:
        self._items = list(items)
        self._tasks = tasks

    def run(self, stage: int, function: Callable[[Iterator[Group]], Iterable[LayerItem]]) -> None:
        for task in reversed(range(self._tasks)):
            self._items += list(function(self._groups(stage, task)))

    def first(self, stage: int, limit: int) -> list[LayerItem]:
        return sorted((item for item in self._items if item.stage == stage), key=ORDER)[:limit]

    def rows(self) -> list[PathRecord]:
        """All rows."""
        last = stages(self)
        found: list[PathRecord] = []
        for task in range(self._tasks):
            rows = last.function(self._groups(last.stage, task))
            found += (row for row in rows if isinstance(row, PathRecord))
        return sorted(found, key=PATHS.position)

    def _groups(self, stage: int, task: int) -> Iterator[Group]:
        mine = [
            item
            for item in self._items
            if item.stage == stage and crc32(item.key) % self._tasks == task
        ]
        for _, group in groupby(sorted(mine, key=ORDER), key=attrgetter("key")):
            yield group


def hop(
    ts_ns: int,
    session: str,
    content: str = "x",
    *,
    sender: str = "responder",
    subject: str = "subject",
    reply: str | None = None,
    place: tuple[str, int] | None = None,
    attempt: int = 1,
    account: str | None = None,
    tap: str = "c",
) -> Hop:
    body = content.encode()
    kind = (
        "client",
        "MSG",
        account,
        subject,
        "1",
        reply,
        body,
        len(body),
        place,
        attempt,
        tap,
    )
    return Hop(ts_ns, session, ts_ns, sender, *kind)
