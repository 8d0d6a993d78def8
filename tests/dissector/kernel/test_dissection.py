"""A dissection uses the kernel only after many packets, and its rows are the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.capture import CaptureReport
from dissect.nats.engine.dissection import Dissection
from dissect.nats.kernel.dissection import KernelDissection
from dissect.nats.kernel.load import VARIABLE

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
        dissection = kind(["sessions"], Options())
        packets = dissection.packets([str(path)], CaptureReport())
        rows.append([row for rows in dissection.read(packets) for row in rows.records])
    assert rows[0] == rows[1]
    assert rows[0]
    assert "numba" in sys.modules or not switch
