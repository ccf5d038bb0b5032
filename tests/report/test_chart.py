import math
import re
from pathlib import Path

import pytest

from gplasc.report import style
from gplasc.report.charts import Chart, Guide, Series, legend
from gplasc.report.heatmap import HeatMap

KINDS = ("line", "stack", "interval")


def chart(title: str = "title", kind: str = "line") -> Chart:
    x = (1.0, 2.0, 3.0) if kind == "line" else ("a", "b $x$", "<c>")
    series = (
        Series("first", x, (1.0, math.nan, 3.0), low=(0.5, math.nan, None), high=(2.0, 2.0, 4.0)),
        Series("a <b> $c$", x[:2], (2.0, None), color=9, hollow=True),
    )
    return Chart(title, "place", "value", series, "words", kind=kind, guides=(Guide(-5.0, "low"),))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_page_and_file_show_the_same_and_no_markup(kind: str, tmp_path: Path) -> None:
    inline = chart(kind=kind).to_html()
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
    first, second = (re.findall(r'id="([^"]*)"', chart(title).to_html()) for title in ("one", "two"))
    assert first
    assert not set(first) & set(second)
    assert all(
        f'="#{name}"' in chart("one").to_html() or f"url(#{name})" in chart("one").to_html() for name in first
    )
    assert ">place</text>" in chart().to_html()


def marks(drawn: Chart, series: str) -> list[tuple[float, float]]:
    group = re.search(rf'<g data-series="{series}">.*?<use (.*?)</g>', drawn.to_html())
    assert group is not None
    return [(float(x), float(y)) for x, y in re.findall(r'x="([\d.]+)" y="([\d.]+)"', group[1])]


def test_values_keep_their_order_and_proportion() -> None:
    values = (60.0, 80.0, 65.0)
    line = Chart("t", "x", "y", (Series("s", (1.0, 2.0, 4.0), values),), "")
    (x1, y1), (x2, y2), (x3, y3) = marks(line, "s")
    assert (y1 - y3) / (y1 - y2) == pytest.approx(5 / 20, abs=0.01)  # y runs downward
    assert (x3 - x1) / (x2 - x1) == pytest.approx(3, abs=0.02)
    logarithmic = Chart("t", "x", "y", (Series("s", (1.0, 10.0, 100.0), values),), "", log_x=True)
    (x1, _), (x2, _), (x3, _) = marks(logarithmic, "s")
    assert x3 - x2 == pytest.approx(x2 - x1, abs=0.2)


@pytest.mark.parametrize(
    ("values", "start"), [((61.0, 64.5), "60"), ((88.0, 99.9), "86"), ((1.0, 90.0), None)]
)
def test_an_axis_of_accuracies_starts_where_the_data_is_and_says_so(
    values: tuple[float, float], start: str | None
) -> None:
    series = (Series("s", (1.0, 2.0), values),)
    svg = Chart("t", "x", "accuracy, percent", series, "", zero_based=True).to_html()
    assert "axis starts at" not in Chart("t", "x", "accuracy, percent", series, "").to_html()
    assert ("axis starts at" in svg) == (start is not None)
    if start is not None:
        assert f"accuracy, percent; axis starts at {start}<" in svg
        assert re.search(rf">{start}(\.0)?</text>", svg)


def test_a_guide_is_inside_the_drawing() -> None:
    svg = chart().to_html()
    line = re.search(r'd="M[\d.]+ ([\d.]+)L[^"]*"[^>]*stroke:var\(--structure\)', svg)
    height = re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)" role="img"', svg)
    assert line is not None
    assert height is not None
    assert 0 < float(line[1]) < float(height[1])


def test_numbers_of_a_chart_as_a_table() -> None:
    table = chart().table()
    assert table.columns == ("place", "first", "a <b> $c$")
    assert [row[1:] for row in table.rows] == [["1 [0.5, 2]", "2"], ["–", "–"], ["3", ""]]


def test_nothing_to_draw_is_noticed() -> None:
    assert chart().drawable
    assert not Chart("t", "x", "y", (Series("s", (1.0,), (math.nan,)),), "").drawable


def test_series_need_as_many_values_as_places() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Series("s", (1.0, 2.0), (1.0,)).points()


def test_one_legend_serves_charts_that_agree() -> None:
    looks = chart().swatches()
    assert legend(looks).count("<button") == 2
    assert legend(dict([looks.popitem()])) == ""
    other = Chart("t", "x", "y", (Series("another", (1.0,), (1.0,)),), "")
    assert legend(chart().swatches() | other.swatches()) == ""  # one look, two names


def test_repeated_colors_have_other_markers() -> None:
    looks = [(style.color(i), style.marker(i)) for i in range(3 * len(style.PALETTE))]
    assert len(set(looks)) == len(looks)


def test_heat_map_cells_carry_text_and_shade(tmp_path: Path) -> None:
    heat = HeatMap("t <i>", ("1", "2"), ("1", "2"), ((0.5, None), (-2.0, math.nan)), digits=2)
    assert heat.cells() == [[("0.50", 0.5), ("", 0.0)], [("−2.00", -1.0), ("", 0.0)]]
    assert '<td class="n" style="--v:1">−2.00</td>' in heat.to_html()
    assert "<i>" not in heat.to_html()
    svg, pdf = heat.write(tmp_path / "heat")
    assert ">−2.00</text>" in svg.read_text(encoding="utf-8")
    assert pdf.read_bytes().startswith(b"%PDF")
