"""The package as a zip: importable from there alone, and the same each time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from dissect.nats.spark.package import package_zip

from tests.support.paths import CAPTURES, ROOT


def made(folder: Path) -> Path:
    """The zip that the documented command makes."""
    path = folder / "natsync.zip"
    command = [sys.executable, "-m", "dissect.nats.spark.package", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return path


def test_it_can_be_used_from_the_zip_alone(tmp_path: Path) -> None:
    path = made(tmp_path)
    code = (
        "import sys; sys.path.insert(1, sys.argv[1]); import dpkt, dissect.nats, natsync.protocol\n"
        "from dissect.nats import sessions\n"
        "for module in (dpkt, dissect.nats, natsync.protocol): print(sys.argv[1] in module.__file__)\n"
        "print(len(list(sessions([sys.argv[2]]))))"
    )
    capture = CAPTURES / "core-2.15.1.pcap"
    done = subprocess.run(
        [sys.executable, "-c", code, path, capture], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "True", "True", "7"], done.stderr


def test_it_has_sources_and_folders_and_nothing_else(tmp_path: Path) -> None:
    with ZipFile(made(tmp_path)) as archive:
        names = archive.namelist()
    assert {"dissect/", "dissect/nats/", "dissect/nats/spark/", "natsync/", "dpkt/"} <= set(names)
    assert all(name.endswith(("/", ".py")) and "__pycache__" not in name for name in names)
    assert "dissect/__init__.py" not in names
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dissect/nats").rglob("*.py")}
    assert sources <= set(names)


def test_it_is_the_same_each_time() -> None:
    assert package_zip() == package_zip()


def test_its_usage_is_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dissect.nats.spark.package"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "usage: python -m dissect.nats.spark.package FILE.zip",
    )
