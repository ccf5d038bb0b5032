import csv
import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from gplasc._io.table import Column, Marked, Table

TABLE = Table(
    "A & B",
    ("method", Column("value_1, %")),
    (("a|b_c", Marked("1.0 ± 0.5", "best")), ('<x>, "y"', "−2 [−3, 50%]"), ("x[/b]", "one\ntwo")),
    notes=("50% of $10",),
    breaks=(2,),
    name="example",
)


def terminal(table: Table, width: int = 80) -> str:
    out = io.StringIO()
    table.print(Console(file=out, width=width, force_terminal=True, color_system="standard"))
    return out.getvalue()


def test_terminal_prints_cells_literally() -> None:
    text = terminal(TABLE)
    for part in ("A & B", "value_1, %", "a|b_c", "x[/b]", "−2 [−3, 50%]", "50% of $10", "one", "two"):
        assert part in text
    assert re.search(r"\x1b\[1m *1\.0 ± 0\.5", text)


def test_terminal_loses_nothing_where_it_is_narrow() -> None:
    word = "".join(chr(ord("a") + i % 26) for i in range(100))
    shown = terminal(Table("", ("x",), ((word,),)), width=20)
    assert "".join(c for c in shown if c.isalpha() and c.isascii()).endswith(word)


def test_a_pipe_is_not_squeezed_to_80_columns() -> None:
    out = io.StringIO()
    Table("", ("x", "y"), (("a" * 90, "b" * 60),)).print(Console(file=out, width=80))
    assert "a" * 90 in out.getvalue()


@pytest.mark.parametrize("make", [terminal, Table.to_markdown, Table.to_latex, Table.to_csv, Table.to_html])
def test_control_codes_and_broken_names_are_visible_text(make) -> None:
    text = make(Table("t\x1b[31m", ("a",), (("\x1b]0;title\x07 caf\udce9",),), notes=("n\x1b[0m",)))
    assert "]0;title" in text.replace("\\textbackslash{}", "\\").replace("\\]", "]")
    assert "\x1b]" not in text
    assert "\x1b[31m" not in text
    assert "\x07" not in text
    text.encode("utf-8")


def test_markdown_has_one_line_a_row_and_no_live_signs() -> None:
    lines = TABLE.to_markdown().splitlines()
    assert lines[0] == "**A & B**"
    assert lines[2:7] == [
        "| method | value\\_1, % |",
        "| :-- | --: |",
        "| a\\|b\\_c | **1.0 ± 0.5** |",
        '| \\<x\\>, "y" | −2 \\[−3, 50%\\] |',
        "| x\\[/b\\] | one<br>two |",
    ]
    assert "\\&lt;" in Table("&lt;", ("a",), ()).to_markdown()


def test_latex_escapes_its_signs_and_bolds_the_best() -> None:
    text = TABLE.to_latex()
    assert r"\caption{A \& B}" in text
    assert r"a|b\_c & \textbf{1.0 $\pm$ 0.5} \\" in text
    assert r"\textless{}x\textgreater{}" in text
    assert r"$-$2 [$-$3, 50\%]" in text
    assert r"\midrule" + "\n" + r"  x[/b] & \shortstack[r]{one \\ two} \\" in text
    assert r"50\% of \$10" in text
    assert r"\begin{tabular}{lr}" in text
    assert text.count("\\begin") == text.count("\\end") == 2


def test_commands_are_below_the_notes_and_code_in_markdown() -> None:
    table = Table("", ("a",), (), notes=("Note.",), commands=("gplasc run --set 'a_b=*'\x1b[0m\n```",))
    assert table.to_markdown().endswith("\nNote.\n\n```sh\ngplasc run --set 'a_b=*'\\x1b[0m ```\n```\n")
    assert "Command: gplasc run --set 'a_b=*'" in terminal(table)
    assert r"Command: gplasc run --set 'a\_b=*'" in table.to_latex()


def test_csv_reads_back() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert rows[0] == ["method", "value_1, %"]
    assert rows[1:] == [["a|b_c", "1.0 ± 0.5"], ['<x>, "y"', "−2 [−3, 50%]"], ["x[/b]", "one\ntwo"]]


def test_csv_has_no_formulas() -> None:
    texts = ["=1+1", "+1.00 [+0.50, +2.00]", "-x", "@a", "+1.5", "-2e-3", "-.5", "1", "a=b", "-inf"]
    rows = list(csv.reader(io.StringIO(Table("", ("x",), [(t,) for t in texts]).to_csv())))[1:]
    assert [row[0] for row in rows] == [
        "'=1+1", "'+1.00 [+0.50, +2.00]", "'-x", "'@a", "+1.5", "-2e-3", "-.5", "1", "a=b", "-inf",
    ]  # fmt: skip


def test_numbers_and_missing_values() -> None:
    table = Table("", ("a", "b", "c", "d", "e"), ((0.1 + 0.2, -1e-9, 7, None, math.nan),))
    assert table.to_csv().splitlines()[1] == f"{0.1 + 0.2!r},-1e-09,7,,"  # full precision for programs
    assert table.to_markdown().splitlines()[-1] == "| 0.3 | -1e-09 | 7 |  |  |"


class Cells(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_html_is_escaped_and_carries_marks_and_labels() -> None:
    found = Cells(TABLE.to_html())
    assert "x" not in found.tags
    assert '<x>, "y"' in found.words
    assert found.tags.count("strong") == 1
    assert found.tags.count("td") == found.tags.count("tr") - 1 == 3
    cells = [a for tag, a in zip(found.tags, found.attributes, strict=True) if tag == "td"]
    assert [a["data-label"] for a in cells] == ["value_1, %"] * 3
    assert [a.get("class") for a in cells] == ["best", None, None]
    assert "<small>[−3, 50%]</small>" in TABLE.to_html()
    hostile = Cells(Table("", ("a", '"><script>'), (("x", "y"),)).to_html())
    assert "script" not in hostile.tags
    assert [a.get("data-label") for a in hostile.attributes if "data-label" in a] == ['"><script>']


def test_rows_must_be_as_wide_as_the_head() -> None:
    with pytest.raises(ValueError, match="2 cells wide"):
        Table("caption", ("a", "b"), (("1",),))


def test_files_are_written_side_by_side(tmp_path: Path) -> None:
    paths = TABLE.write(tmp_path / "v0.1")
    assert [path.name for path in paths] == ["v0.1.md", "v0.1.tex", "v0.1.csv"]
    assert [path.read_text(encoding="utf-8") for path in paths] == [
        TABLE.to_markdown(),
        TABLE.to_latex(),
        TABLE.to_csv(),
    ]
