"""Bindings, seen by two processes."""

from __future__ import annotations

import pytest

from natsync.jetstream import JetStream
from natsync.kombu.bindings import Binding, Bindings
from natsync.kombu.naming import Names

pytestmark = pytest.mark.server

RED = Binding("red", None, "paint")
ANY = Binding("#", "^.*?$", "logs", "topic")


@pytest.fixture
def names(stream_name: str) -> Names:
    return Names(stream_name)


def test_a_binding_is_seen_by_others(js: JetStream, names: Names) -> None:
    one, other = Bindings(js, names, 1), Bindings(js, names, 1)
    one.add("x", RED)
    one.add("x", ANY)
    one.add("y.z", RED)
    one.add("x", RED)
    assert sorted(one.of("x")) == sorted(other.of("x")) == sorted([RED, ANY])
    assert other.of("y.z") == [RED]
    assert other.of("y") == []
    one.remove("x", RED)
    other.refresh()
    assert one.of("x") == other.of("x") == [ANY]
    one.close()
    other.close()


def test_a_queue_loses_all_its_bindings(js: JetStream, names: Names) -> None:
    one, other = Bindings(js, names, 1), Bindings(js, names, 1)
    assert other.of("x") == []  # it watches from now on
    for exchange in ("x", "y"):
        one.add(exchange, RED)
        one.add(exchange, ANY)
    other.refresh()
    other.remove_queue("paint")
    one.refresh()
    assert one.of("x") == one.of("y") == [ANY]
    one.close()
    other.close()


def test_entries_that_are_no_bindings_are_left_out(
    js: JetStream, names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise no process could begin."""
    one, other = Bindings(js, names, 1), Bindings(js, names, 1)
    one.add("x", RED)
    odd = b'["red", null, 5]', b'["red", null, "paint", "headers"]'
    for number, entry in enumerate((b"", b"no JSON", b"5", b'["red"]', *odd)):
        js.publish(f"$KV.{names.bucket('bindings')}.x.bad.{number}", entry)
    one.add("x", ANY)
    js.publish(f"$KV.{names.bucket('bindings')}.y.old", b'["red", null, "paint"]')  # without a type
    assert sorted(other.of("x")) == sorted([RED, ANY])
    assert other.of("y") == [RED]
    assert "x.bad.0" in caplog.text and "x.bad.5" in caplog.text
    other.remove_queue("paint")
    assert other.of("x") == [ANY]
    one.close()
    other.close()
