"""A dissection of capture files that come one after the other: flows go on from file to file, and the state
can be saved between them and loaded in another process.

The state is a pickle, like those of `checkpoint`: nobody else may write it. It is valid for the same version,
tables and options.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..capture import CaptureReport, FileReport
from ..capture.files import capture_name, opened, size_and_mtime
from ..capture.merge import merge
from ..capture.pcapng.section import SECRETS_NAME
from ..capture.reader import NOWHERE
from ..capture.sources import is_packed, read_file, too_many
from ..engine.session_tables import ReleasedRows
from ..errors import CaptureError
from ..options import Options
from ..packet import PacketParser
from ..secrets.key_log import KeyLog, KeyLogs
from ..types import Packets
from .checkpoint import Checkpoints
from .complete_files import NewFiles, TakenFile

if TYPE_CHECKING:
    from collections.abc import Generator

OnLoss = Callable[[str], None]
"""Called with one line for each file, or for its secrets, that can no longer be read."""


class ContinuedDissection:
    """The dissection, with frames of the kernel as blocks. A file that cannot be read raises CaptureError,
    unless `on_loss` is given. `passed_over` counts packets without a TCP header that could be read, by
    reason."""

    def __init__(
        self,
        tables: Collection[str],
        options: Options,
        complain: OnLoss,
        on_loss: OnLoss | None = None,
    ) -> None:
        self.passed_over: Counter[str] = Counter()
        self._tables = tables
        self._options = options
        self._complain = complain
        self._on_loss = on_loss
        self._key_logs = KeyLogs(options.keylog)
        self._parser = PacketParser()
        self._dissection = self._new()
        # Files with TLS secrets, each up to its last ones.
        self._with_secrets: list[TakenFile] = []

    @property
    def embedded(self) -> KeyLog:
        """The TLS secrets in the captures themselves."""
        return self._key_logs.embedded

    def files(self, new: NewFiles, report: CaptureReport) -> Iterator[ReleasedRows]:
        """The rows that these files complete. Late ones are read by themselves, at the end."""
        following = [one for one in new.files if not one.late]
        if following:
            yield from self.packets(self._merged(following, report))
        for one in new.files:
            if one.late:
                yield from self._alone(one, report)

    def packets(self, blocks: Iterable[Packets]) -> Iterator[ReleasedRows]:
        """The rows that these packets complete."""
        yield from self._dissection.feed(self._parser.feed(blocks))
        self._count(self._parser)

    def finish(self) -> Iterator[ReleasedRows]:
        """The rows of all open flows."""
        self._parser.finish()
        self._count(self._parser)
        yield from self._dissection.finish()

    def save(self) -> bytes:
        """The state."""
        states = list(self._dissection.save().values())
        return pickle.dumps((states, self._parser.save(), self._with_secrets))

    def load(self, state: bytes) -> None:
        """Goes on from a state; nothing may have been read here already."""
        states, parser_state, files = pickle.loads(state)
        self._with_secrets = list(files)
        for one in files:
            try:
                for _ in self._read(one, CaptureReport()):
                    pass
            except CaptureError as error:
                self._complain(f"{error}; its TLS secrets can no longer be read")
                self._with_secrets.remove(one)
        self._dissection.load(states)
        self._parser.load(parser_state)

    def _new(self) -> Checkpoints:
        return Checkpoints(self._tables, self._options, key_logs=self._key_logs, blocks=True)

    def _alone(self, one: TakenFile, report: CaptureReport) -> Iterator[ReleasedRows]:
        dissection, parser = self._new(), PacketParser()
        yield from dissection.feed(parser.segments(self._from_file(one, report)))
        self._count(parser)
        yield from dissection.finish()

    def _count(self, parser: PacketParser) -> None:
        self.passed_over += parser.passed_over
        parser.passed_over.clear()

    def _merged(self, files: Sequence[TakenFile], report: CaptureReport) -> Iterable[Packets]:
        sources = [(one.first_ns, partial(self._from_file, one, report)) for one in files]
        return merge(sources, too_many(files[0].path))

    def _from_file(self, one: TakenFile, report: CaptureReport) -> Generator[Packets, None, None]:
        """The packets of a file that were not read at an earlier size."""
        left = one.packets
        try:
            for run in self._read(one, report):
                if left >= len(run.places):
                    left -= len(run.places)
                    continue
                yield (
                    replace(run, first=run.first + left, places=run.places[left:]) if left else run
                )
                left = 0
        except CaptureError as error:
            if self._on_loss is None:
                raise
            self._on_loss(str(error))

    def _read(self, one: TakenFile, report: CaptureReport) -> Generator[Packets, None, None]:
        """The packets of a file up to its size when it was taken."""
        file = FileReport(one.path, capture_name(one.path), size=one.size)
        report.files.append(file)
        size, _ = size_and_mtime(one.path)
        if size < one.size:
            raise CaptureError(one.path, "the file is shorter than it was when it was taken")
        with opened(one.path) as content:
            packed = is_packed(content.read1(8))
        stop, count = NOWHERE if packed else one.size, 0
        expanded, embedded = self._options.max_expanded, self._key_logs.embedded
        for run in read_file(one.path, file, stop, expanded, embedded):
            count = self._note_secrets(one, file, count)
            yield run
        self._note_secrets(one, file, count)
        file.finished = True

    def _note_secrets(self, one: TakenFile, file: FileReport, count: int) -> int:
        """Notes a file whose report counts more than `count` blocks of secrets; returns their number."""
        found = file.blocks[SECRETS_NAME]
        if found > count:
            kept = [each for each in self._with_secrets if each.path != one.path]
            self._with_secrets = [*kept, replace(one, size=min(file.position, one.size))]
        return found
