"""Draws docs/pictures/archive-dashboard.svg: `python -m tests.support.dashboard_picture` (needs Prometheus).

This is no photograph of Grafana. The panels, their places and queries are those of the dashboard in
samples/grafana; the values are answers of a real Prometheus, which for three minutes has read the counters of
a real archive: of a sensor with a burst, a damaged file and one that is no capture.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from html import escape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from math import sin
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.bench.generate import write
from tests.bench.recorder import Plan
from tests.support.damage import pcap_bytes, read_pcap
from tests.support.meshes import lasting_ports
from tests.support.paths import ROOT

DASHBOARD = ROOT / "samples" / "grafana" / "nats-dissect-archive.json"
PICTURE = ROOT / "docs" / "pictures" / "archive-dashboard.svg"
SECONDS = 180
EVERY = 2
BURST = range(90, 100)  # seconds with many times the traffic
DAMAGED, NO_CAPTURE = 40, 130
CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
  - {job_name: archive, metrics_path: /archive.prom, static_configs: [{targets: ["127.0.0.1:%d"]}]}
"""
COLUMN, ROW, GAP, TOP = 50, 26, 6, 44
COLORS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#f2495c", "#8ab8ff", "#96d98d")
STEPS = {"green": "#73bf69", "yellow": "#f2cc0c", "red": "#f2495c"}

Series = dict[str, list[tuple[float, float]]]


