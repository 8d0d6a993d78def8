"""Ladder diagrams as figures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from dissect.nats import plots
from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.report.figures.ladder import STEPS
from dissect.nats.schema.records import FrameRecord

from tests.dissector.samples.rows import rows
from tests.support.audit import frame
from tests.support.paths import CAPTURES

Drawn = dict[str, dict[str, dict[str, list[object]]]]


def drawn(frames: Iterable[FrameRecord], session: str = "") -> Drawn:
    made: Drawn = json.loads(plots.ladder(frames, session).to_json())
    return made


def some(count: int, **columns: object) -> list[FrameRecord]:
    return [frame(number, subject="a<b>", **columns) for number in range(1, count + 1)]


def test_the_frames_of_a_session() -> None:
    frames = [
        *some(2),
        frame(3, op="-ERR", sender="responder", error="no"),
        frame(4, session="b" * 16),
    ]
    made = json.loads(plots.ladder(frames, "00000000000000aa").to_json())
    layout = made["layout"]
    well, odd, labels = made["data"]
    assert (well["x"], well["y"]) == ([0, 1, None, 0, 1, None], [0, 0, None, 1, 1, None])
    assert (odd["x"], odd["y"]) == ([1, 0, None], [2, 2, None])
    assert labels["text"] == ["PUB a&lt;b&gt;", "PUB a&lt;b&gt;", "-ERR"]
    assert layout["xaxis"]["ticktext"] == ["originator", "responder"]
    assert layout["yaxis"]["ticktext"] == ["0 ns", "1.00 s", "2.00 s"]


def test_the_first_steps_of_many_whatever_their_order() -> None:
    made = json.loads(plots.ladder(some(STEPS + 100)[::-1]).to_json())
    assert made["data"][2]["customdata"][0].startswith("#1,")
    assert made["layout"]["title"]["text"].endswith("200 steps, the first 200 of 300")


def test_the_way_of_a_message() -> None:
    paths = rows([CAPTURES / "gateway-2.15.1.pcap"], ["paths"])
    message = next(row.message for row in paths if isinstance(row, PathRecord) and row.hop > 2)
    session, _, number = message.partition(":")
    made = json.loads(plots.message_path(paths, f"{session[:6]}:{number}").to_json())
    names = made["layout"]["xaxis"]["ticktext"]
    assert str(names[0]).startswith("client (") and len(names) > 2


def test_a_number_is_not_the_end_of_a_longer_one() -> None:
    paths = rows([CAPTURES / "gateway-2.15.1.pcap"], ["paths"])
    first = next(row for row in paths if isinstance(row, PathRecord))
    every = [replace(first, message=message) for message in ("aa:6", "bb:16", "bb:26")]
    made = json.loads(plots.message_path(every, "6").to_json())
    assert made["layout"]["title"]["text"] == "aa:6: 1 step"


def test_one_name_is_for_one_session() -> None:
    with pytest.raises(
        ValueError,
        match="^more than one session or message in these rows has a name that matches '",
    ):
        drawn([*some(1), frame(1, session="b" * 16)])
    for name in ("x", "' OR '1' = '1", "%"):
        with pytest.raises(
            ValueError, match="^no session or message in these rows has a name that matches"
        ):
            drawn(some(1), name)
