"""Which nats-server is run, and what is said where there is none."""

from __future__ import annotations

import os
import pickle
import sysconfig
from pathlib import Path

import pytest

from natsync.testing import NatsServer, NatsServerError
from natsync.testing.program import check_program, find_program, program_version


def program(path: Path, version: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho nats-server: v{version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program_version.cache_clear()
    monkeypatch.delenv("NATS_SERVER", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "path"), "/bin"]))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))


def test_the_one_of_this_python_comes_before_path(tmp_path: Path) -> None:
    on_path = program(tmp_path / "path/nats-server", "2.11.0")
    assert find_program() == on_path
    program_version.cache_clear()
    installed = program(tmp_path / "scripts/nats-server", "2.12.1")
    assert find_program() == installed
    assert program_version(installed) == (2, 12, 1)


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "path/nats-server", "2.11.0")
    named = program(tmp_path / "mine", "2.15.1-beta.1")
    monkeypatch.setenv("NATS_SERVER", str(named))
    assert find_program() == named
    assert NatsServer().version == "2.15.1"
    monkeypatch.setenv("NATS_SERVER", str(tmp_path / "none"))
    with pytest.raises(NatsServerError, match="NATS_SERVER names .*/none, which is none"):
        find_program()


def test_a_missing_one_says_what_to_install() -> None:
    with pytest.raises(NatsServerError, match=r"pip install '\S*\[testing\]'") as caught:
        NatsServer()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_another_program_of_that_name_is_none(tmp_path: Path) -> None:
    program(tmp_path / "path/nats-server", "what?")
    with pytest.raises(NatsServerError, match="not found"):
        find_program()


def test_a_program_may_be_named_by_text(tmp_path: Path) -> None:
    named = program(tmp_path / "other/nats-server", "2.9.10")
    assert check_program(str(named)) == check_program(named) == named
    with pytest.raises(NatsServerError, match="program names .*missing, which is none"):
        check_program(str(tmp_path / "missing"))
