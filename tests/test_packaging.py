"""The wheel built from this tree: what is in it, what is not, and what it says of itself."""

from __future__ import annotations

import email
import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from email.message import Message
from pathlib import Path

import pytest

import natsync
from natsync.kombu.backend import ResultBackend

from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import require_server

pytestmark = [
    pytest.mark.xdist_group("packaging"),  # the wheel and its environment are made once
    pytest.mark.timeout(300),  # which takes 20 s, and several times as long on a busy machine
]

# A copy, for setuptools writes into the tree it builds, and takes what an earlier build left there.
SOURCE = ("natsync", "pytest_natsync", "dissect")
NEEDED = (*SOURCE, "tests", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    if not all(importlib.util.find_spec(tool) for tool in ("pip", "setuptools", "wheel")):
        missing("pip, setuptools and wheel", "pip install pip setuptools wheel")
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "-w", out, tree],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def bare(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder, "install", *options, str(wheel.filename)],
        check=True,
    )
    return folder / "bin"


def dist_info(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(f"natsync-{natsync.__version__}.dist-info/{name}").decode()


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_string(dist_info(wheel, "METADATA"))


def test_it_holds_both_packages_with_their_types(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"natsync/__init__.py", "natsync/py.typed"} <= names
    assert {"dissect/nats/__init__.py", "dissect/nats/py.typed"} <= names


def test_it_holds_every_source_file_and_no_other(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if name.endswith(".py")}
    sources = {
        path.relative_to(ROOT).as_posix()
        for folder in SOURCE
        for path in (ROOT / folder).rglob("*.py")
    }
    assert packed == sources


def test_it_leaves_dissect_to_be_a_namespace(wheel: zipfile.ZipFile) -> None:
    assert "dissect/__init__.py" not in wheel.namelist()


def test_it_names_both_commands(wheel: zipfile.ZipFile) -> None:
    commands = ConfigParser()
    commands.read_string(dist_info(wheel, "entry_points.txt"))
    assert dict(commands["console_scripts"]) == {
        "natsync": "natsync.__main__:main",
        "nats-dissect": "dissect.nats_dissect:main",
    }


def test_celery_finds_the_result_backend(wheel: zipfile.ZipFile) -> None:
    points = ConfigParser()
    points.read_string(dist_info(wheel, "entry_points.txt"))
    named = points["celery.result_backends"]["nats"]
    assert pkgutil.resolve_name(named) is ResultBackend


def test_an_installed_natsync_brings_its_fixtures(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    require_server("current")
    wheel.extractall(tmp_path / "installed")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/test_it.py").write_text(
        "def test_it(nats_server):\n    with nats_server.connect() as nc:\n        nc.flush(10)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path / "project",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_carries_the_licence(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    (licence,) = (name for name in wheel.namelist() if name.endswith("LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_its_version_is_that_of_the_package(metadata: Message) -> None:
    assert metadata["Name"] == "natsync"
    assert metadata["Version"] == natsync.__version__
    assert metadata["Requires-Python"] == ">=3.10"


def test_the_client_needs_nothing_and_the_dissector_is_an_extra(metadata: Message) -> None:
    needs = metadata.get_all("Requires-Dist") or []
    assert [need for need in needs if "extra ==" not in need] == []
    extras = metadata.get_all("Provides-Extra") or []
    assert {"dissect", "parquet", "sql", "spark", "zstd", "nkeys", "tls", "otel", "all"} <= {
        *extras
    }
    assert sorted(needed_by("cli", needs)) == ["click"]
    assert sorted(needed_by("dissect", needs)) == ["dpkt", "natsync", "pyyaml", "rich"]


def needed_by(extra: str, needs: list[str]) -> list[str]:
    """The names of what an extra needs."""
    own = [need for need in needs if re.search(rf"extra == .{extra}.", need)]
    return [re.split(r"\W", need)[0] for need in own]


def test_the_dissector_without_its_extra_names_it_on_one_line(bare: Path) -> None:
    done = subprocess.run([bare / "nats-dissect", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(".whl[dissect]'\n") and done.stderr.count("\n") == 1


def test_the_client_works_without_anything_else(bare: Path) -> None:
    subprocess.run([bare / "python", "-c", "import natsync, dissect.nats"], check=True)


@pytest.mark.parametrize("program", [["natsync"], ["python", "-m", "natsync"]])
def test_the_command_without_its_extra_names_it_on_one_line(bare: Path, program: list[str]) -> None:
    command = [bare / program[0], *program[1:], "rtt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"natsync: not installed: click; pip install '\S*\[cli\]'\n", done.stderr)
