import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.blocks import render_blocks

from gplasc.report import style
from gplasc.report.charts import Chart, Series
from gplasc.report.heatmap import HeatMap
from gplasc.results.statistics import Spread, spread

KINDS = ("line", "stack", "interval")


def chart(title: str = "title", kind: str = "line") -> Chart:
    x = (1.0, 2.0, 3.0) if kind == "line" else ("a", "b $x$", "<c>")
    series = (
        Series("first", {x[0]: Spread(1.0, 0.5, 3), x[1]: spread([]), x[2]: spread([3.0])}),
        Series("a <b> $c$", {x[0]: spread([2.0]), x[1]: spread([])}, color=9, hollow=True),
    )
    return Chart(title, "place", "value", series, "words", kind=kind, guides={-5.0: "low"})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_page_and_file_show_the_same_and_no_markup(kind: str, tmp_path: Path) -> None:
    inline = render_blocks(chart(kind=kind))
    assert "<b>" not in inline
    assert "a &lt;b&gt; $c$" in inline
    assert "var(--c0)" in inline
    assert "nan" not in inline
    paths = chart(kind=kind).write(tmp_path / kind)
    assert [path.suffix for path in paths] == [".svg", ".pdf"]
    text = paths[0].read_text(encoding="utf-8")
    assert "var(" not in text  # other programs than browsers read it
    assert style.COLORS["c0"].lower() in text
    assert ">a &lt;b&gt; $c$</text>" in text  # the legend
    assert paths[1].read_bytes().startswith(b"%PDF")
    assert len(inline) < 30_000


def test_text_is_text_and_no_id_is_shared_with_another_chart() -> None:
    first, second = (re.findall(r'id="([^"]*)"', render_blocks(chart(title))) for title in ("one", "two"))
    assert first
    assert not set(first) & set(second)
    assert all(
        f'="#{name}"' in render_blocks(chart("one")) or f"url(#{name})" in render_blocks(chart("one"))
        for name in first
    )
    assert ">place</text>" in render_blocks(chart())


def line(values: dict[float, float], **more: Any) -> Chart:
    series = Series("s", {place: spread([value]) for place, value in values.items()})
    return Chart("t", "x", "accuracy, percent", (series,), "", **more)


def marks(drawn: Chart, series: str) -> list[tuple[float, float]]:
    group = re.search(rf'<g data-series="{series}">.*?<use (.*?)</g>', render_blocks(drawn))
    assert group is not None
    return [(float(x), float(y)) for x, y in re.findall(r'x="([\d.]+)" y="([\d.]+)"', group[1])]


def test_values_keep_their_order_and_proportion() -> None:
    (x1, y1), (x2, y2), (x3, y3) = marks(line({1.0: 60.0, 2.0: 80.0, 4.0: 65.0}), "s")
    assert (y1 - y3) / (y1 - y2) == pytest.approx(5 / 20, abs=0.01)  # y runs downward
    assert (x3 - x1) / (x2 - x1) == pytest.approx(3, abs=0.02)
    (x1, _), (x2, _), (x3, _) = marks(line({1.0: 60.0, 10.0: 80.0, 100.0: 65.0}, log_x=True), "s")
    assert x3 - x2 == pytest.approx(x2 - x1, abs=0.2)


@pytest.mark.parametrize(
    ("values", "start"), [((61.0, 64.5), "60"), ((88.0, 99.9), "86"), ((1.0, 90.0), None)]
)
def test_an_axis_of_accuracies_starts_where_the_data_is_and_says_so(
    values: tuple[float, float], start: str | None
) -> None:
    places = dict(enumerate(values))
    svg = line(places, zero_based=True).to_svg()
    assert "axis starts at" not in line(places).to_svg()
    assert ("axis starts at" in svg) == (start is not None)
    if start is not None:
        assert f"accuracy, percent; axis starts at {start}<" in svg
        assert re.search(rf">{start}(\.0)?</text>", svg)


def test_a_guide_is_inside_the_drawing() -> None:
    svg = render_blocks(chart())
    line = re.search(r'd="M[\d.]+ ([\d.]+)L[^"]*"[^>]*stroke:var\(--structure\)', svg)
    height = re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)" role="img"', svg)
    assert line is not None
    assert height is not None
    assert 0 < float(line[1]) < float(height[1])


def test_numbers_of_a_chart_as_a_table() -> None:
    table = chart().table()
    assert table.columns == ("place", "first", "a <b> $c$")
    assert [row[1:] for row in table.rows] == [["1 [0.5, 1.5]", "2"], ["–", "–"], ["3", ""]]


def test_nothing_to_draw_is_noticed() -> None:
    assert chart().drawable
    assert not line({1.0: math.nan}).drawable


def test_one_legend_serves_charts_that_agree() -> None:
    assert render_blocks(chart(), chart("two")).count("<button") == 2
    assert "<button" not in render_blocks(line({1.0: 1.0}), line({2.0: 1.0}))
    # One look for two names, "first" and "s": each chart keeps its own legend.
    assert render_blocks(chart(), line({1.0: 1.0})).count("<button") == 2
    assert '<div class="grid">\n<figure' in render_blocks(chart(), line({1.0: 1.0}))


def test_repeated_colors_have_other_markers() -> None:
    looks = [(style.color(i), style.marker(i)) for i in range(3 * len(style.PALETTE))]
    assert len(set(looks)) == len(looks)


def test_heat_map_cells_carry_text_and_shade(tmp_path: Path) -> None:
    heat = HeatMap("t <i>", ("1", "2"), ("1", "2"), np.array([[0.5, math.nan], [-2.0, math.nan]]), digits=2)
    assert heat.cells() == [[("0.50", 0.5), ("", 0.0)], [("−2.00", -1.0), ("", 0.0)]]
    assert '<td class="n" style="--v:1">−2.00</td>' in render_blocks(heat)
    assert "<i>" not in render_blocks(heat)
    svg, pdf = heat.write(tmp_path / "heat")
    assert ">−2.00</text>" in svg.read_text(encoding="utf-8")
    assert pdf.read_bytes().startswith(b"%PDF")
