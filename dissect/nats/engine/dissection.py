"""Packets of one timeline -> the records of tables: the one place that wires the stages.

    dissection = Dissection(["sessions"], options)
    for rows in dissection.read(dissection.packets(["capture.pcap"], report)):
        ...

The stages are capture, packet, tcp, transport and framing, sessions and application layers. The time range,
the key logs, the limits and the need of payloads come from the options and the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice

from ..capture import CaptureReport, read_runs
from ..capture.embedded_secrets import read_secrets
from ..capture.reader import RecordReaders
from ..capture.time_range import packets_between
from ..options import Options
from ..packet import PacketParser
from ..secrets.key_log import KeyLogs
from ..tables import needs_payloads
from ..types import EARLIEST_NS, Packets, Segment, Share, Tick
from .connections import ConnectionTable, PacketEvents
from .session_tables import ReleasedRows, TableBuilder

OnProgress = Callable[[int], None]
"""Called now and then with the number of packets read, once all rows that they released are consumed."""

# Records that are complete are released, and progress is reported, after this many blocks of packets (2 MiB).
_BLOCKS = 16


class Dissection:
    """The dissection of one timeline into the records of `tables`, which are names in `tables.TABLES`.

    Call `read` for everything at once. Otherwise call `feed` any number of times, then `finish`, then
    `close`; or `events`, and `tables` with the events that are wanted.

    With `quiet`, the state is the same, but no records are made. With `blocks`, frames of the kernel come as
    blocks (see `kernel.frame_block`); with `request_events`, requests come as events. `protocols` counts the
    connections that are over, `tcp_bytes` their bytes. `key_logs` has the TLS secrets; None means those in
    `options.keylog`. With `share`, it dissects a share of the flows, with its part of the limits.
    """

    def __init__(
        self,
        tables: Collection[str],
        options: Options,
        quiet: bool = False,
        key_logs: KeyLogs | None = None,
        blocks: bool = False,
        request_events: bool = False,
        protocols: Counter[str] | None = None,
        share: Share | None = None,
        tcp_bytes: Counter[str] | None = None,
    ) -> None:
        if share:
            options = options.share(len(set(share.buckets)))
        self.share = share
        self.parser = PacketParser(share.has if share else None)
        self.readers = RecordReaders()
        self._tables = tables
        self._options = options
        self._blocks = blocks
        self._connections = ConnectionTable(options, needs_payloads(tables), key_logs)
        self._table_builder = TableBuilder(
            tables, options, quiet, protocols, request_events, tcp_bytes
        )

    @property
    def key_logs(self) -> KeyLogs:
        """The TLS secrets that all connections share."""
        return self._connections.key_logs

    def packets(
        self, paths: Sequence[str], report: CaptureReport
    ) -> Generator[Packets, None, None]:
        """The packets of captures in order of time, within the time range of the options. The TLS secrets
        embedded in the captures are added to the key logs."""
        expanded, key_logs = self._options.max_expanded, self.key_logs
        key_logs.look_ahead_with(partial(read_secrets, paths, expanded))
        runs = read_runs(paths, report, expanded, embedded=key_logs.embedded, readers=self.readers)
        with closing(runs) as blocks:
            yield from self.within(blocks)

    def within(self, blocks: Iterable[Packets]) -> Iterator[Packets]:
        """The packets within the time range of the options."""
        from_time, until_time = self._options.from_time, self._options.until_time
        if from_time is None and until_time is None:
            return iter(blocks)
        return packets_between(blocks, from_time, until_time)

    def read(
        self,
        blocks: Iterable[Packets],
        together: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Generator[ReleasedRows, None, None]:
        """The records of all packets, as they become complete. With `together`, records may come a few groups
        of events later, which takes less time."""
        left, count = iter(blocks), 0

        def counted(some: Iterable[Packets]) -> Iterator[Packets]:
            nonlocal count
            for block in some:
                count += len(block.places)
                yield block

        with closing(self):
            for block in left:
                some = counted(chain([block], islice(left, _BLOCKS - 1)))
                yield from self.rows_of(some, together)
                if on_progress:
                    on_progress(count)
            self.parser.finish()
            yield from self.finish(together)

    def rows_of(self, blocks: Iterable[Packets], together: bool) -> Iterator[ReleasedRows]:
        """The records that the next packets complete."""
        return self.feed(self.parser.feed(blocks), together)

    def feed(
        self, source: Iterable[Segment | Tick], together: bool = True
    ) -> Iterator[ReleasedRows]:
        """The records that these segments complete. `together` is as for `read`."""
        return self._table_builder.feed(self._connections.feed(source), together)

    def pass_time(self, ts_ns: int) -> Iterator[ReleasedRows]:
        """The records of flows that end because a packet of another flow has this time. At EARLIEST_NS there
        was no packet."""
        if ts_ns == EARLIEST_NS:
            return iter(())
        return self.feed([Tick(ts_ns), Tick(ts_ns)])  # the second one agrees, if this is far ahead

    def resume_after(self, ts_ns: int) -> None:
        """Continues after a packet, of any flow, that had this time. At EARLIEST_NS there was none."""
        if ts_ns != EARLIEST_NS:
            self._connections.table.clock_ns = ts_ns

    def finish(self, together: bool = True) -> Iterator[ReleasedRows]:
        """The records of all open flows, and of layers across sessions, after the last segment."""
        yield from self._table_builder.feed(self._connections.finish(), together)
        yield from self._table_builder.finish()

    def events(self, blocks: Iterable[Packets]) -> Iterator[PacketEvents]:
        """The events of all connections, as packets release them."""
        yield from self._connections.feed(self.parser.segments(blocks))
        yield from self._connections.finish()

    def tables(self, events: Iterable[PacketEvents]) -> Generator[ReleasedRows, None, None]:
        """The records that each group of events completes, before the next group is requested."""
        with closing(self):
            yield from self._table_builder.feed(events)
            yield from self._table_builder.finish()

    def close(self) -> None:
        """Frees the files of layers across sessions."""
        self._table_builder.close()
