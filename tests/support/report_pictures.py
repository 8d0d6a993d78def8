"""Draws the pictures of the report on its page again: `python -m tests.support.report_pictures`.

They show the top of one report at three widths, the middle one in dark colours. Needs Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from click.testing import CliRunner

from dissect.nats.cli import cli

from tests.support.browser import Visit, chromium
from tests.support.paths import CAPTURES, ROOT

PICTURES = ROOT / "docs" / "pictures"
SHOWN = ("auth-2.15.1.pcap", "gateway-2.15.1.pcap")
Scheme = Literal["light", "dark"]
SIZES: tuple[tuple[int, int, Scheme], ...] = (
    (1280, 1500, "light"),
    (768, 1200, "dark"),
    (360, 900, "light"),
)


def main() -> int:
    with TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder, "report.html")
        captures = [str(CAPTURES / name) for name in SHOWN]
        made = CliRunner().invoke(cli, ["report", *captures, "-o", str(page)])
        if made.exit_code:
            print(made.stderr, end="", file=sys.stderr)
            return 1
        for width, height, scheme in SIZES:
            visit = Visit(browser, page, width)
            with visit:
                visit.page.set_viewport_size({"width": width, "height": height})
                visit.page.emulate_media(color_scheme=scheme)
                visit.page.wait_for_timeout(500)
                visit.page.screenshot(path=str(PICTURES / f"report-{width}.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
