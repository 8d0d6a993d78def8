"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which replaces the one at `path` when the block ends, and is removed if the block
    raises.

    The new file has the permissions of the old one, or those that `open` gives. A symbolic link stays and
    leads to the new file. A device, pipe or other special file is opened and written, since it cannot be
    replaced.
    """
    target = os.path.realpath(path)
    exists = os.path.exists(target)
    if exists and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    partial = os.path.join(os.path.dirname(target), f".natsync-{secrets.token_hex(8)}")
    try:
        new = open(partial, "xb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # not the temporary name
    try:
        with new as file:
            if exists:
                shutil.copymode(target, partial)
            yield file
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
