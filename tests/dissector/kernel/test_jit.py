"""Compiled code: a wrong index raises IndexError, and machine code is stored where that is possible."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dissect.nats.kernel import hashes, jit
from dissect.nats.kernel.jit import FOLDER, Array, compiled
from dissect.nats.spark.package import package_zip

from tests.support.paths import ROOT

PLACE = (0, 9, 1, 2, 1 << 22)
# Compiles a small function of the kernel, calls it, and prints what it returns, where its machine code is,
# and whether it was stored before.
PROGRAM = f"""
import numpy
from dissect.nats.kernel import hashes, jit
print(hashes.filter_bit(numpy.frombuffer(b"_INBOX.a1", numpy.uint8), *{PLACE}))
print(jit.FOLDER)
print(sum(hashes.filter_bit.stats.cache_hits.values()))
"""


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
    monkeypatch.setattr(jit._config, "CACHE_DIR", str(tmp_path))
    folder = jit._folder()
    assert folder and folder.parent == tmp_path and FOLDER and folder.name == FOLDER.name
    stored = (folder / "lines.txt").stat()
    assert jit._folder() == folder
    assert (folder / "lines.txt").stat().st_mtime == stored.st_mtime
    monkeypatch.setattr(jit, "get_data", lambda _, name: name.encode())
    changed = jit._folder()
    assert changed and changed.parent == tmp_path and changed != folder


@pytest.mark.parametrize("setting", ["CPU_NAME", "CPU_FEATURES"])
def test_another_processor_has_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str
) -> None:
    monkeypatch.setattr(jit._config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit._config, setting, "other")
    other = jit._folder()
    assert other and FOLDER and other.name != FOLDER.name


def test_another_numba_has_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jit._config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit.numba, "__version__", "0.1")
    other = jit._folder()
    assert other and FOLDER and other.name != FOLDER.name


def test_where_no_folder_can_be_written_there_is_a_temporary_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(jit, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(jit, "__file__", str(file / "jit.py"))
    monkeypatch.setattr(jit._config, "CACHE_DIR", str(file))
    monkeypatch.setenv("HOME", str(file))
    folder = jit._folder()
    assert folder and folder.parent == tmp_path / "temporary" / f"nats-dissect-{os.getuid()}"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert jit._folder() == folder
    folder.parent.chmod(0o777)  # others may have written there
    assert jit._folder() is None


def test_without_any_folder_code_is_compiled_for_this_process(
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


@pytest.mark.timeout(300)
def test_two_processes_that_compile_at_once_are_both_right(tmp_path: Path) -> None:
    both = [_started(tmp_path / "cache") for _ in range(2)]
    for process in both:
        assert _printed(process)[0] == _expected()
    assert _printed(_started(tmp_path / "cache"))[2] == "1"


@pytest.mark.timeout(300)
def test_a_killed_process_leaves_what_the_next_one_can_use(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for _ in range(2):
        process = _started(cache)
        while not any(cache.rglob("hashes._*.nb*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for path in cache.rglob("*.nbi"):  # as after a crash of the system
        path.write_bytes(b"")
    assert _printed(_started(cache))[0] == _expected()
    assert _printed(_started(cache))[2] == "1"


@pytest.mark.timeout(300)
def test_code_from_a_zip_is_stored_too(tmp_path: Path) -> None:
    (tmp_path / "package.zip").write_bytes(package_zip())
    for hits in ("0", "1"):
        process = _started(tmp_path / "cache", str(tmp_path / "package.zip"))
        assert _printed(process)[1:] == [str(next((tmp_path / "cache").iterdir())), hits]


def _expected() -> str:
    return str(hashes.filter_bit(np.frombuffer(b"_INBOX.a1", np.uint8), *PLACE))


def _started(cache: Path, path: str = str(ROOT)) -> subprocess.Popen[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=cache.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _printed(process: subprocess.Popen[str]) -> list[str]:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output.split()


def _refuse() -> None:
    raise PermissionError
