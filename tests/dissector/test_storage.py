"""Remote storage: where its endpoint and credentials come from, and what a write leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dissect.nats import storage
from dissect.nats.errors import CaptureError, imported
from dissect.nats.storage import (
    elsewhere,
    environment,
    is_uri,
    move_file,
    use_settings,
    write_whole,
)

from tests.support.s3 import SECRET, Bucket


@pytest.fixture(autouse=True)
def no_session() -> Iterator[None]:
    yield
    use_settings(lambda name: None)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3A"])
@pytest.mark.parametrize("name", ["in/a.pcap", "in/a b#c?d%20é.pcap"])
def test_a_name_in_a_bucket_stands_for_itself(s3_bucket: Bucket, scheme: str, name: str) -> None:
    s3_bucket.put(name, b"content")
    system, path = elsewhere(s3_bucket.uri(name, scheme))
    with system.open_input_stream(path) as source:
        assert source.read() == b"content"
    assert elsewhere(s3_bucket.uri("", scheme))[1] == s3_bucket.name


def test_the_endpoint_of_s3_alone_goes_before_that_of_all_services(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_bucket.put("a", b"1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"{s3_bucket.endpoint}/")
    system, path = elsewhere(s3_bucket.uri("a"))
    assert system.get_file_info(path).size == 1


def test_the_settings_of_a_spark_session_go_before_the_environment(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_bucket.put("a", b"1")
    for name in ("AWS_ENDPOINT_URL", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another key")
    settings = {
        "fs.s3a.endpoint": s3_bucket.endpoint.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": SECRET,
    }
    use_settings(settings.get)
    system, path = elsewhere(s3_bucket.uri("a"))
    assert system.get_file_info(path).size == 1
    assert environment() == {
        "AWS_ENDPOINT_URL_S3": s3_bucket.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    use_settings({"fs.s3a.endpoint": "s3.amazonaws.com"}.get)
    assert "AWS_ENDPOINT_URL_S3" not in environment()


@pytest.mark.parametrize("host", ["caps@acct", "caps@acct.dfs.core.windows.net"])
def test_azure_is_where_the_environment_says(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = imported("pyarrow.fs", "spark", "pyarrow")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    system, path = elsewhere(f"abfs://{host}/in/a.pcap")
    assert (system, path) == (fs.AzureFileSystem("acct", account_key="a2V5"), "caps/in/a.pcap")
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "http://127.0.0.1:9/acct")
    at = {f"{kind}_storage_authority": "127.0.0.1:9" for kind in ("blob", "dfs")}
    at |= {f"{kind}_storage_scheme": "http" for kind in ("blob", "dfs")}
    assert elsewhere(f"abfs://{host}/in")[0] == fs.AzureFileSystem("acct", account_key="a2V5", **at)
    monkeypatch.setenv("AZURE_STORAGE_KEY", "not base64")
    with pytest.raises(CaptureError, match=r"AZURE_STORAGE_KEY is not base64") as caught:
        elsewhere(f"abfs://{host}/in")
    assert "not base64" not in str(caught.value).replace("is not base64", "")


class _WithoutMoves:
    """The local file system, which moves as little as Azure's storage."""

    def __init__(self) -> None:
        self._system = imported("pyarrow.fs", "spark", "pyarrow").LocalFileSystem()
        self.copy_file, self.delete_file = self._system.copy_file, self._system.delete_file

    def move(self, source: str, target: str) -> None:
        raise NotImplementedError


def test_a_file_is_copied_where_it_cannot_be_moved(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    move_file(cast(Any, _WithoutMoves()), str(tmp_path / "a"), str(tmp_path / "b"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b": "content"}


def test_a_password_in_a_uri_is_refused_and_not_shown() -> None:
    with pytest.raises(CaptureError, match="AWS_SECRET_ACCESS_KEY") as caught:
        elsewhere(f"s3a://me:{SECRET}@bucket/a")
    assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)
    assert storage._LOGIN.search("abfs://caps@account.dfs.core.windows.net/a:b@c") is None


def test_a_storage_that_does_not_answer_is_named_without_secrets(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        from dissect.nats.capture.files import size_and_mtime

        size_and_mtime(s3_bucket.uri("nothing"))
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_REGION")
    name = "what://is/this"
    assert is_uri(name)
    with pytest.raises(CaptureError, match="cannot be reached"):
        elsewhere(name)


@pytest.mark.parametrize("remote", [False, True])
def test_a_file_is_written_as_a_whole(remote: bool, s3_bucket: Bucket, tmp_path: Path) -> None:
    uri = s3_bucket.uri("state") if remote else tmp_path.as_uri()
    system, folder = elsewhere(uri)
    for content in (b"one", b"two"):
        write_whole(system, f"{folder}/deep/a.json", content)
        with system.open_input_stream(f"{folder}/deep/a.json") as source:
            assert source.read() == content
    names = s3_bucket.names() if remote else [path.name for path in tmp_path.rglob("*.json")]
    assert names == ["state/deep/a.json" if remote else "a.json"]
