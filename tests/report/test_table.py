import csv
import io

import pytest

from gplasc.report.table import Cell, Table

TABLE = Table(
    "A & B",
    ("method", "value_1"),
    (("a|b_c", Cell("1.0 ± 0.5", "best")), ('<x>, "y"', "−2 [−3, 50%]")),
    note="50% of $10",
)


def test_markdown_has_one_line_a_row_and_no_live_signs() -> None:
    lines = TABLE.to_markdown().splitlines()
    assert lines[2:6] == [
        "| method | value\\_1 |",
        "| :-- | --: |",
        "| a\\|b\\_c | **1.0 ± 0.5** |",
        '| \\<x\\>, "y" | −2 \\[−3, 50%\\] |',
    ]


def test_latex_escapes_its_signs_and_bolds_the_best() -> None:
    text = TABLE.to_latex()
    assert r"\caption{A \& B}" in text
    assert r"a|b\_c & \textbf{1.0 $\pm$ 0.5} \\" in text
    assert r"\textless{}x\textgreater{}" in text
    assert r"$-$2 [$-$3, 50\%]" in text
    assert r"50\% of \$10" in text
    assert text.count("\\begin") == text.count("\\end") == 2


def test_csv_reads_back() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert rows == [["method", "value_1"], ["a|b_c", "1.0 ± 0.5"], ['<x>, "y"', "−2 [−3, 50%]"]]


def test_rows_must_be_as_wide_as_the_head() -> None:
    with pytest.raises(ValueError, match="2 cells wide"):
        Table("caption", ("a", "b"), (("1",),))
