"""The page, in a real browser without a network: it draws, filters, links and prints, harms nobody, and a
screen reader can read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.audit.engines.duckdb import over_records
from dissect.nats.capture import CaptureReport
from dissect.nats.pipeline import records
from dissect.nats.report.answers import Answers, answers_of
from dissect.nats.report.findings import Findings, findings_in, rules, wanted
from dissect.nats.report.page.page import SECTIONS, details, page
from dissect.nats.schema.records import FrameRecord

from tests.support.browser import Visit, chromium
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.report import answers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A browser reads five megabytes of script for each page, and machines are busy.
pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser")]

SAMPLES = sorted(str(path) for path in CAPTURES.glob("*.pcap*"))
RICH = [str(CAPTURES / f"{name}-2.15.1.pcap") for name in ("gateway", "orders", "slow")]
WIDTHS = (360, 768, 1280)

# Plotly's stylesheet of maps, which no figure uses. The policy refuses it.
REFUSED = "Applying inline style violates"

EVIL = (
    "<script>window.harmed=1</script>",
    "</script><script>window.harmed=2</script>",
    '"><img src=x onerror=window.harmed=3>',
    "<svg/onload=window.harmed=4>",
    "<a href='javascript:window.harmed=5'>click</a>",
    "{{7*7}}{%raw%}${7*7}#{7*7}",
    "gpj.\u202eexe\u2066",
    "--><!--<script>",
    "<b>bold</b><br>&lt;i&gt;&#x3c;",
    "javascript:window.harmed=6//",
    "constructor",
    "__proto__",
)


def page_of(paths: list[str]) -> str:
    report = CaptureReport()
    findings, found = shown_of(paths, report)
    return page(found, findings, report, "NATS in samples")


def shown_of(paths: list[str], report: CaptureReport) -> tuple[Findings, Answers]:
    queries = rules()
    columns = wanted(queries)
    with over_records(
        columns, lambda tables: records(paths, tables, report=report), columns
    ) as engine:
        return findings_in(queries, engine), answers_of(engine)


def hostile_capture() -> bytes:
    """A capture in which every text is an attack."""
    conversation = Conversation().handshake()
    names = iter(EVIL * 9)
    info = {
        "server_id": next(names),
        "server_name": next(names),
        "version": next(names),
        "cluster": next(names),
        "headers": True,
        "max_payload": 1 << 20,
    }
    connect = {
        "name": next(names),
        "lang": next(names),
        "version": next(names),
        "user": next(names),
        "pass": "hunter2",
        "headers": True,
        "verbose": False,
        "pedantic": False,
    }
    conversation.from_server(f"INFO {json.dumps(info)}\r\n".encode())
    conversation.from_client(f"CONNECT {json.dumps(connect)}\r\nPING\r\n".encode())
    conversation.from_server(b"PONG\r\n")
    for number, text in enumerate(EVIL):
        subject = text.replace(" ", "/")
        header = f"NATS/1.0 503 {text}\r\nX: {text}\r\n\r\n".encode()
        inbox = f"_INBOX.{number}.{subject}"
        conversation.from_client(f"SUB {subject}.* {subject} {number}\r\n".encode())
        conversation.from_client(f"PUB {subject}.new {inbox} 2\r\nhi\r\n".encode())
        conversation.from_server(f"MSG {inbox} {number} 2\r\nhi\r\n".encode())
        conversation.from_server(
            f"HMSG {subject} {number} {len(header)} {len(header)}\r\n".encode() + header + b"\r\n"
        )
        api = f"$JS.API.STREAM.CREATE.{subject.replace('.', '_')}"
        answer = json.dumps(
            {
                "type": "io.nats.jetstream.api.v1.stream_create_response",
                "error": {"code": 400, "err_code": 10058, "description": text},
            }
        ).encode()
        conversation.from_client(f"PUB {api} {inbox}.api 2\r\n{{}}\r\n".encode())
        conversation.from_server(
            f"MSG {inbox}.api {number} {len(answer)}\r\n".encode() + answer + b"\r\n"
        )
        ack = f"$JS.ACK.{subject.replace('.', '_')}.c.3.1.3.1795226503304022000.{number}"
        conversation.from_server(f"MSG {subject}.x {number} {ack} 2\r\nhi\r\n".encode())
        conversation.from_client(f"PUB {ack} 4\r\n+ACK\r\n".encode())
        conversation.from_server(f"-ERR '{text}'\r\n".encode())
    return pcap_file(conversation.records)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def rich_text() -> str:
    return page_of(RICH)


@pytest.fixture(scope="module")
def rich(
    browser: Browser, rich_text: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visit]:
    """A page with something in every section, which several tests look at: opening one takes seconds."""
    path = tmp_path_factory.mktemp("report") / "rich.html"
    path.write_text(rich_text, encoding="utf-8")
    with Visit(browser, path) as visit:
        yield visit


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    capture = folder / "<img src=x onerror=window.harmed=7>.pcap"
    capture.write_bytes(hostile_capture())
    path = folder / "hostile.html"
    path.write_text(page_of([str(capture)]), encoding="utf-8")
    return path


def test_it_is_small_and_always_the_same(rich_text: str) -> None:
    text = page_of(SAMPLES)
    assert len(text.encode()) <= 6_000_000
    assert page_of(RICH) == rich_text
    assert [text.count(f'<section id="{section.id}"') for section in SECTIONS] == [1] * len(
        SECTIONS
    )


def test_secrets_are_masked(hostile: Path) -> None:
    text = page_of([str(CAPTURES / name) for name in ("auth-2.15.1.pcap", "core-2.15.1.pcap")])
    for secret in ("s3cr3t", "hunter2", "eyJ0eXAi"):
        assert secret not in text
    assert "hunter2" not in hostile.read_text(encoding="utf-8")


def test_it_draws_without_a_network_at_any_width(rich: Visit) -> None:
    rich.draw_everything()
    assert rich.page.locator(".plot svg.main-svg").count() >= 8
    root = "document.documentElement"
    for width in WIDTHS:
        rich.resize(width)
        rich.wait_until(f"{root}.scrollWidth <= {root}.clientWidth")
    assert rich.requests == rich.errors == []
    assert [text for text in rich.console if REFUSED not in text] == []


def test_tables_are_filtered(rich: Visit) -> None:
    page = rich.page
    page.fill("#search", "west-1 gateway")
    shown = page.locator("#sessions table tbody tr:visible")
    assert {"gateway" in text for text in shown.all_text_contents()} == {True}
    assert re.match(r"\d+ of \d+ rows", page.inner_text("#match-count"))
    page.fill("#search", "")
    page.uncheck("#kinds input[value=client]")
    assert page.locator("tr[data-kind=client]:visible").count() == 0
    page.check("#kinds input[value=client]")
    page.check("#trouble")
    assert page.locator("tr[data-kind]:not([data-trouble]):visible").count() == 0
    page.uncheck("#trouble")
    assert page.inner_text("#match-count") == ""


def test_tables_are_sorted(rich: Visit) -> None:
    talkers = rich.page.locator("#sessions table:has(caption:text-is('Talkers'))")
    talkers.locator("thead button", has_text="sent bytes").click()
    cells = talkers.locator("tbody td:nth-child(4)").all()
    column = [int(cell.get_attribute("data-value") or 0) for cell in cells]
    assert column == sorted(column, reverse=True) and column[0] > 0
    assert talkers.locator("th[aria-sort=descending]").count() == 1


def test_ladders_of_sessions_and_of_messages(rich: Visit) -> None:
    page = rich.page
    slow = page.locator("#requests table:has(caption:has-text('Slowest')) tbody a").first
    name = slow.inner_text()
    slow.click()
    page.wait_for_selector("table.ladder tr.chosen")
    assert page.inner_text("table.ladder caption").split()[1].startswith(name[:8])
    assert page.inner_text("tr.chosen .number") == name.partition(":")[2]
    message = page.locator("#pick-message option").nth(1).get_attribute("value")
    page.select_option("#pick-message", message)
    page.wait_for_selector("table.ladder caption:has-text('message')")
    assert page.locator("table.ladder .arrow").count() > 1


def test_the_drawing_leads_to_sessions_by_keyboard(rich: Visit) -> None:
    rich.page.locator(".drawing a.server").first.focus()
    rich.page.keyboard.press("Enter")
    rich.wait_until("document.getElementById('search').value !== ''")
    assert rich.page.locator("#sessions tbody tr:visible").count() > 0
    rich.page.fill("#search", "")


def test_charts_take_the_colours_of_the_system(rich: Visit) -> None:
    rich.draw_everything()
    fill = "getComputedStyle(document.querySelector('#figure-traffic .xtick text')).fill"
    for scheme, light in (("dark", False), ("light", True)):
        rich.colours("dark" if scheme == "dark" else "light")
        rich.wait_until(f"(parseInt({fill}.match(/\\d+/)[0]) < 128) === {str(light).lower()}")


def test_on_paper_every_chart_is_there(rich: Visit) -> None:
    assert len(rich.page.pdf()) > 10_000
    drawn = rich.page.locator(".plot:has(svg.main-svg)")
    assert drawn.count() == rich.page.locator(".plot").count() > 5


def test_a_screen_reader_can_read_it(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "small.html"
    path.write_text(page_of(RICH[:1]), encoding="utf-8")
    with Visit(browser, path) as visit:
        visit.draw_everything()
        session = visit.page.locator("#pick-session option").last.get_attribute("value")
        visit.page.select_option("#pick-session", session)
        visit.page.wait_for_selector("table.ladder")
        assert visit.audit() == []
        visit.resize(360)
        visit.colours("dark")
        assert visit.audit(["color-contrast"]) == []


def test_nothing_from_the_wire_does_harm(browser: Browser, hostile: Path) -> None:
    source = hostile.read_text(encoding="utf-8")
    assert "\u202e" not in source.partition("plotly.js v")[0]
    with Visit(browser, hostile) as visit:
        page = visit.page
        visit.draw_everything()
        for option in page.locator("#pick-session option, #pick-message option").all():
            value = option.get_attribute("value") or "none"
            what = "message" if ":" in value else "session"
            page.evaluate("(hash) => { location.hash = hash }", f"{what}/{value}")
        for link in page.locator(".drawing a, #sessions th a").all()[:12]:
            link.dispatch_event("click")
        for part in page.locator("#figure-subjects path.surface").all()[:6]:
            part.hover(force=True)
        links = page.eval_on_selector_all(
            "main a", "items => items.map(a => a.getAttribute('href'))"
        )
        assert links and all(link is None or link.startswith("#") for link in links)
        assert page.evaluate("window.harmed") is None
        assert visit.errors == visit.requests == []
        assert page.locator("script").count() == 3
        alive = "main img, iframe, object, embed, [onerror], [onload], [onclick]"
        assert page.locator(alive).count() == 0
        text = page.inner_text("main")
        for expected in ("{{7*7}}{%raw%}", "window.harmed=1</script>", "gpj.\\u202eexe"):
            assert expected in text


def test_a_page_without_anything_in_it_forbids_connections_and_scripts(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "empty.html"
    path.write_text(
        page(answers(), Findings(), CaptureReport(), "NATS in nothing"), encoding="utf-8"
    )
    tried = """async () => {
        const tries = [fetch("https://example.org/"), fetch("file:///etc/hostname")];
        const image = new Image();
        image.src = "https://example.org/a.png";
        const script = document.createElement("script");
        script.textContent = "window.harmed = 1";
        document.body.append(image, script);
        const results = await Promise.allSettled(tries);
        return [results.map((item) => item.status), window.harmed];
    }"""
    with Visit(browser, path) as visit:
        assert visit.errors == []
        assert "There are no NATS frames" in visit.page.inner_text("#summary")
        assert visit.page.evaluate(tried) == [["rejected", "rejected"], None]
        assert visit.requests == []


@pytest.mark.slow
def test_a_page_of_a_million_frames(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "million.html"
    rows = [row for row in records(SAMPLES, ["frames"]) if isinstance(row, FrameRecord)]

    def many() -> Iterator[FrameRecord]:
        for turn in range(1_000_000 // len(rows) + 1):
            for row in rows:
                moved = replace(row, session=f"{turn % 40:02x}{row.session[2:]}")
                moved.number += turn // 40 * 5000
                moved.ts_ns += turn * 10**9
                if moved.subject and turn % 3 == 0:
                    moved.subject += f".{turn}.{moved.number}"
                yield moved

    found = answers(many())
    path.write_text(page(found, Findings(), None, "NATS in a million frames"), encoding="utf-8")
    assert found.totals.frames >= 1_000_000 and path.stat().st_size <= 25_000_000
    with Visit(browser, path) as visit:
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        assert visit.page.evaluate(paint) <= 3000
        assert "Ladders show" in visit.page.inner_text("#unseen")


def test_long_fields_of_findings_open() -> None:
    values = {"stream": "ORDERS", "response": json.dumps({"type": "advisory", "text": "x" * 200})}
    findings, _ = shown_of([str(CAPTURES / "auth-2.15.1.pcap")], CaptureReport())
    finding, *_ = findings.worst
    short, long = details(replace(finding, fields=json.dumps(values)))
    assert short == ("stream", "ORDERS", [])
    assert long.text.endswith("…") and len(long.text) == 100
    assert long.lines[:2] == ["{", '  "type": "advisory",']
    (cut_off,) = details(replace(finding, fields=json.dumps({"request": "{" * 5000})))
    (line,) = cut_off.lines
    assert line.endswith("…") and len(line) == 4000
