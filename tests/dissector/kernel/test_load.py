"""When the kernel runs."""

from __future__ import annotations

import sys

import pytest

from dissect.nats import Options
from dissect.nats.kernel import load
from dissect.nats.kernel.load import LOADED_AFTER, VARIABLE, Loader, description, lack, serves
from dissect.nats.tables import frames_for


def test_small_captures_do_not_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    loader = Loader(Options())
    assert loader.arrays(LOADED_AFTER) is None


def test_large_captures_load_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Loader(Options(max_flows=4), LOADED_AFTER).arrays(1)


def test_without_numba_python_reads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dissect.nats.kernel.arrays", None)
    loader = Loader(Options(), LOADED_AFTER)
    assert loader.arrays(1) is None
    assert loader.arrays(1) is None


def test_a_variable_turns_it_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert not serves(["sessions"], Options())
    monkeypatch.setenv(VARIABLE, "on")
    assert serves(["sessions"], Options())
    assert Loader(Options(max_flows=4)).arrays(1)


def test_tables_that_need_every_frame_are_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert serves(["sessions", "flows"], Options())
    assert not serves(["frames", "streams"], Options())
    assert serves(["frames", "sessions", "requests", "kv", "streaming", "servers"], Options())
    assert serves(["sessions", "kv", "services", "paths"], Options())
    assert not serves(["kv", "services"], Options())
    assert not serves(["sessions", "kv"], Options(kind="client"))
    assert not serves(["sessions", frames_for("kv")], Options())
    assert not serves(["sessions"], Options(payload="text"))


def test_why_there_is_no_kernel_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert lack() == ""
    assert description().startswith("the kernel, numba ")
    monkeypatch.setitem(sys.modules, "numba", None)
    assert "[fast]" in lack()
    monkeypatch.setenv(VARIABLE, "off")
    assert description() == "Python alone: NATS_DISSECT_KERNEL is off"


def test_that_it_compiles_is_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from dissect.nats.kernel import arrays

    told: list[str] = []
    monkeypatch.setattr(load, "on_compile", told.append)
    for text in ("", "compiling"):
        monkeypatch.setattr(arrays, "compiling", lambda: text)
        made = Loader(Options(max_flows=4), LOADED_AFTER).arrays(1)
        assert made and not told
        made.add(0, bytes(12))
        made.add(1, bytes(12))
    assert told == ["compiling"]
