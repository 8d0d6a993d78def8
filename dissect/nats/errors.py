"""The errors that the dissector raises: `DissectError` and its subclasses. Everything else that is
strange in a capture is reported as data.

Each error's text is one line, its facts are attributes, and it can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from natsync._extras import is_missing, pip_install


def reason_of(error: Exception) -> str:
    """Why something failed, without the path and the number that Python puts around the system's words."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def instead(name: str, **known: Iterable[str]) -> str:
    """What an error says after an unknown name: the name that was probably meant, or all names that each
    owner has."""
    from difflib import get_close_matches  # only errors need this

    owners = {owner: list(names) for owner, names in known.items()}
    close = get_close_matches(name, [each for names in owners.values() for each in names], n=1)
    listed = (f"; {owner} has {', '.join(names)}" for owner, names in owners.items())
    return f"; is it {close[0]!r}?" if close else "".join(listed)


class DissectError(Exception):
    """The base of all errors of the dissector."""


class CaptureError(DissectError):
    """An input that cannot be read as a capture at all.

    `path` is the input as the user named it, `reason` one lower-case sentence without a full stop, `remedy`
    what the user can do about it, or empty.
    """

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        self.path = path
        self.reason = reason
        self.remedy = remedy
        super().__init__(path, reason, remedy)

    def __str__(self) -> str:
        path = self.path or "''"  # an empty path names no file, but the message shows it
        text = f"{path}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")
        return " ".join(text.split())


class MissingLibrary(DissectError):
    """A required library that is not installed, or that cannot be imported for the reason in `why_not`.
    `extra` is the extra that installs it."""

    def __init__(self, library: str, extra: str, why_not: str = "") -> None:
        self.library = library
        self.extra = extra
        self.why_not = why_not
        super().__init__(library, extra, why_not)

    def __str__(self) -> str:
        fault = f"cannot be imported: {self.why_not}" if self.why_not else "is not installed"
        return f"{self.library} {' '.join(fault.split())}; {pip_install(self.extra)}"


def imported(module: str, extra: str, library: str = "") -> ModuleType:
    """Imports a module of a library. Raises MissingLibrary if it is not installed, or its import fails: the
    library, named as the module unless it has another name, comes with the extra."""
    try:
        return import_module(module)
    except ImportError as error:
        why_not = "" if is_missing(error, module) else str(error)
        raise MissingLibrary(library or module, extra, why_not) from None


class QueryError(DissectError):
    """SQL that cannot be run. `query` is the SQL, `reason` what is wrong with it."""

    def __init__(self, query: str, reason: str) -> None:
        self.query = query
        self.reason = reason
        super().__init__(query, reason)

    def __str__(self) -> str:
        return " ".join(f"SQL: {self.reason}".split())


class RuleError(DissectError):
    """A file of rules or suppressions that cannot be used. `path` and `line` are the place (line 0 is the
    file as a whole), `reason` is what is wrong and what to write instead."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(path, line, reason)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return " ".join(f"{place}: {self.reason}".split())


class StoreError(DissectError):
    """Temporary data that cannot be written or read. `reason` is the error of the operating system."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        reason = " ".join(self.reason.split())
        return f"temporary data: {reason}; set TMPDIR to a writable folder with more room"


class FormatError(DissectError):
    """A value that the output format cannot hold. `reason` is a sentence without a full stop."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return " ".join(self.reason.split())


class WorkerError(DissectError):
    """A worker process that ended before its work was done."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return " ".join(f"a worker process {self.reason}".split())


class SparkError(DissectError):
    """An error of a Spark job. `reason` is the fault, `remedy` what the user can do about it, or empty."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(reason, remedy)

    def __str__(self) -> str:
        return " ".join(f"{self.reason}{f'; {self.remedy}' if self.remedy else ''}".split())


class OutputError(SparkError):
    """A file that a task of Spark cannot write. Spark runs the task again."""
