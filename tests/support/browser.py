"""A real browser without a network: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from tests.support.requirements import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_PATIENCE = 120  # seconds, for busy machines
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. Skips the test, or fails it in CI, where there is none."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        missing("Chromium", "apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright", "pip install playwright")
    # Containers, which run as root, have no sandbox. No name is resolved.
    options = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One visit of a page on disk. Every request but for the file itself is refused and noted in `requests`;
    `errors` are the exceptions of its scripts, `console` what the browser complains of."""

    def __init__(self, browser: Browser, path: Path, width: int = 1280) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.console: list[str] = []
        self._context = browser.new_context(viewport={"width": width, "height": 900})
        self._context.set_default_timeout(_PATIENCE * 1000)
        self.page: Page = self._context.new_page()
        self._url = path.resolve().as_uri()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.route("**", self._route)

    def _route(self, route: object) -> None:
        url = route.request.url  # type: ignore[attr-defined]  # a Route, which is untyped in callbacks
        if url.partition("#")[0] == self._url:
            route.continue_()  # type: ignore[attr-defined]  # as above
        else:
            self.requests.append(url)
            route.abort()  # type: ignore[attr-defined]  # as above

    def __enter__(self) -> Visit:
        self.page.goto(self._url)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._context.close()

    def wait_until(self, expression: str) -> None:
        """Waits until an expression of JavaScript is true. The page's policy forbids Playwright's own way,
        which evaluates text inside of the page."""
        deadline = time.monotonic() + _PATIENCE
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, expression
            self.page.wait_for_timeout(50)

    def audit(self, rules: list[str] | None = None) -> list[str]:
        """What axe-core finds serious on the page, by these rules or all. Charts are images to it: it does
        not look inside."""
        source = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self.page.evaluate(source)
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        found = self.page.evaluate(
            "(options) => axe.run({exclude: [['.plot > *']]}, options)", options
        )
        return [
            f"{item['id']}: {node['html'][:120]}"
            for item in found["violations"]
            if item["impact"] in ("serious", "critical")
            for node in item["nodes"]
        ]

    def resize(self, width: int) -> None:
        """Gives the window another width."""
        self.page.set_viewport_size({"width": width, "height": 900})

    def colours(self, scheme: Literal["light", "dark"]) -> None:
        """The system changes its colours."""
        self.page.emulate_media(color_scheme=scheme)

    def draw_everything(self) -> None:
        """Brings every chart into view, and waits until it is drawn."""
        for plot in self.page.query_selector_all(".plot"):
            plot.scroll_into_view_if_needed()
            plot.wait_for_selector("svg.main-svg", state="attached")
