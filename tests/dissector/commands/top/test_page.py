"""The screen of `nats-dissect top` as text."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from dissect.nats import CaptureReport, Options
from dissect.nats.capture.report import FileReport, InterfaceReport
from dissect.nats.commands.top.command import count, open_dissection
from dissect.nats.commands.top.page import screen_text, summary
from dissect.nats.commands.top.traffic import TopTraffic
from dissect.nats.commands.top.views import VIEWS, Controls
from dissect.nats.output.terminal import Terminal

from tests.support.paths import CAPTURES


@pytest.fixture(scope="module")
def seen() -> tuple[TopTraffic, CaptureReport]:
    traffic, report = TopTraffic(), CaptureReport()
    dissection = open_dissection(Options(), report)
    blocks = dissection.packets([str(CAPTURES / "orders-2.15.1.pcap")], report)
    count(blocks, dissection, traffic)
    traffic.measure(1.0)
    return traffic, report


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 10), (10, 3)])
def test_a_page_fits_its_terminal(
    seen: tuple[TopTraffic, CaptureReport], view: object, size: tuple[int, int]
) -> None:
    controls = Controls(view=next(each for each in VIEWS if each is view))
    columns, lines = size
    text = screen_text(*seen, controls, Terminal(columns), lines, "")
    assert len(text.splitlines()) == lines
    assert max(map(cell_len, text.splitlines())) <= columns


def test_a_filter_with_wide_characters_fits() -> None:
    controls = Controls(filter="数据" * 20)
    text = screen_text(TopTraffic(), CaptureReport(), controls, Terminal(80), 24, "")
    assert max(map(cell_len, text.splitlines())) == 80


def test_the_column_of_the_order_is_marked_and_stays(
    seen: tuple[TopTraffic, CaptureReport],
) -> None:
    controls = Controls()
    for _ in VIEWS[0].fields:
        name, _ = controls.sorts["connections"]
        title = VIEWS[0].field(name).text.name
        head = screen_text(*seen, controls, Terminal(80), 24, "").splitlines()[4]
        assert f"*{title}"[:7] in head
        controls.press(">")


def test_lines_that_do_not_fit_are_counted(seen: tuple[TopTraffic, CaptureReport]) -> None:
    traffic, _ = seen
    text = screen_text(*seen, Controls(view=VIEWS[1]), Terminal(80), 24, "")
    assert f" +{len(traffic.subjects) - 17} more" in text
    assert len(text.splitlines()) == 24


def test_what_was_lost_is_reported() -> None:
    file = FileReport("a", "a", packets=3)
    file.interfaces.append(InterfaceReport(1, 0, system_drops=7))
    first, *_ = summary(TopTraffic(), CaptureReport([file]))
    assert first == "no packets  3 packets, lost 0 B, dropped 7"


def test_the_note_and_the_filter_are_shown_safely() -> None:
    controls = Controls(filter="\x1b[2J", typing=True)
    text = screen_text(
        TopTraffic(), CaptureReport(), controls, Terminal(80), 24, "the input has ended"
    )
    assert "the input has ended" in text and "filter: \\x1b[2J_" in text and "\x1b" not in text
    assert "Enter: keep" in text
