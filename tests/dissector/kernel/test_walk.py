"""The walk stops at what is not plain, and keeps the rest."""

from __future__ import annotations

from dissect.nats.kernel.state import LAST_MESSAGE, Op

from tests.dissector.kernel.both import KERNEL
from tests.support.paths import ROOT

pytestmark = KERNEL


def test_messages_come_before_other_operations() -> None:
    assert [
        op.name for op in Op if op <= LAST_MESSAGE
    ] == "PUB HPUB MSG HMSG RMSG RHMSG LMSG".split()


def test_compiled_code_never_skips_the_check_of_an_index() -> None:
    source = (ROOT / "dissect/nats/kernel/jit.py").read_text()
    assert "boundscheck=True" in source
    assert "fastmath" not in source
