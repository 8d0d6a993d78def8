"""A folder of small files that are written atomically, local or at a URI that pyarrow.fs knows."""

from __future__ import annotations

import os
from importlib import import_module

from ...errors import SparkError, reason_of
from ...storage import elsewhere, is_uri, write_whole


class StateStore:
    """Files by name. All calls raise DissectError if the folder cannot be used."""

    def __init__(self, folder: str) -> None:
        fs = import_module("pyarrow.fs")
        self._folder = folder
        self._kinds = fs.FileType
        self._selector = fs.FileSelector
        if is_uri(folder):
            self._fs, self._root = elsewhere(folder)
        else:
            self._fs, self._root = fs.LocalFileSystem(), os.path.abspath(folder)

    def names(self) -> list[str]:
        """The names of all files, in order."""
        try:
            found = self._fs.get_file_info(self._selector(self._root, allow_not_found=True))
        except OSError as error:
            raise self._fault("read", error) from error
        return sorted(entry.base_name for entry in found if entry.is_file)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        path = f"{self._root}/{name}"
        try:
            if self._fs.get_file_info(path).type != self._kinds.File:
                return None
            with self._fs.open_input_stream(path) as source:
                content: bytes = source.read()
        except OSError as error:
            raise self._fault("read", error) from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """Writes or replaces a file atomically."""
        try:
            write_whole(self._fs, f"{self._root}/{name}", content)
        except OSError as error:
            raise self._fault("written", error) from error

    def delete(self, name: str) -> None:
        """Deletes an existing file."""
        try:
            self._fs.delete_file(f"{self._root}/{name}")
        except OSError as error:
            raise self._fault("written", error) from error

    def _fault(self, verb: str, error: Exception) -> SparkError:
        return SparkError(
            f"{self._folder}: the folder of states cannot be {verb}: {reason_of(error)}",
            "name one that the driver and all workers can reach, with option state",
        )
