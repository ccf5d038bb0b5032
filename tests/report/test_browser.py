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
    "--no-first-run", "--disable-gpu",
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


def visit(browser: Any, address: str, width: int, scheme: str) -> tuple[Any, list[str]]:
    """Open the page and unfold all of it; return it and what it should not have done."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, wrongs = context.new_page(), []
    page.set_default_timeout(120_000)  # machines that test are busy
    page.on("pageerror", lambda error: wrongs.append(f"error: {error}"))
    page.on("console", lambda message: wrongs.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: wrongs.append("dialog"))
    page.on("request", lambda request: wrongs.append(request.url) if _outside(request.url, address) else None)
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    wait_until(page, "document.querySelectorAll('canvas:not([data-drawn])').length == 0")
    return page, wrongs


def wait_until(page: Any, condition: str) -> None:
    """Wait for a condition, however busy the machine is: for two minutes of the page's own clock."""
    for _ in range(2400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(condition[:200])


def _outside(url: str, address: str) -> bool:
    return url.partition("#")[0] != address and not url.startswith("data:")


def brightness(color: str) -> float:
    """Mean of red, green and blue in a computed style such as rgb(1, 2, 3)."""
    return sum(int(part) for part in color[4:-1].split(",")) / 3


INK = "getComputedStyle(document.querySelector('figure > svg text[style*=\"var(--ink)\"]')).fill"
PAPER = "getComputedStyle(document.body).backgroundColor"


def check_page(page: Any, width: int) -> None:
    assert page.evaluate("window.hacked") is None
    heights = page.evaluate(
        "Array.from(document.querySelectorAll('figure > svg, canvas'), box => box.getBoundingClientRect().height)"
    )
    assert len(heights) > 10
    assert min(heights) > 60
    assert page.evaluate("document.querySelectorAll('canvas:not([data-drawn])').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def colored_pixels(page: Any) -> int:
    """Pixels of the first sphere that are neither gray nor transparent."""
    return int(
        page.evaluate(
            "() => { const c = document.querySelector('canvas');"
            " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
            " for (let i = 0; i < d.length; i += 4)"
            "  n += d[i + 3] > 20 && Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 40;"
            " return n; }"
        )
    )


def test_on_a_phone_in_the_dark(browser, address: str) -> None:
    page, wrongs = visit(browser, address, 360, "dark")
    check_page(page, 360)
    assert brightness(page.evaluate(PAPER)) < 40
    assert brightness(page.evaluate(INK)) > 180
    # The gain, the point of the page, is inside the screen and named.
    gain = page.query_selector("#summary td[data-label='class-IL gain']:not(.muted)")
    box = gain.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert page.evaluate("td => getComputedStyle(td, '::before').content", gain) == '"class-IL gain"'
    # Text in figures can be read.
    size = page.evaluate(
        "() => { const t = document.querySelector('figure > svg text'); const s = t.ownerSVGElement;"
        " return parseFloat(getComputedStyle(t).fontSize) * s.clientWidth / s.viewBox.baseVal.width; }"
    )
    assert size > 9.5
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
        "Array.from(document.querySelectorAll('#accuracy-by-task .grid figure'), f => new Set(Array.from("
        "f.querySelectorAll('[data-series]')).filter(g => g.style.display !== 'none').map(g => g.dataset.series)).size)"
        ".reduce((a, b) => a + b)"
    )
    before = page.evaluate(count)
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(count) == before - 4
    assert button.get_attribute("aria-pressed") == "false"
    page.keyboard.press("Enter")
    assert page.evaluate(count) == before

    # Figures follow the theme, and are light again on paper.
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(INK) != light
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(INK) == light
    assert wrongs == []
    page.context.close()


def test_a_sphere_turns(browser, address: str) -> None:
    page, wrongs = visit(browser, address, 1280, "light")
    canvas = page.query_selector("canvas")
    canvas.scroll_into_view_if_needed()
    assert colored_pixels(page) > 500
    picture = "document.querySelector('canvas').toDataURL()"
    first = page.evaluate(picture)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    wait_until(page, f"{picture} != {first!r}")
    page.wait_for_timeout(300)  # the rest of the turn, if there is one
    second = page.evaluate(picture)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 130, steps=4)
    page.mouse.up()
    wait_until(page, f"{picture} != {second!r}")
    assert wrongs == []
    page.context.close()
