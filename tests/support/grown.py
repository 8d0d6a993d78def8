"""A copy of the package with one file more: how somebody adds an application layer."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def with_toys(folder: Path) -> Path:
    """The sources in `folder`, with the table `toys` among them."""
    for package in ("natsync", "dissect"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    layer = ROOT / "tests" / "dissector" / "application" / "toy_layer.py"
    shutil.copy(layer, folder / "dissect" / "nats" / "application" / "toys.py")
    return folder
