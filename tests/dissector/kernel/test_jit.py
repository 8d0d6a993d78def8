"""Compiled code: a wrong index raises IndexError, and machine code is stored where that is possible."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dissect.nats.kernel import jit
from dissect.nats.kernel.jit import FOLDER, Array, compiled


@compiled
def element(array: Array, index: int) -> int:
    return int(array[index])


def test_an_index_beyond_the_end_is_an_error() -> None:
    assert element(np.arange(3), 2) == 2
    with pytest.raises(IndexError):
        element(np.arange(3), 3)


def test_machine_code_has_a_folder_for_these_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert FOLDER is not None and FOLDER.is_dir()
    other = tmp_path / "kernel"
    other.mkdir()
    for name in jit._SOURCES:
        shutil.copy(Path(jit.__file__).parent / name, other)
    with (other / "lines.py").open("a") as file:
        file.write("# changed")
    monkeypatch.setattr(jit, "__file__", str(other / "jit.py"))
    changed = jit._folder()
    assert changed and changed.parent == other / "__pycache__"
    assert changed.name != FOLDER.name


def test_where_no_folder_can_be_written_code_is_compiled_for_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: _refuse())
    assert jit._folder() is None
    monkeypatch.setattr(jit, "FOLDER", None)
    assert compiled(lambda number: number + 1)(1) == 2


def test_every_file_with_compiled_functions_counts() -> None:
    here = Path(jit.__file__).parent
    compiled_in = {path.name for path in here.glob("*.py") if "@compiled" in path.read_text()}
    assert compiled_in <= set(jit._SOURCES)


def _refuse() -> None:
    raise PermissionError
