"""What layers get of messages that the kernel has read is what they get without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.application.paths.session import PathSession
from dissect.nats.pipeline import records
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.schema.records import Record

from tests.dissector.fuzzing.kernel import Count, generated, kernel
from tests.dissector.kernel.both import KERNEL
from tests.support.damage import pcap_bytes

pytest.importorskip("numba", reason="the kernel is compiled by numba, the extra fast")

pytestmark = KERNEL


@pytest.mark.parametrize("number", [0, 2, 3])
@pytest.mark.parametrize("block", [3000, 1 << 17])
def test_frames_of_layers_are_the_same(
    number: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, count = tmp_path / "case.pcap", Count()
    path.write_bytes(pcap_bytes(generated(number)))
    add, seen = PathSession.add, list[LayerFrame]()

    def noted(self: PathSession, frame: LayerFrame) -> object:
        seen.append(frame)
        return add(self, frame)

    monkeypatch.setattr(PathSession, "add", noted)
    found: list[tuple[list[Record], list[LayerFrame]]] = []
    for switch in ("off", "on"):
        with kernel(switch, block, count):
            rows = list(records([str(path)], ["sessions", "paths"]))
        found.append((rows, sorted(seen, key=lambda frame: (frame.session, frame.number))))
        seen.clear()
    assert found[0] == found[1]
    assert count.kept > 300
