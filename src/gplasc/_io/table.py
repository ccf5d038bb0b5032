"""The table engine: one plain-data table, written for the terminal, as Markdown, CSV, LaTeX or HTML."""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gplasc._io.files import write_atomic
from gplasc._io.text import html_text, printable
from gplasc.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

Mark = Literal["", "best", "better", "worse", "muted"]
Value = str | int | float | None


@dataclass(frozen=True)
class Column:
    """The head of a column and how its cells are aligned."""

    name: str
    align: Literal["left", "right"] = "right"


@dataclass(frozen=True)
class Marked:
    """A value with a mark: the best of its column (bold), a gain, a loss, or something of little importance."""

    value: Value
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """A title, columns, rows of cells, and notes below them.

    A column given as a string is right-aligned, except the first, which names the rows. A cell is a text, a number or
    None (empty), or one of these with a mark. A text may have several lines. Texts are always shown literally:
    nothing in them is read as markup, formula or control code.
    """

    title: str
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Value | Marked]]
    notes: Sequence[str] = ()
    breaks: Sequence[int] = ()
    """Indices of rows that begin a new group."""
    name: str = ""
    """Stem of the table's files."""
    commands: Sequence[str] = ()
    """What makes the table again."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"the table {self.title!r} has rows that are not {len(self.columns)} cells wide")

    @property
    def heads(self) -> list[Column]:
        """The columns, each as a `Column`."""
        return [
            column if isinstance(column, Column) else Column(column, "right" if index else "left")
            for index, column in enumerate(self.columns)
        ]

    @property
    def cells(self) -> list[list[Marked]]:
        """The rows, every cell as a `Marked`."""
        return [[cell if isinstance(cell, Marked) else Marked(cell) for cell in row] for row in self.rows]

    @property
    def _lines_below(self) -> list[str]:
        return [*self.notes, *(f"Command: {command}" for command in self.commands)]

    def print(self, console: Console | None = None, *, compact: bool = False) -> None:
        """Print title, table and notes to standard output; a file or a pipe gets the width that the table needs.

        A compact table has no line but that below the head.
        """
        from rich.box import HEAVY_HEAD, SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        console = console or Console()
        if not console.is_terminal:
            console = Console(file=console.file, width=max(console.width, 200))
        styles = {"best": "bold", "better": "green", "worse": "red", "muted": "dim", "": ""}
        box = SIMPLE_HEAD if compact else HEAVY_HEAD
        table = RichTable(header_style="bold", box=box, show_edge=not compact, pad_edge=not compact)
        for column in self.heads:
            table.add_column(Text(printable(column.name)), justify=column.align, overflow="fold")
        for index, row in enumerate(self.cells):
            if index in self.breaks:
                table.add_section()
            table.add_row(*(Text(_show(cell.value), style=styles[cell.mark]) for cell in row))
        if self.title:  # rich's own title would be broken to the width of the table
            console.print(printable(self.title), highlight=False, markup=False, style="bold")
        console.print(table)
        for note in self._lines_below:
            console.print(printable(note), highlight=False, markup=False, style="dim")

    def to_markdown(self) -> str:
        """Return GitHub's Markdown: the title in bold above, the notes below."""

        def line(entries: Sequence[str]) -> str:
            return "| " + " | ".join(entries) + " |\n"

        title = f"**{_markdown(self.title)}**\n\n" if self.title else ""
        head = line([_markdown(column.name) for column in self.heads])
        rule = line([":--" if column.align == "left" else "--:" for column in self.heads])
        body = "".join(line([_cell(c, _markdown, "<br>", "**{}**") for c in row]) for row in self.cells)
        notes = "".join(f"\n{_markdown(note)}\n" for note in self.notes)
        commands = "".join(f"\n```sh\n{_one_line(command)}\n```\n" for command in self.commands)
        return f"{title}{head}{rule}{body}{notes}{commands}"

    def to_latex(self) -> str:
        """Return a table environment with the rules of booktabs."""

        def line(entries: Sequence[str]) -> str:
            return "  " + " & ".join(entries) + " \\\\\n"

        aligns = "".join(column.align[0] for column in self.heads)
        body = ""
        for index, row in enumerate(self.cells):
            body += "  \\midrule\n" if index and index in self.breaks else ""
            texts = []
            for align, cell in zip(aligns, row, strict=True):
                text = _cell(cell, _latex, r" \\ ", r"\textbf{{{}}}")
                several = "\n" in _show(cell.value)
                texts.append(rf"\shortstack[{align}]{{{text}}}" if several else text)
            body += line(texts)
        caption = f"  \\caption{{{_latex(self.title)}}}\n" if self.title else ""
        notes = "".join(f"  \\par\\smallskip\\footnotesize {_latex(note)}\n" for note in self._lines_below)
        return (
            f"% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n  \\centering\n{caption}"
            f"  \\begin{{tabular}}{{{aligns}}}\n  \\toprule\n{line([_latex(c.name) for c in self.heads])}"
            f"  \\midrule\n{body}  \\bottomrule\n  \\end{{tabular}}\n{notes}\\end{{table}}\n"
        )

    def to_csv(self) -> str:
        """Return comma-separated values without title and notes; a text that begins a formula gets an apostrophe."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([csv_text(column.name) for column in self.heads])
        writer.writerows([[csv_text(cell.value) for cell in row] for row in self.cells])
        return out.getvalue()

    def to_frame(self) -> Any:
        """Return a data frame of pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise UserError("pandas is not installed; a data frame needs it: pip install pandas") from None
        rows = [[cell.value for cell in row] for row in self.cells]
        return pandas.DataFrame(rows, columns=[column.name for column in self.heads])

    def to_html(self) -> str:
        """Return a table element; marks, left-aligned cells and long texts are classes, for the page's style sheet.

        Cells carry the name of their column as ``data-label``, so that a narrow page can stack them.
        """
        heads = self.heads
        names = [html_text(column.name) for column in heads]
        kinds = [' class="t"' if column.align == "left" else "" for column in heads]
        head = "".join(f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(kinds, names, strict=True))
        body = ""
        for row in self.cells:
            body += f'<tr><th scope="row">{_cell(row[0], html_text, "<br>", "<strong>{}</strong>")}</th>'
            for column, name, cell in zip(heads[1:], names[1:], row[1:], strict=True):
                text = _cell(cell, html_text, "<br>", "<strong>{}</strong>")
                left = ["t", *(["long"] if len(text) > 36 else [])] if column.align == "left" else []
                classes = " ".join(filter(None, [*left, cell.mark]))
                text = re.sub(r" (\[[^\]]*\])$", r" <small>\1</small>", text)
                attributes = f' class="{classes}"' if classes else ""
                body += f'<td{attributes} data-label="{name}">{text}</td>'
            body += "</tr>\n"
        caption = f"<caption>{html_text(self.title)}</caption>\n" if self.title else ""
        return f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"

    def write(self, stem: Path) -> list[Path]:
        """Write Markdown, LaTeX and CSV and return the three files; the stem is a path without a suffix."""
        texts = {".md": self.to_markdown, ".tex": self.to_latex, ".csv": self.to_csv}
        return [write_atomic(stem.with_name(stem.name + suffix), make()) for suffix, make in texts.items()]


def _show(value: Value) -> str:
    r"""Return a value as text: numbers with six digits, nothing for None and NaN.

    >>> _show(0.1 + 0.2), _show(None), _show(3), _show("a\x1b[0m")
    ('0.3', '', '3', 'a\\x1b[0m')
    """
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else printable(str(value))


def _cell(cell: Marked, escape: Callable[[str], str], newline: str, bold: str) -> str:
    """Escape the lines of a cell and join them; the best of a column is bold."""
    lines = [escape(line) for line in _show(cell.value).split("\n")]
    return newline.join(bold.format(line) if cell.mark == "best" and line else line for line in lines)


def _markdown(text: str) -> str:
    return re.sub(r"([\\|<>*_`\[\]~]|&(?=#?\w+;))", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return printable(text).replace("\n", " ")


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "–": "--", "\n": " ",
}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in printable(text))


def csv_text(value: Value) -> str:
    """Return a value for a cell of comma-separated values; a text that begins a formula gets an apostrophe."""
    text = repr(value) if isinstance(value, float) and not math.isnan(value) else _show(value)
    number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]inf", text, re.IGNORECASE)
    return text if number or not text.startswith(("=", "+", "-", "@")) else f"'{text}"
