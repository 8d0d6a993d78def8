"""The findings that are new since the last audit: those of earlier audits are remembered in a file.

Over an archive, an audit reads from the day before the earliest day to which files of new batches belong, so
that the bursts of correlations have what came before them. A finding is the same one as long as its rule,
place, time and fields are: a burst may get more events.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256

from ..capture.time_range import TimeRange
from ..errors import RuleError, reason_of
from ..output.day_files import DAY_NS, HOUR_FILE, begin_of
from ..output.folders import ALWAYS, table_files, table_paths
from ..tables import TABLES
from ..types import NEVER_NS
from .findings.finding import Finding

_MOST = 500_000  # findings that are remembered, 20 bytes each
_FORMAT = 1


class SinceLast:
    """The findings in the file at `path`, which may not exist yet. Raises RuleError for another file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._batch = -1
        self._known: dict[str, None] = {}
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
            if values["format"] != _FORMAT:
                raise ValueError
            self._batch = int(values["batch"])
            self._known = dict.fromkeys(map(str, values["findings"]))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise RuleError(path, 0, f"cannot be read: {reason_of(error)}") from None
        except (ValueError, KeyError, TypeError):
            raise RuleError(path, 0, "is no file of --since-last; name a new one") from None

    def between(self, root: str) -> TimeRange:
        """The times to audit in a folder of tables: all of them, if it is no archive or was never audited.
        The batches that are there now count as audited. Raises OSError."""
        before = self._batch
        begins = list[int]()
        for path in table_paths(root, TABLES).values():
            for file in table_files(path):
                folder, name = os.path.split(file)
                begin_ns = begin_of(os.path.basename(folder))
                if found := HOUR_FILE.fullmatch(name):
                    batch = int(found["batch"])
                    self._batch = max(self._batch, batch)
                    if batch > before and begin_ns is not None:
                        begins.append(begin_ns)
        if before < 0:
            return ALWAYS
        return TimeRange(min(begins) - DAY_NS if begins else NEVER_NS)

    def new(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Those findings that are new, which are remembered."""
        for one in findings:
            name = _name(one)
            is_new = name not in self._known
            self._known.pop(name, None)
            self._known[name] = None  # the latest ones are at the end
            if is_new:
                yield one

    def save(self) -> None:
        """Writes the file, as a whole. Raises OSError."""
        findings = list(self._known)[-_MOST:]
        beside = f"{self._path}.{os.getpid()}.part"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "batch": self._batch, "findings": findings}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self._path)


def _name(one: Finding) -> str:
    place = (one.rule, one.ts_ns, one.session, one.number, one.subject, one.fields)
    return sha256(json.dumps(place).encode("utf-8", "surrogatepass")).hexdigest()[:16]
