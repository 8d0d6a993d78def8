"""A dissection uses the kernel only after many packets, and its rows are the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.capture import CaptureReport, reader
from dissect.nats.engine import dissection
from dissect.nats.engine.dissection import Dissection
from dissect.nats.kernel.dissection import KernelDissection
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.packet import PacketParser
from dissect.nats.pipeline import records, released
from dissect.nats.types import Share

from tests.dissector.fuzzing.kernel import generated
from tests.dissector.kernel.both import KERNEL
from tests.support.damage import pcap_bytes

pytestmark = KERNEL


@pytest.mark.parametrize("switch", ["on", ""])
def test_rows_do_not_depend_on_who_makes_them(
    switch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "case.pcap"
    path.write_bytes(pcap_bytes(generated(0)))
    monkeypatch.setenv(VARIABLE, switch)
    rows = []
    for kind in (Dissection, KernelDissection):
        made = kind(["sessions"], Options())
        packets = made.packets([str(path)], CaptureReport())
        rows.append([row for rows in made.read(packets) for row in rows.records])
    assert rows[0] == rows[1]
    assert rows[0]
    assert "numba" in sys.modules or not switch


def test_shares_of_the_flows_make_the_same_rows_and_the_kernel_passes_over_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "case.pcap"
    path.write_bytes(pcap_bytes(generated(0)))
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setattr(reader, "BLOCK", 1 << 14)  # so that it follows connections soon
    passed_over = []

    class Seen(PacketParser):
        def finish(self) -> None:
            passed_over.append(self.other_shard)
            super().finish()

    some = ("sessions", "flows"), ("requests", "subscriptions")
    whole = [sorted(map(repr, records([str(path)], tables))) for tables in some]
    monkeypatch.setattr(dissection, "PacketParser", Seen)
    for tables, expected in zip(some, whole):
        found = list[str]()
        for number in range(3):
            for share in released([str(path)], tables, share=Share(number, range(3))):
                found += map(repr, share.records)
        assert sorted(found) == expected != []
    assert len(passed_over) == 6 and max(passed_over) < len(generated(0).records) // 4
