"""The tables of states: what leads where, and that everything else is an error."""

from __future__ import annotations

import pytest

from dissect.nats.framing.state import (
    KIND,
    STREAM,
    KindEvent,
    KindState,
    StreamEvent,
    StreamState,
    next_state,
)


def test_every_state_of_each_machine_is_listed() -> None:
    assert set(STREAM) == set(StreamState)
    assert set(KIND) == set(KindState)


def test_every_state_but_the_first_is_reached() -> None:
    for table, first in (
        (STREAM, StreamState.SEEKING),
        (KIND, KindState.UNKNOWN),
    ):
        reached = {after for changes in table.values() for after in changes.values()}
        assert reached | {first} == set(table)


def test_a_stream_ends_from_every_state_and_then_stays() -> None:
    for state in set(StreamState) - {StreamState.FINISHED}:
        assert next_state(STREAM, state, StreamEvent.END) is StreamState.FINISHED
    for event in StreamEvent:
        with pytest.raises(ValueError):
            next_state(STREAM, StreamState.FINISHED, event)


def test_an_opaque_stream_is_never_read_again() -> None:
    assert set(STREAM[StreamState.OPAQUE]) == {StreamEvent.END}


def test_operations_never_make_a_confirmed_kind_uncertain() -> None:
    assert next_state(KIND, KindState.CONFIRMED, KindEvent.INFER) is KindState.CONFIRMED
    with pytest.raises(ValueError):
        next_state(KIND, KindState.UNKNOWN, KindEvent.COMPLETE)
