"""Draws the pictures of the report on its page again: `python -m tests.support.report_pictures`.

They show the top of one report at three widths, the middle one in dark colours, and the ladder diagram of the
message that passes most connections. Needs Chromium.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from click.testing import CliRunner
from PIL import Image

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
                _save(visit.page.screenshot(), f"report-{width}.png")
        with Visit(browser, page) as visit:
            _ladder(visit)
    return 0


def _ladder(visit: Visit) -> None:
    """The longest of the message paths, without the fields to choose another one."""
    messages = visit.page.locator("#pick-message option")
    hops = [re.search(r"(\d+) hops", text) for text in messages.all_text_contents()]
    longest = max(
        range(len(hops)), key=lambda place: int(found[1]) if (found := hops[place]) else 0
    )
    visit.page.select_option("#pick-message", index=longest)
    _save(visit.page.locator("#ladder table").screenshot(), "report-ladder.png")


def _save(picture: bytes, name: str) -> None:
    """Keeps 64 colours, which takes a third of the bytes: readers of the documentation wait for them."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    few = image.quantize(64, dither=Image.Dither.NONE)
    few.save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
