"""A server of S3 for tests, of moto, on loopback: buckets in memory, and the environment that leads to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.requirements import missing

SECRET = "aSecretThatNobodyMaySee"
_READY = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


class Bucket:
    """A bucket of its own for a test, which is empty."""

    def __init__(self, endpoint: str, name: str | None = None) -> None:
        from pyarrow import fs

        self.endpoint = endpoint
        self.name = name or f"b{uuid4().hex}"
        scheme, _, host = endpoint.partition("://")
        self.fs = fs.S3FileSystem(
            access_key="reader",
            secret_key=SECRET,
            endpoint_override=host,
            scheme=scheme,
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )
        self.fs.create_dir(self.name)
        if name:  # an earlier test may have used it
            self.fs.delete_dir_contents(name)

    def uri(self, name: str = "", scheme: str = "s3") -> str:
        """The URI of a file or folder."""
        return f"{scheme}://{self.name}/{name}".rstrip("/")

    def put(self, name: str, content: bytes) -> None:
        """Stores an object."""
        with self.fs.open_output_stream(f"{self.name}/{name}") as output:
            output.write(content)

    def get(self, name: str) -> bytes:
        """The content of an object."""
        with self.fs.open_input_stream(f"{self.name}/{name}") as source:
            content: bytes = source.read()
        return content

    def names(self, folder: str = "") -> list[str]:
        """The names of all objects in a folder, in it and below."""
        from pyarrow import fs

        root = f"{self.name}/{folder}".rstrip("/")
        found = self.fs.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        return sorted(one.path.removeprefix(f"{root}/") for one in found if one.is_file)

    def fetch(self, folder: str, to: Path) -> Path:
        """Copies a folder to this machine."""
        from pyarrow import fs

        to.mkdir(parents=True, exist_ok=True)
        fs.copy_files(f"{self.name}/{folder}", str(to), source_filesystem=self.fs)
        return to


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a server, for all tests of a process."""
    if find_spec("moto") is None:
        missing("moto", "pip install 'moto[s3]' flask-cors")
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        while not (ready := _READY.search(log.read_text())):
            try:
                server.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"moto did not start: {log.read_text()}", pytrace=False)
        yield ready[1]
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def s3_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket, and the environment with which everything finds it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return Bucket(s3_server)
