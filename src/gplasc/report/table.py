"""A table once, written as HTML, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "better", "worse", "best", "muted"]


@dataclass(frozen=True)
class Cell:
    """A text, and what the eye should see at once: a gain, a loss, the best of a column, or nothing much."""

    text: str
    tone: Tone = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """A caption, the names of the columns, and rows whose first cell names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...], ...]
    note: str = ""
    name: str = ""
    """Stem of the file when the table is written beside the page; none: it is only in the page."""
    text_columns: int = 1
    """How many columns hold words and are set to the left; the others hold numbers."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(
                f"the table {self.caption!r} has rows that are not {len(self.columns)} cells wide"
            )

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, every entry a cell."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]

    def to_markdown(self) -> str:
        """GitHub's tables: the caption above, the note below."""

        def line(entries: list[str]) -> str:
            return "| " + " | ".join(entries) + " |\n"

        marks = [":--" if i < self.text_columns else "--:" for i in range(len(self.columns))]
        body = "".join(
            line([f"**{_markdown(c.text)}**" if c.tone == "best" else _markdown(c.text) for c in row])
            for row in self.cells
        )
        note = f"\n{_markdown(self.note)}\n" if self.note else ""
        head = line([_markdown(c) for c in self.columns]) + line(marks)
        return f"**{_markdown(self.caption)}**\n\n{head}{body}{note}"

    def to_latex(self) -> str:
        """A table environment with booktabs' rules."""

        def line(entries: list[str]) -> str:
            return "  " + " & ".join(entries) + " \\\\\n"

        align = "l" * self.text_columns + "r" * (len(self.columns) - self.text_columns)
        body = "".join(
            line([rf"\textbf{{{_latex(c.text)}}}" if c.tone == "best" else _latex(c.text) for c in row])
            for row in self.cells
        )
        note = f"  \\par\\smallskip\\footnotesize {_latex(self.note)}\n" if self.note else ""
        return (
            "% needs \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n"
            f"  \\caption{{{_latex(self.caption)}}}\n  \\begin{{tabular}}{{{align}}}\n  \\toprule\n"
            f"{line([_latex(c) for c in self.columns])}  \\midrule\n{body}  \\bottomrule\n  \\end{{tabular}}\n"
            f"{note}\\end{{table}}\n"
        )

    def to_csv(self) -> str:
        """The texts of the cells; the caption is left out."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([[cell.text for cell in row] for row in self.cells])
        return out.getvalue()


def _markdown(text: str) -> str:
    for sign in "\\|<>*_`[]":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "–": "--",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text.replace("\n", " "))
