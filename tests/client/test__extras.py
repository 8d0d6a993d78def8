"""`natsync._extras`: the command that installs an extra, for each way to install this package."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from shutil import copy

import pytest

from natsync import _extras

from tests.support.paths import ROOT


class Installed(metadata.Distribution):
    """The record of a package that pip has installed from a URL; None: from an index."""

    def __init__(self, url: str | None) -> None:
        self._url = url

    def read_text(self, filename: str) -> str | None:
        assert filename == "direct_url.json"
        return None if self._url is None else json.dumps({"url": self._url})

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("url", "what"),
    [
        (None, "'natsync[tls]'"),
        ("git+ssh://host.example/natsync", "'natsync[tls]'"),
        ("file:///srv/natsync", "'/srv/natsync[tls]'"),
        (
            "file:///srv/with%20blank/natsync-1-py3-none-any.whl",
            "'/srv/with blank/natsync-1-py3-none-any.whl[tls]'",
        ),
    ],
)
def test_an_installed_package_names_what_it_came_from(
    url: str | None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_extras, "__file__", str(tmp_path / "natsync" / "_extras.py"))
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(url))
    assert _extras.pip_install("tls") == f"pip install {what}"


def test_a_clone_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert _extras.pip_install("tls") == "pip install '.[tls]'"
    monkeypatch.chdir(tmp_path)
    assert _extras.pip_install("tls") == f"pip install '{ROOT}[tls]'"


def test_a_copy_that_nobody_installed_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "natsync" / "_extras.py"
    copied.parent.mkdir()
    copy(_extras.__file__, copied)

    def nothing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(_extras, "__file__", str(copied))
    monkeypatch.setattr(metadata, "distribution", nothing)
    assert _extras.pip_install("tls") == "pip install 'natsync[tls]'"


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (ModuleNotFoundError(name="kombu"), True),
        (ModuleNotFoundError(name="kombu.transport"), True),
        (ModuleNotFoundError(name="amqp"), False),
        (ModuleNotFoundError(name="kom"), False),
        (ModuleNotFoundError("raised without a name"), False),
        (ImportError("cannot import name", name="kombu"), False),
    ],
)
def test_a_failed_import_is_no_missing_module(error: ImportError, missing: bool) -> None:
    assert _extras.is_missing(error, "kombu.transport") is missing
