"""The page of the manual names everything that is public in natsync.streaming."""

from __future__ import annotations

import inspect
import re

import pytest

from natsync import streaming

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
TOLD = {word for code in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"\w+", code)}


def test_every_name_is_told_of() -> None:
    assert set(streaming.__all__) - TOLD == set()


@pytest.mark.parametrize(
    "kind",
    [
        streaming.StreamingConnection,
        streaming.Subscription,
        streaming.Msg,
        streaming.PubAckFuture,
    ],
)
def test_every_method_is_told_of(kind: type) -> None:
    inner = {"open", "end"}  # for the connection, which opens and ends subscriptions
    assert {name for name in vars(kind) if name[0] != "_"} - inner - TOLD == set()


@pytest.mark.parametrize(
    "call",
    [streaming.connect, streaming.StreamingConnection.subscribe],
    ids=["connect", "subscribe"],
)
def test_every_option_is_told_of(call: object) -> None:
    assert callable(call)
    assert set(inspect.signature(call).parameters) - {"self"} - TOLD == set()
