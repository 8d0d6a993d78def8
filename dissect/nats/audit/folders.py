"""Files in the folders of a user: rules, and Parquet tables."""

from __future__ import annotations

import os
from pathlib import Path


def files_in(folder: str | Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files in a folder, at any depth, whose names end with one of the suffixes, in order. Raises OSError
    for a folder that cannot be read, so that no files are left out in silence."""
    return sorted(
        Path(place, name)
        for place, _, names in os.walk(folder, onerror=_refuse)
        for name in names
        if name.endswith(suffixes)
    )


def _refuse(error: OSError) -> None:
    raise error
