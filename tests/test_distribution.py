"""What is published: the sdist, the links of its page, and the versions that must agree."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from shutil import copy, copytree

import pytest

import natsync

from tests.support.distribution import link_to, normalised, unfit
from tests.support.paths import ROOT

CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SOURCE = ("natsync", "pytest_natsync", "dissect")
ALSO = (
    "setup.cfg",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "SECURITY.md",
)


def test_the_changelog_begins_with_the_version() -> None:
    first, *_ = re.findall(r"^## (\S+) \(", CHANGES, re.MULTILINE)
    assert first == natsync.__version__


@pytest.mark.parametrize(
    ("tag", "heading", "reason"),
    [
        ("v1.2.3", "1.2.3 (2026-11-28)", ""),
        ("v1.2.4", "1.2.3 (2026-11-28)", "not v1.2.3"),
        ("v1.2.3", "1.2.3 (unreleased)", "dated 1.2.3"),
        ("v1.2.3", "1.2.2 (2026-11-28)", "dated 1.2.3"),
        ("v1.2.3", "", "dated 1.2.3"),
    ],
)
def test_a_release_needs_its_tag_and_a_date_in_the_changelog(
    tag: str, heading: str, reason: str
) -> None:
    found = unfit(tag, "1.2.3", f"# Changelog\n\n## {heading}\n" if heading else "")
    assert reason in found and bool(found) == bool(reason)


def test_the_page_of_a_package_links_to_its_home(tmp_path: Path) -> None:
    for name in ("setup.cfg", "README.md"):
        copy(ROOT / name, tmp_path / name)
    link_to("https://forge.example/owner/natsync", tmp_path)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    tag = f"v{natsync.__version__}"
    assert f"](https://forge.example/owner/natsync/blob/{tag}/docs/audit.md)" in readme
    assert f"](https://forge.example/owner/natsync/raw/{tag}/docs/pictures/topology.svg)" in readme
    targets = re.findall(r"\]\(([^)]+)\)", readme)
    assert [link for link in targets if not link.startswith(("https://", "#"))] == []
    assert "(#limits)" in readme
    setup = (tmp_path / "setup.cfg").read_text(encoding="utf-8")
    assert "\n    Issues = https://forge.example/owner/natsync/issues\n" in setup


def packed(files: list[tuple[str, bytes]], mtime: int, mode: int, owner: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode, member.uname = len(data), mtime, mode, owner
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_an_sdist_is_the_same_from_every_machine() -> None:
    files = [("n-1/b.py", b"b = 1\n"), ("n-1/a.py", b"a = 1\n")]
    one = normalised(packed(files, 1_700_000_000, 0o664, "ann"), 1_600_000_000)
    two = normalised(packed(files[::-1], 1_700_000_009, 0o600, "bob"), 1_600_000_000)
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        assert [(file.name, file.mtime) for file in archive] == [
            ("n-1/a.py", 1_600_000_000),
            ("n-1/b.py", 1_600_000_000),
        ]
        content = archive.extractfile("n-1/b.py")
        assert content and content.read() == b"b = 1\n"


@pytest.mark.timeout(300)
def test_an_sdist_holds_what_the_wheel_needs_and_no_tests(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in (*SOURCE, "tests/support"):
        copytree(ROOT / folder, tree / folder)
    for name in (*ALSO, "tests/test_layout.py"):
        copy(ROOT / name, tree / name)
    code = "from setuptools import build_meta; build_meta.build_sdist('..')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(*tmp_path.glob("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        path.relative_to(ROOT).as_posix()
        for folder in SOURCE
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".typed", ".yml", ".sql", ".css", ".js", ".j2"}
    }
    assert names >= {*sources, *ALSO}
    assert [name for name in names if name.startswith(("tests", "samples"))] == []
