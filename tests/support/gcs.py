"""A server of Google Cloud Storage for tests, of gcp-storage-emulator, on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dissect.nats import storage
from dissect.nats.storage import S3Access

from tests.support.meshes import lasting_ports
from tests.support.requirements import missing


@pytest.fixture
def gs_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of an empty bucket. It leads to pyarrow's file system for `gs://`; only the endpoint is the
    test's, because nothing in the environment sets it."""
    from pyarrow import fs

    try:
        from gcp_storage_emulator.server import create_server
    except ImportError as lack:
        missing("gcp-storage-emulator", str(lack))
    (port,) = lasting_ports(1)
    options = f"endpoint_override=127.0.0.1:{port}&scheme=http&retry_limit_seconds=30"

    def connected(scheme: str, host: str, access: S3Access) -> tuple[fs.FileSystem, str]:
        assert scheme == "gs"
        system, root = fs.FileSystem.from_uri(f"gs://anonymous@{host}/?{options}")
        return system, str(root)

    monkeypatch.setattr(storage, "_connected", connected)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="caps")
    server.start()
    yield "gs://caps"
    server.stop()
