"""The page in a real browser: chromium through playwright, both optional on a developer's machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gplasc.report.page import build_report

playwright = pytest.importorskip(
    "playwright.sync_api", reason="the browser test needs: pip install playwright"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="the browser test needs chromium: apt-get install chromium"
)

FLAGS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=120_000)
        yield started
        started.close()


@pytest.fixture
def address(hostile_records, tmp_path: Path) -> str:
    return build_report(hostile_records, tmp_path / "report.html").as_uri()


def until(page: Any, expression: str) -> None:
    """Wait until an expression holds; the page's own policy forbids what playwright does for that."""
    for _ in range(1200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"still not so after two minutes: {expression}")


def visit(browser: Any, address: str, width: int, scheme: str) -> tuple[Any, list[str]]:
    """Open the page, unfold and see all of it; return it and what it should not have done."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, wrongs = context.new_page(), []
    page.set_default_timeout(120_000)  # machines that test are busy
    page.on("pageerror", lambda error: wrongs.append(f"error: {error}"))
    page.on("console", lambda message: wrongs.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: wrongs.append("dialog"))
    page.on("request", lambda request: wrongs.append(request.url) if _outside(request.url, address) else None)
    page.goto(address)
    page.evaluate(
        "async () => {"
        " document.querySelectorAll('details').forEach(details => { details.open = true; });"
        " for (const box of document.querySelectorAll('.plot')) {"
        "  box.scrollIntoView({ behavior: 'instant' }); await new Promise(done => setTimeout(done, 50)); } }"
    )
    until(page, "document.querySelectorAll('.plot:not([data-drawn])').length === 0")
    return page, wrongs


def _outside(url: str, address: str) -> bool:
    return url.partition("#")[0] != address and not url.startswith(("data:", "blob:"))


def brightness(color: str) -> float:
    """Mean of red, green and blue in a computed style such as rgb(1, 2, 3)."""
    return sum(int(part) for part in color[4:-1].split(",")) / 3


INK = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
PAPER = "getComputedStyle(document.body).backgroundColor"


def check_page(page: Any, width: int) -> None:
    assert page.evaluate("window.hacked") is None
    plots = page.evaluate(
        "Array.from(document.querySelectorAll('.plot'), box => ({"
        " marks: box.querySelectorAll('.trace, .point, canvas').length, height: box.clientHeight }))"
    )
    assert len(plots) > 10
    assert all(plot["marks"] > 0 and plot["height"] > 80 for plot in plots)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_in_the_dark(browser, address: str) -> None:
    page, wrongs = visit(browser, address, 360, "dark")
    check_page(page, 360)
    assert brightness(page.evaluate(PAPER)) < 40
    assert brightness(page.evaluate(INK)) > 180
    assert wrongs == []
    page.context.close()


def test_on_a_desk(browser, address: str) -> None:
    page, wrongs = visit(browser, address, 1280, "light")
    check_page(page, 1280)
    assert brightness(page.evaluate(PAPER)) > 240
    light = page.evaluate(INK)
    assert brightness(light) < 80

    # The first stop of the keyboard skips to the results.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"

    # A legend hides a line in all four figures it serves.
    button = page.query_selector("#accuracy-by-task .grid > .legend button")
    count = (
        "document.querySelector('#accuracy-by-task .grid').querySelectorAll('.scatterlayer .trace').length"
    )
    before = page.evaluate(count)
    button.focus()
    page.keyboard.press("Enter")
    until(page, f"{count} === {before} - 4")
    assert button.get_attribute("aria-pressed") == "false"
    page.keyboard.press("Enter")
    until(page, f"{count} === {before}")

    # Figures follow the theme, and are light again on paper.
    page.emulate_media(color_scheme="dark")
    until(page, f"{INK} !== '{light}'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    until(page, f"{INK} === '{light}'")
    assert wrongs == []
    page.context.close()
