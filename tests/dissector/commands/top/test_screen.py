"""Keys of a terminal; the screen itself is tested with the command."""

from __future__ import annotations

import os

import pytest

from dissect.nats.commands.top.screen import Keys, Quit, keys_of


def test_bytes_as_keys() -> None:
    assert keys_of(b"s") == ["s"] and keys_of("gr\u00f6".encode()) == ["g", "r", "\u00f6"]
    assert keys_of(b"\x1b[D") == ["left"] and keys_of(b"\x1bOC") == ["right"]
    assert keys_of(b"\x1b[5~") == [] and keys_of(b"\x1b") == ["\x1b"]


def test_no_terminal_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissect.nats.commands.top.screen._TERMINAL", os.devnull + "/none")
    with Keys() as keys:
        assert keys.descriptors == []


def test_a_terminal_that_is_gone_ends_the_work() -> None:
    read, write = os.pipe()
    os.close(write)
    with pytest.raises(Quit):
        Keys().read(read)
    os.close(read)
