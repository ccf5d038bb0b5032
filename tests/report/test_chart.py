import json
import math
from pathlib import Path

import pytest

from gplasc.report import style
from gplasc.report.chart import Chart, Guide, HeatMap, Picture, Series
from gplasc.report.page import script_json

KINDS = ("line", "bar", "stack", "interval")


def chart(kind: str = "line", **more: object) -> Chart:
    x = (1.0, 2.0, 3.0) if kind == "line" else ("a", "b $x$", "<c>")
    series = (
        Series("first", x, (1.0, math.nan, 3.0), low=(0.5, math.nan, None), high=(2.0, 2.0, 4.0)),
        Series("a <b> $c$", x[:2], (2.0, None), color=9, open=True),
    )
    return Chart("title", "place", "value", series, "words", kind=kind, guides=(Guide(-5.0, "low"),), **more)


@pytest.mark.parametrize("kind", KINDS)
def test_plotly_gets_plain_json_and_no_markup(kind: str) -> None:
    figure = json.loads(script_json(chart(kind).to_plotly()))
    first, second = figure["data"]
    values = "x" if kind in ("interval", "stack") else "y"
    assert first[values] == [1.0, None, 3.0]
    assert second["name"] == "a &lt;b&gt; $c$"
    error = first["error_x" if kind == "interval" else "error_y"]
    assert error["array"] == [1.0, None, None]
    assert error["arrayminus"] == [0.5, None, None]


def test_a_guide_is_inside_the_range() -> None:
    low, high = chart().to_plotly()["layout"]["yaxis"]["range"]
    assert low < -5 < 4 < high
    assert chart(y_range=(0.0, 9.0)).to_plotly()["layout"]["yaxis"]["range"] == [0, 9]


@pytest.mark.parametrize("kind", KINDS)
def test_print_shows_every_series(kind: str, tmp_path: Path) -> None:
    with style.paper_style():
        figure = chart(kind).to_matplotlib()
        (path,) = style.save_figure(figure, tmp_path / kind, (".svg",))
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["first", r"a <b> \$c\$"]
    assert path.stat().st_size > 1000


def test_numbers_of_a_chart_as_a_table() -> None:
    table = chart().table()
    assert table.columns == ("place", "first", "a <b> $c$")
    assert [row[1:] for row in table.rows] == [("1 [0.5, 2]", "2"), ("–", "–"), ("3", "")]


def test_nothing_to_draw_is_noticed() -> None:
    assert chart().drawable
    assert not Chart("t", "x", "y", (Series("s", (1.0,), (math.nan,)),), "").drawable


def test_series_need_as_many_values_as_places() -> None:
    with pytest.raises(ValueError, match="2 places and 1 values"):
        Series("s", (1.0, 2.0), (1.0,))


def test_repeated_colors_have_other_markers() -> None:
    looks = [(style.color(i), style.marker(i)) for i in range(3 * len(style.PALETTE))]
    assert len(set(looks)) == len(looks)


def test_heat_map_cells_carry_text_strength_and_sign(tmp_path: Path) -> None:
    heat = HeatMap(
        "t", ("1", "2"), ("1", "2"), ((0.5, None), (-2.0, math.nan)), top=1.0, signed=True, digits=2
    )
    assert heat.cells() == [[("0.50", 50, False), ("", 0, False)], [("-2.00", 100, True), ("", 0, False)]]
    with style.paper_style():
        figure = heat.to_matplotlib()
    assert [t.get_text() for t in figure.axes[0].texts if t.get_text()] == ["0.50", "-2.00"]
    with pytest.raises(ValueError, match="1 x 2"):
        HeatMap("t", ("1",), ("1", "2"), ((1.0,),))


def test_picture_becomes_svg() -> None:
    with style.paper_style():
        picture = Picture("t", chart().to_matplotlib(), "what it shows")
    assert b"<svg" in picture.to_svg()
