"""Builds a zip of `natsync`, `dissect.nats` and dpkt, all pure Python, for workers that lack them.

    python -m dissect.nats.spark.package natsync.zip       # for spark-submit --py-files

Workers must have pyarrow installed, and zstandard for captures that are compressed with it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from natsync import protocol

if TYPE_CHECKING:
    from pyspark import SparkContext

_DISSECT = Path(__file__).parents[1]
_NATSYNC = Path(protocol.__file__).parents[1]


def ship(context: SparkContext) -> None:
    """Sends the package to the workers of a context. If this process imported it from a zip, workers get
    that one."""
    if _DISSECT.is_dir():
        context.addPyFile(_shipped())


@cache
def _shipped() -> str:
    # Spark reads the file when a worker asks for it, and accepts no other file of the same name.
    folder = tempfile.mkdtemp(prefix="nats-dissect-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    content = package_zip()
    path = os.path.join(folder, f"natsync-{sha256(content).hexdigest()[:12]}.zip")
    Path(path).write_bytes(content)
    return path


def package_zip() -> bytes:
    """The zip: the same bytes for the same sources. It has entries for its folders; without them
    `dissect`, a namespace package, could not be imported."""
    output = BytesIO()
    with ZipFile(output, "w", ZIP_DEFLATED) as archive:
        for name, path in sorted(_entries()):
            entry = ZipInfo(name)
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes() if path.is_file() else b"")
    return output.getvalue()


def _entries() -> Iterator[tuple[str, Path]]:
    """Names in the zip, with a slash at the end for folders, and their paths here."""
    yield "dissect/", _DISSECT.parent
    for name, folder in {"natsync": _NATSYNC, "dissect/nats": _DISSECT, "dpkt": _dpkt()}.items():
        yield f"{name}/", folder
        for path in folder.rglob("*"):
            if "__pycache__" in path.parts:  # where the compiled code of the kernel is, too
                continue
            inner = path.relative_to(folder).as_posix()
            if path.is_dir():
                yield f"{name}/{inner}/", path
            elif path.suffix == ".py":
                yield f"{name}/{inner}", path


def _dpkt() -> Path:
    found = find_spec("dpkt")
    assert found and found.origin
    return Path(found.origin).parent


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m dissect.nats.spark.package FILE.zip")
    Path(sys.argv[1]).write_bytes(package_zip())