@contextmanager
def running(*command: str | Path, log: Path) -> Iterator[None]:
    """A program, until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def sensor(captures: Path) -> None:
    """Writes a capture every two seconds, as a capture program would."""
    file = io.BytesIO()
    write(file, Plan(100_000))
    whole = read_pcap(file.getvalue())
    at, begin = 0, time.monotonic()
    for second in range(0, SECONDS, EVERY):
        time.sleep(max(0.0, begin + second - time.monotonic()))
        packets = int(600 + 250 * sin(second / 15)) * (12 if second in BURST else 1)
        content = pcap_bytes(whole.with_records(whole.records[at : at + packets]))
        at += packets
        if second == DAMAGED:
            content = content[:-40]
        if second == NO_CAPTURE:
            (captures / "notes.txt").write_text("Dear all")
        (captures / f"nats-{second:03}.pcap").write_bytes(content)


def answers(prometheus: str, query: str, begin: float, end: float) -> list[dict[str, Any]]:
    """What Prometheus says of a query of the dashboard."""
    for name, value in (("$__rate_interval", "10s"), ("$__range", "180s"), ("$instance", ".*")):
        query = query.replace(name, value)
    asked = urlencode({"query": query, "start": begin, "end": end, "step": 1})
    with urlopen(f"{prometheus}/api/v1/query_range?{asked}") as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


def series_of(panel: Mapping[str, Any], prometheus: str, begin: float, end: float) -> Series:
    """The lines of a panel by their names in the legend."""
    found: Series = {}
    for target in panel["targets"]:
        for one in answers(prometheus, target["expr"], begin, end):
            name = target["legendFormat"]
            for label, value in one["metric"].items():
                name = name.replace("{{%s}}" % label, Path(value).name)
            found[name] = [(float(when), float(value)) for when, value in one["values"]]
    return found


def shown(value: float, unit: str) -> str:
    """A value with its unit, in three digits."""
    suffix = {"s": "s", "Bps": "B/s", "pps": "p/s", "rowsps": "rows/s"}.get(unit, "")
    for factor, prefix in ((1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{suffix}"
    return f"{value:.3g} {suffix}".rstrip()


def stat(panel: Mapping[str, Any], series: Series, width: int, height: int) -> Iterator[str]:
    """A panel with the latest value, in the color of its threshold."""
    defaults = panel["fieldConfig"]["defaults"]
    value = next((points[-1][1] for points in series.values()), 0.0)
    steps = [one for one in defaults["thresholds"]["steps"] if (one["value"] or 0) <= value]
    text = f"{value:.0f}" if "decimals" in defaults else shown(value, defaults["unit"])
    color = STEPS[steps[-1]["color"]]
    place = f'x="{width / 2}" y="{height * 0.68}"'
    yield f'<text {place} class="stat" style="fill:{color}">{text}</text>'


def graph(
    panel: Mapping[str, Any], series: Series, width: int, height: int, begin: float, end: float
) -> Iterator[str]:
    """A panel with lines over time, their scale and their names."""
    left, top, right, bottom = 84, 34, width - 12, height - 46
    unit = panel["fieldConfig"]["defaults"]["unit"]
    most = max((value for points in series.values() for _, value in points), default=0) or 1
    for part in range(5):
        y = bottom - (bottom - top) * part / 4
        yield f'<path d="M{left} {y:.1f}H{right}" class="grid"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" class="axis end">{shown(most * part / 4, unit)}</text>'
    for second in range(0, SECONDS + 1, 60):
        x = left + (right - left) * second / (end - begin)
        yield f'<text x="{x:.0f}" y="{bottom + 15}" class="axis middle">{second // 60} min</text>'
    at = left
    for color, (name, points) in zip(COLORS * 3, series.items()):
        places = (
            f"{left + (right - left) * (when - begin) / (end - begin):.1f},"
            f"{bottom - (bottom - top) * value / most:.1f}"
            for when, value in points
        )
        yield f'<polyline points="{" ".join(places)}" stroke="{color}"/>'
        if at < right - 7 * len(name):
            yield f'<rect x="{at}" y="{height - 18}" width="12" height="4" fill="{color}"/>'
            yield f'<text x="{at + 17}" y="{height - 12}" class="axis">{escape(name)}</text>'
        at += 34 + 7 * len(name)


def picture(dashboard: Mapping[str, Any], prometheus: str, begin: float, end: float) -> str:
    """The dashboard as SVG."""
    lines = []
    bottom = 0
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        x, y = place["x"] * COLUMN, TOP + place["y"] * ROW
        bottom = max(bottom, y + height + GAP)
        series = series_of(panel, prometheus, begin, end)
        drawn = (
            stat(panel, series, width, height)
            if panel["type"] == "stat"
            else graph(panel, series, width, height, begin, end)
        )
        lines += [
            f'<g transform="translate({x},{y})"><rect width="{width}" height="{height}" class="panel"/>',
            f'<text x="10" y="20" class="title">{escape(panel["title"])}</text>',
            *drawn,
            "</g>",
        ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 {24 * COLUMN + 10} {bottom + 8}">',
            "<style>text{font-family:Inter,Helvetica,Arial,sans-serif;fill:#ccccdc}"
            ".title{font-size:13px;font-weight:500}.axis{font-size:11px;fill:#9fa0a8}"
            ".end{text-anchor:end}.middle,.stat{text-anchor:middle}.stat{font-size:34px}"
            ".panel{fill:#181b1f;stroke:#2c3235}.grid{stroke:#2c3235}"
            "polyline{fill:none;stroke-width:1.3}</style>",
            f'<rect x="-8" width="{24 * COLUMN + 10}" height="{bottom + 8}" fill="#111217"/>',
            f'<text x="2" y="27" style="font-size:18px">{escape(dashboard["title"])}</text>',
            *lines,
            "</svg>\n",
        ]
    )


def main() -> int:
    dashboard = json.loads(DASHBOARD.read_text())
    with TemporaryDirectory() as name, ExitStack() as stack:
        work = Path(name)
        (work / "captures").mkdir()
        (work / "metrics").mkdir()
        handler = partial(SimpleHTTPRequestHandler, directory=str(work / "metrics"))
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        archive: list[str | Path] = [
            sys.executable,
            "-m",
            "dissect.nats",
            "archive",
            work / "captures",
        ]
        archive += ["--out", work / "archive", "--metrics", work / "metrics" / "archive.prom"]
        archive += ["--every", "1", "--settle", "3"]
        stack.enter_context(running(*archive, log=work / "archive.log"))
        (work / "prometheus.yml").write_text(CONFIG % server.server_port)
        (port,) = lasting_ports(1)
        listen = f"127.0.0.1:{port}"
        prometheus = ["prometheus", f"--config.file={work / 'prometheus.yml'}"]
        prometheus += [f"--storage.tsdb.path={work / 'tsdb'}", f"--web.listen-address={listen}"]
        stack.enter_context(running(*prometheus, log=work / "prometheus.log"))
        begin = time.time()
        sensor(work / "captures")
        PICTURE.write_text(picture(dashboard, f"http://{listen}", begin, time.time()))
        print((work / "archive.log").read_text()[-500:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
