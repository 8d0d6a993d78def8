"""A folder that cannot be read, also for root, who may read all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

LISTING = ("scandir", "listdir")


def refuse(
    folder: Path, monkeypatch: pytest.MonkeyPatch, calls: Sequence[str] = (*LISTING, "stat")
) -> None:
    """Makes these calls for this folder fail with PermissionError."""
    for name in calls:
        monkeypatch.setattr(os, name, _refusing(getattr(os, name), folder))


def _refusing(call: Callable[..., object], folder: Path) -> Callable[..., object]:
    def refusing(path: object = ".", *rest: object, **named: object) -> object:
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return call(path, *rest, **named)

    return refusing
