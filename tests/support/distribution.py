"""`make dist`: the sdist and the wheel of the last commit in dist/, the same bytes from every build.

    python -m tests.support.distribution [--url URL] [--tag TAG]

They are built twice, from two exports of the commit, and compared. Their time is that of the commit.
With `--url`, the home of the project, the metadata link to it, and so do relative links of the README: the
page of a package index cannot follow these. `--tag` must be the tag of the version that CHANGELOG.md dates.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import natsync

from tests.support.paths import ROOT

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")
_CHANGELOG = ("Changelog", "CHANGELOG.md")


def main(argv: list[str] | None = None) -> None:
    """Builds, compares, and keeps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--url", default="", help="home of the project, such as https://HOST/OWNER/NAME"
    )
    parser.add_argument("--tag", default="", help="the tag that is released")
    options = parser.parse_args(argv)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if options.tag and (why_not := unfit(options.tag, natsync.__version__, changes)):
        sys.exit(why_not)
    out = ROOT / "dist"
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        builds = [build(Path(folder), options.url) for folder in (first, second)]
        if builds[0] != builds[1]:
            sys.exit(f"two builds of one commit differ: {', '.join(sorted(builds[0]))}")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(Path(first) / "out", out)
    print(
        "\n".join(f"dist/{name}: {len(data):,} bytes" for name, data in sorted(builds[0].items()))
    )


def unfit(tag: str, version: str, changes: str) -> str:
    """Why a tag cannot be released; empty if it can."""
    if tag != f"v{version}":
        return f"the tag {tag} is not v{version}, the version in natsync/__init__.py"
    found = re.search(r"^## (.+)$", changes, re.MULTILINE)
    if not found or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", found[1]):
        return f"CHANGELOG.md does not begin with a dated {version}: ## {version} (YYYY-MM-DD)"
    return ""


def build(folder: Path, url: str) -> dict[str, bytes]:
    """Builds an export of the last commit in `folder`/out; returns the files by name."""
    tree, out = folder / "tree", folder / "out"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree)
    if url:
        link_to(url.rstrip("/"), tree)
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    epoch = shown.stdout.strip()
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(tree)]
    done = subprocess.run(
        command, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    for sdist in out.glob("*.tar.gz"):
        sdist.write_bytes(normalised(sdist.read_bytes(), int(epoch)))
    return {path.name: path.read_bytes() for path in out.iterdir()}


def link_to(url: str, tree: Path) -> None:
    """Names the home of the project in the metadata, and makes the README's relative links absolute."""
    tag = f"v{natsync.__version__}"
    links = {
        "Homepage": url,
        "Issues": f"{url}/issues",
        _CHANGELOG[0]: f"{url}/blob/{tag}/{_CHANGELOG[1]}",
    }
    setup, readme = tree / "setup.cfg", tree / "README.md"
    lines = "".join(f"\n    {name} = {link}" for name, link in links.items())
    text = setup.read_text(encoding="utf-8")
    setup.write_text(
        text.replace("[metadata]", f"[metadata]\nproject_urls ={lines}", 1), encoding="utf-8"
    )

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"  # a picture is shown, a page is opened
        return f"{link[1]}[{link[2]}]({url}/{kind}/{tag}/{link[3]})"

    readme.write_text(_LINK.sub(absolute, readme.read_text(encoding="utf-8")), encoding="utf-8")


def normalised(sdist: bytes, epoch: int) -> bytes:
    """The same files, all of one time, without owners, in order: setuptools takes these from the machine."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as before,
        gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for file in sorted(before.getmembers(), key=lambda file: file.name):
            file.mtime, file.uid, file.gid, file.uname, file.gname = epoch, 0, 0, "", ""
            file.mode, file.pax_headers = 0o755 if file.isdir() else 0o644, {}
            after.addfile(file, before.extractfile(file) if file.isfile() else None)
    return out.getvalue()


if __name__ == "__main__":
    main()
