"""Ladder diagrams as figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.report.figures.ladder import STEPS, Steps, ladder

from tests.dissector.samples.rows import rows
from tests.support.audit import frame
from tests.support.paths import CAPTURES


def drawn(found: Steps) -> dict[str, dict[str, dict[str, list[object]]]]:
    made: dict[str, dict[str, dict[str, list[object]]]] = json.loads(ladder(found).to_json())
    return made


def steps(name: str, count: int, **columns: object) -> Steps:
    found = Steps(name)
    for number in range(1, count + 1):
        found.add(frame(number, subject="a<b>", **columns))
    return found


def test_the_frames_of_a_session() -> None:
    found = steps("00000000000000aa", 2)
    found.add(frame(3, op="-ERR", sender="responder", error="no"))
    found.add(frame(4, session="b" * 16))
    made = json.loads(ladder(found).to_json())
    layout = made["layout"]
    well, odd, labels = made["data"]
    assert (well["x"], well["y"]) == ([0, 1, None, 0, 1, None], [0, 0, None, 1, 1, None])
    assert (odd["x"], odd["y"]) == ([1, 0, None], [2, 2, None])
    assert labels["text"] == ["PUB a&lt;b&gt;", "PUB a&lt;b&gt;", "-ERR"]
    assert layout["xaxis"]["ticktext"] == ["originator", "responder"]
    assert layout["yaxis"]["ticktext"] == ["0 ns", "1.00 s", "2.00 s"]


def test_the_first_steps_of_many_whatever_their_order() -> None:
    one, other = steps("", STEPS, payload_bytes=1), Steps("")
    for number in range(STEPS + 100, STEPS, -1):
        other.add(frame(number))
    other.merge(one)
    assert [step.about for step in other.first][0].startswith("#1,")
    assert str(drawn(other)["layout"]["title"]["text"]).endswith("200 steps, the first 200 of 300")


def test_the_way_of_a_message() -> None:
    paths = rows([CAPTURES / "gateway-2.15.1.pcap"], ["paths"])
    message = next(row.message for row in paths if isinstance(row, PathRecord) and row.hop > 2)
    session, _, number = message.partition(":")
    found = Steps(f"{session[:6]}:{number}")
    for row in paths:
        found.add(row)
    names = drawn(found)["layout"]["xaxis"]["ticktext"]
    assert str(names[0]).startswith("client (") and len(names) > 2


def test_a_number_is_not_the_end_of_a_longer_one() -> None:
    paths = rows([CAPTURES / "gateway-2.15.1.pcap"], ["paths"])
    first = next(row for row in paths if isinstance(row, PathRecord))
    found = Steps("6")
    for message in ("aa:6", "bb:16", "bb:26"):
        found.add(replace(first, message=message))
    assert found.named == {"aa:6"}


def test_one_name_is_for_one_session() -> None:
    found = steps("", 1)
    found.add(frame(1, session="b" * 16))
    with pytest.raises(
        ValueError,
        match="^more than one session or message in these rows has a name that matches '",
    ):
        ladder(found)
    with pytest.raises(
        ValueError, match="^no session or message in these rows has a name that matches 'x'$"
    ):
        ladder(steps("x", 1))
