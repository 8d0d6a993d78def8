"""Temporary data: what does not fit into memory. Its errors, such as that of a full disk, are StoreError, so
that they are not mistaken for those of a capture or of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from .errors import StoreError, reason_of


@contextmanager
def storing(raised: type[Exception] | tuple[type[Exception], ...] = OSError) -> Iterator[None]:
    """A block that writes or reads temporary data. What it raises becomes StoreError."""
    try:
        yield
    except raised as error:
        raise StoreError(reason_of(error)) from None


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that is removed after the block, in any case. Raises StoreError."""
    with storing():
        folder = TemporaryDirectory(prefix="nats-dissect-")
    with folder as path:
        yield path
