"""The version that commands and findings name is that of the installed package."""

from __future__ import annotations

from importlib import metadata

import pytest

from dissect.nats.version import version


def test_it_is_that_of_the_package() -> None:
    assert version() == metadata.version("natsync")


def test_a_checkout_that_is_not_installed_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert version() == "unknown"
