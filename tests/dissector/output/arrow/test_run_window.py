"""Runs leave the window in order of time, and a run is divided where the released rows end."""

from __future__ import annotations

from dissect.nats.output.arrow.run_window import RunWindow


def test_the_earliest_rows_are_released() -> None:
    window = RunWindow()
    window.waiting += [(30, "s", 1, 0, 2), (10, "t", 1, 2, 3), (10, "s", 3, 5, 1)]
    window.release(4)
    assert window.released == 4
    assert window.take() == [(10, "s", 3, 5, 1), (10, "t", 1, 2, 3)]
    assert window.released == 0 and window.take() == []
    assert window.waiting == [(30, "s", 1, 0, 2)]


def test_a_run_is_divided() -> None:
    window = RunWindow()
    window.waiting += [(20, "s", 1, 4, 5)]
    window.release(2)
    assert window.take() == [(20, "s", 1, 4, 2)]
    assert window.waiting == [(20, "s", 3, 6, 3)]
    window.release(0)
    assert window.take() == []
    window.release(3)
    assert window.take() == [(20, "s", 3, 6, 3)]


def test_equal_places_do_not_fail() -> None:
    """A hostile capture can give two connections the same id."""
    window = RunWindow()
    window.waiting += [(1, "s", 1, 8, 1), (1, "s", 1, 3, 1)]
    window.release(2)
    assert window.take() == [(1, "s", 1, 3, 1), (1, "s", 1, 8, 1)]
