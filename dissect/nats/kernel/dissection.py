"""A dissection that hands plain connections over to the kernel."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..capture import CaptureReport
from ..engine.dissection import Dissection
from ..engine.session_tables import ReleasedRows
from ..types import Packets
from .driver import Driver
from .load import Loader, least_packets
from .rows import WaitingRows

if TYPE_CHECKING:
    from .arrays import Arrays


class KernelDissection(Dissection):
    """A `Dissection` whose `read` uses the kernel once there are so many packets that it pays. `expected` is
    the size of the captures, if it is known before they are read; `is_used` is whether the kernel was
    loaded."""

    expected: int | None = None
    is_used = False
    _driver: Driver | None = None
    _loader: Loader | None = None
    _report: CaptureReport | None = None
    _packets = 0

    def packets(
        self, paths: Sequence[str], report: CaptureReport
    ) -> Generator[Packets, None, None]:
        """The packets of captures, whose size tells whether the kernel pays from the beginning on."""
        self._report = report
        return super().packets(paths, report)

    def rows_of(self, blocks: Iterable[Packets], together: bool) -> Iterator[ReleasedRows]:
        """The records that the next packets complete."""
        for run in blocks:
            if self._loader is None:
                size = self._report.size if self._report else self.expected
                self._loader = Loader(self._options, size, self._tables)
            if self._driver is None and (arrays := self._loader.arrays(len(run.block))):
                arrays.readers.join(self.readers)
                if self.share:
                    arrays.follow(self.share)
                self._driver = self._new_driver(arrays, together)
                self.is_used = True
            if self._driver is None:
                yield from self.feed(self.parser.feed([run]), together)
            else:
                yield from self._driver.rows_of(run, self._packets)
            self._packets += len(run.places)

    def finish(self, together: bool = True) -> Iterator[ReleasedRows]:
        """The records of all open flows, and of layers across sessions, after the last segment."""
        yield from self.take_back()
        yield from super().finish(together)

    def take_back(self) -> Iterator[ReleasedRows]:
        """Takes all connections back from the kernel. Returns the rows that wait there."""
        driver, self._driver = self._driver, None
        if driver:
            yield from driver.finish()

    def _new_driver(self, arrays: Arrays, together: bool) -> Driver:
        stages = self.parser, self._connections, self._table_builder
        rows = None
        if "frames" in self._tables:
            rows = WaitingRows(arrays, self._options, together, self._blocks)
        return Driver(arrays, *stages, self._options, rows, least_packets())
