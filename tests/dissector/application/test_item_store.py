"""Items in memory and on disk: groups, order, errors, and nothing that is left behind."""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dissect.nats.application import item_store
from dissect.nats.application.item_store import ItemStore
from dissect.nats.errors import StoreError
from dissect.nats.schema.declaration import Group, LayerItem


def item(
    key: bytes, number: int, stage: int = 1, body: tuple[object, ...] = ("x", None, 1 << 70)
) -> LayerItem:
    return LayerItem(stage, key, number, "s", number, body)


def opened_files() -> list[str]:
    """The files that this process has open, as Linux names them."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself was open while it was read
            found.append(os.readlink(each))
    return found


def stored_items(store: ItemStore, stage: int) -> list[tuple[bytes, list[int]]]:
    found: list[tuple[bytes, list[int]]] = []

    def look(groups: Iterator[Group]) -> Iterator[LayerItem]:
        for group in groups:
            some = [*group]
            found.append((some[0].key, [each.number for each in some]))
        yield from ()

    store.run(stage, look)
    return found


@pytest.mark.parametrize("held", [1, 500, 20_000])
def test_the_items_of_a_key_come_together_and_in_order(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_store, "_HELD", held)
    items = [item(b"%d" % (number % 3), number) for number in range(10_000)]
    random.Random(7).shuffle(items)
    with closing(ItemStore()) as store:
        for each in items:
            store.add(each)
        wanted = [(b"%d" % rest, [*range(rest, 10_000, 3)]) for rest in range(3)]
        assert stored_items(store, 1) == wanted
        assert stored_items(store, 1) == [] == stored_items(store, 2)


def test_a_stage_adds_items_for_later_ones_and_bodies_come_back_as_they_were() -> None:
    def twice(groups: Iterator[Group]) -> Iterator[LayerItem]:
        for group in groups:
            for each in group:
                yield item(b"b", each.number, 2, each.body)
                yield item(b"a", each.number, 2, each.body)

    with closing(ItemStore()) as store:
        store.add(item(b"k", 1))
        store.run(1, twice)
        first = store.first(2, 1)
        assert first == [item(b"a", 1, 2)] and len(store.first(2, 9)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files are open")
def test_items_on_disk_are_in_files_without_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(item_store, "_HELD", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with closing(ItemStore()) as store:
        for number in range(5000):
            store.add(item(b"k", number, body=("x" * 200,)))
        files = [one for one in opened_files() if one.startswith(str(tmp_path))]
        assert 0 < len(files) < 20 and all(one.endswith(" (deleted)") for one in files)
        assert not [*tmp_path.iterdir()]
        assert stored_items(store, 1) == [(b"k", [*range(5000)])]
        assert not [one for one in opened_files() if one.startswith(str(tmp_path))]


def test_items_of_one_frame_are_not_compared_by_their_bodies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_store, "_HELD", 2)
    with closing(ItemStore()) as store:
        for body in (None, "x", 1, ()):
            store.add(item(b"k", 1, body=(body,)))
        assert len(store.first(1, 9)) == 4 and stored_items(store, 1) == [(b"k", [1] * 4)]


def test_items_that_wait_are_held_in_memory_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the stage with the most; what a stage makes while it is read counts, too."""
    monkeypatch.setattr(item_store, "_HELD", 1000)

    def twice(groups: Iterator[Group]) -> Iterator[LayerItem]:
        for group in groups:
            for each in group:
                yield item(b"a", each.number, 2, each.body)
                yield item(b"b", each.number, 2, each.body)
                assert sum(map(len, store._held.values())) < 1000

    with closing(ItemStore()) as store:
        for number in range(5000):
            store.add(item(b"k", number))
            assert sum(map(len, store._held.values())) < 1000
        store.run(1, twice)
        assert stored_items(store, 2) == [(b"a", [*range(5000)]), (b"b", [*range(5000)])]


def test_a_disk_that_is_full_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "_HELD", 2048)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(ItemStore()) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
        try:
            with pytest.raises(StoreError) as caught:
                for number in range(5000):
                    store.add(item(b"k", number, body=("x" * 200 + str(number),)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        text = "temporary data: File too large; set TMPDIR to a writable folder with more room"
        assert str(caught.value) == text


def test_no_folder_for_temporary_files_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(item_store, "_HELD", 1)
    monkeypatch.setattr(item_store, "_folder", lambda: str(tmp_path / "none"))
    with closing(ItemStore()) as store, pytest.raises(StoreError, match="No such file"):
        store.add(item(b"k", 1))
