"""Items: what goes in comes out, keys differ where they should, times of any size fit."""

from __future__ import annotations

import pytest

from dissect.nats.application.paths import items as path_items
from dissect.nats.application.paths.items import (
    Match,
    ack_item,
    equal_key,
    first_items,
    hop_in,
    hop_item,
    is_ack,
    key_of,
    match_items,
    message_in,
    message_key,
    publication_item,
)

from tests.dissector.application.paths.grouping import hop


def test_a_hop_comes_back_from_its_item() -> None:
    one, other = hop(1, "p", reply="r"), hop(2, "r", place=("S", 1))
    assert hop_in(hop_item(3, b"k", one)) == one
    assert message_in(publication_item(one, 2)) == (Match(one, ""), 2)
    (item,) = match_items(one, [Match(other, "time")])
    assert message_in(item) == (Match(other, "time"), 0)
    assert item.key == publication_item(one, 2).key


def test_keys_differ_where_their_parts_do() -> None:
    assert len({key_of("a", "bc"), key_of("ab", "c"), key_of("abc"), key_of("a\0bc")}) == 4
    assert key_of("\ud800", 1)
    one = hop(1, "p")
    keys = {equal_key(one, "a", reply, stored) for reply in (None, "") for stored in (True, False)}
    assert len(keys) == 4


def test_messages_are_in_order_of_time_even_where_clocks_are_mad() -> None:
    hops = [hop(at, "p") for at in (0, 1, 1 << 62, 1 << 80)]
    keys = [message_key(one) for one in hops]
    assert keys == sorted(keys) and hop_item(1, b"", hops[-1]).ts_ns < 1 << 63


def test_acks_are_distinguished_from_publications() -> None:
    one = hop(1, "p", reply="r")
    ack = ack_item(hop(2, "p", subject="r"), ("S", 7))
    assert is_ack(ack) and not is_ack(hop_item(ack.stage, ack.key, one))
    assert ack.key == key_of("p", "r") and ack.body == ("S", 7)


def test_a_group_is_held_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_items, "GROUP_ITEMS", 2)
    items = [hop_item(1, b"k", hop(at, "p")) for at in range(4)]
    assert first_items(iter(items[:2])) == (items[:2], True)
    group = iter(items)
    assert first_items(group) == (items[:3], False) and [*group] == items[3:]
