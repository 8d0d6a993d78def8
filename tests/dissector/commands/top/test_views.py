"""The views of `nats-dissect top`: order, filter, keys, JSON."""

from __future__ import annotations

import json

import pytest

from dissect.nats.commands.top.traffic import SubjectLine, TopTraffic
from dissect.nats.commands.top.views import VIEWS, Controls, json_lines, ordered, table_text
from dissect.nats.output.terminal import PLAIN

CONNECTIONS, SUBJECTS, REQUESTS, PROBLEMS = VIEWS


def traffic() -> TopTraffic:
    made = TopTraffic()
    for number, (subject, size) in enumerate((("b.Two", 20), ("a.one", 10), ("c.\x1b[2J", 30))):
        line = made.subjects.line(subject, lambda: SubjectLine(subject=subject))
        line.bytes, line.last_ns = size, number + 1
    made.measure(1.0)
    return made


def pressed(*keys: str) -> Controls:
    controls = Controls()
    for key in keys:
        controls.press(key)
    return controls


def subjects(controls: Controls) -> list[str]:
    lines = ordered(traffic(), controls, SUBJECTS)
    return [line.subject[0] for line in lines if isinstance(line, SubjectLine)]


def test_lines_are_in_the_order_that_keys_choose() -> None:
    assert subjects(pressed()) == ["c", "b", "a"]  # bytes per second
    assert subjects(pressed("s", "i")) == ["a", "b", "c"]
    by_subject = Controls(sorts={**Controls().sorts, "subjects": ("subject", False)})
    assert subjects(by_subject) == ["a", "b", "c"]
    by_count = Controls(sorts={**Controls().sorts, "subjects": ("published", True)})
    assert subjects(by_count) == ["c", "a", "b"]  # the latest first


def test_a_filter_is_typed_corrected_and_cleared() -> None:
    assert subjects(pressed("/", *"TWX", "\x7f", "o", "\r")) == ["b"]
    assert subjects(pressed("/", *"q", "\x1b")) == ["c", "b", "a"]
    typing = pressed("/", *"qs")
    assert typing.typing and typing.filter == "qs" and not typing.quit
    assert pressed("/", *"q", "\r", "\x1b").filter == ""


def test_keys_choose_view_order_and_pause() -> None:
    assert [pressed(key).view for key in "csrp"] == list(VIEWS)
    assert pressed("\t").view is SUBJECTS and pressed(*"\t\t\t\t").view is CONNECTIONS
    assert pressed("q").quit and pressed(" ").paused and not pressed(" ", " ").paused
    assert pressed("s", ">").sorts["subjects"] == ("published", True)
    assert pressed("s", "left").sorts["subjects"] == ("forwarded_per_s", True)
    assert pressed("x", "é") == Controls()


def test_json_lines_have_every_figure_of_a_view() -> None:
    rows = [json.loads(line) for line in json_lines(traffic(), Controls(), (SUBJECTS, PROBLEMS))]
    assert [row["subject"] for row in rows] == ["c.\x1b[2J", "b.Two", "a.one"]
    assert rows[1] == {
        "view": "subjects",
        "subject": "b.Two",
        **dict.fromkeys(("published_per_s", "delivered_per_s", "forwarded_per_s"), 0.0),
        **dict.fromkeys(("published", "delivered", "forwarded"), 0),
        "bytes_per_s": 20.0,
        "bytes": 20,
        "last_ns": 1,
        "time": "1970-01-01T00:00:00.000000001Z",
    }


def test_a_table_does_nothing_to_the_terminal() -> None:
    text = table_text(SUBJECTS, ordered(traffic(), Controls(), SUBJECTS), PLAIN)
    assert "\x1b" not in text and "c.\\x1b[2J" in text
    assert [line.split()[0] for line in text.splitlines()] == [
        "subject",
        "c.\\x1b[2J",
        "b.Two",
        "a.one",
    ]


def test_a_column_that_is_none() -> None:
    assert REQUESTS.field("p99_ns").text.name == "p99"
    with pytest.raises(
        ValueError, match="^requests has no column 'p98'; it has subject, requests_per_s"
    ):
        REQUESTS.field("p98")
