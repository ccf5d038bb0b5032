"""One self-contained HTML page about runs, and its tables and figures as files of their own."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gplasc
from gplasc.errors import UserError
from gplasc.files import write_atomic
from gplasc.report import style
from gplasc.report.chart import Chart, HeatMap, Picture, Plot
from gplasc.report.groups import SCENARIOS, Panel, make_panels
from gplasc.report.section import Block, Section
from gplasc.report.sections import build_sections
from gplasc.report.table import Table
from gplasc.report.wording import scale_note, show_difference
from gplasc.results.aggregate import load_records


def build_report(
    records: Sequence[dict[str, Any]],
    path: Path,
    *,
    title: str = "Class-incremental learning",
    extra: Sequence[Section] = (),
) -> Path:
    """Write one page about the runs to `path` and return it; `extra` sections stand after the summary.

    The page carries everything it needs and asks no network for anything. Raises UserError when there is nothing to
    show, when a record is not one, and when the packages of the extra 'report' are missing.
    """
    if not records and not extra:
        raise UserError("there is no complete run to report on; run some, or name a folder that holds them")
    style.require("jinja2", "plotly")
    panels = make_panels(records)
    sections = list(build_sections(panels)) if panels else []
    sections[1:1] = extra
    return write_atomic(path, render(title, headline(panels), sections))


def write_report(
    folders: Sequence[Path],
    path: Path,
    *,
    title: str = "Class-incremental learning",
    tables: Path | None = None,
    figures: Path | None = None,
) -> list[Path]:
    """Report on all complete runs in the folders; return the page and the folders of tables and figures."""
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}; give the folder that `gplasc run --out` wrote to")
    records = load_records(folders)
    if not records:
        names = ", ".join(map(str, folders))
        raise UserError(
            f"there is no complete run in {names}; finish one with `gplasc run`, or name another folder"
        )
    written = [build_report(records, path, title=title)]
    sections = report_sections(records) if tables or figures else []
    if tables is not None:
        write_tables(sections, tables)
        write_atomic(tables / "metrics.csv", metrics_csv(records))
        write_atomic(tables / "matrices.csv", matrices_csv(records))
        written.append(tables)
    if figures is not None:
        write_figures(sections, figures)
        written.append(figures)
    return written


def report_sections(records: Sequence[dict[str, Any]]) -> list[Section]:
    """The sections that `build_report` makes of records."""
    return build_sections(make_panels(records))


def headline(panels: Sequence[Panel]) -> list[str]:
    """What the page is about, in a few sentences of plain text."""
    if not panels:
        return []
    runs = sum(len(group.records) for panel in panels for group in panel.groups)
    streams = list(dict.fromkeys(panel.stream for panel in panels))
    groups = sum(len(panel.groups) for panel in panels)
    words = [
        f"{_count(runs, 'run')} of {_count(groups, 'configuration')} on "
        f"{', '.join(streams[:6])}{' and more' if len(streams) > 6 else ''}."
    ]
    gains = [c.difference("class_il", "final_accuracy") for panel in panels for c in panel.comparisons]
    known = [gain for gain in gains if gain.count]
    if len(known) == 1:
        words.append(f"The plug-in changes class-IL accuracy by {show_difference(known[0])} points.")
    elif known:
        clear = [g for g in known if math.isfinite(g.low) and not g.low <= 0 <= g.high]
        up = sum(g.mean > 0 for g in clear)
        mean = sum(g.mean for g in known) / len(known)
        words.append(
            f"Over {len(known)} comparisons of a method with and without its plug-in, class-IL accuracy changes by "
            f"{mean:+.2f} points on average; the interval lies above 0 in {up}, below 0 in {len(clear) - up} "
            f"and holds 0, or is unknown, in {len(known) - len(clear)}.".replace("-0.", "−0.")
        )
    return words


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def render(title: str, lead: Sequence[str], sections: Sequence[Section]) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("gplasc.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["chart"] = lambda block: isinstance(block, Chart)
    environment.tests["plot"] = lambda block: isinstance(block, Plot)
    environment.tests["heatmap"] = lambda block: isinstance(block, HeatMap)
    environment.tests["picture"] = lambda block: isinstance(block, Picture)
    environment.tests["table"] = lambda block: isinstance(block, Table)
    environment.filters["plotly"] = lambda block: Markup(script_json(block.to_plotly()))
    environment.filters["svg"] = _data_address
    environment.filters["paragraphs"] = lambda text: [p for p in text.split("\n\n") if p.strip()]
    numbers: Iterator[int] = iter(range(1, 1_000_000))
    environment.globals["next_id"] = lambda: f"figure-{next(numbers)}"
    template = environment.get_template("page.html.jinja")
    anchors = _anchors(sections)
    plotly = get_plotlyjs() if any(_interactive(block) for s in sections for block in s.all_blocks()) else ""
    return template.render(
        title=title,
        lead=lead,
        sections=list(zip(anchors, sections, strict=True)),
        version=gplasc.__version__,
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        plotly=Markup(plotly),
        warnings=_warnings(sections),
    )


def _interactive(block: Block) -> bool:
    return isinstance(block, (Chart, Plot))


def _warnings(sections: Sequence[Section]) -> list[str]:
    """The notes on scales that stand under the tables, each once, for the top of the page."""
    known = {scale_note(scale) for scale in ("smoke", "cpu")}
    notes = [b.note for s in sections for b in s.all_blocks() if isinstance(b, Table) and b.note in known]
    return list(dict.fromkeys(notes))


def _anchors(sections: Sequence[Section]) -> list[str]:
    """A different target of links for each section, also where titles repeat."""
    taken: dict[str, int] = {}
    result = []
    for section in sections:
        taken[section.anchor] = number = taken.get(section.anchor, 0) + 1
        result.append(section.anchor if number == 1 else f"{section.anchor}-{number}")
    return result


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element.

    >>> script_json({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _data_address(picture: Picture) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(picture.to_svg()).decode()


def write_tables(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write every named table as Markdown, LaTeX and CSV; return the paths."""
    paths = []
    for block in _blocks(sections):
        if isinstance(block, Table) and block.name:
            for suffix, text in (
                (".md", block.to_markdown()),
                (".tex", block.to_latex()),
                (".csv", block.to_csv()),
            ):
                paths.append(write_atomic(folder / f"{block.name}{suffix}", text))
    return paths


def write_figures(
    sections: Sequence[Section], folder: Path, suffixes: tuple[str, ...] = (".svg", ".pdf")
) -> list[Path]:
    """Draw every named figure for print; return the paths."""
    paths: list[Path] = []
    for block in _blocks(sections):
        if isinstance(block, (Chart, HeatMap, Picture)) and block.name:
            with style.paper_style():
                paths += style.save_figure(block.to_matplotlib(), folder / block.name, suffixes)
    return paths


def _blocks(sections: Sequence[Section]) -> list[Block]:
    return [block for section in sections for block in section.all_blocks()]


_KEYS = ("run", "stream", "scale", "buffer", "method", "seed", "scenario")


def metrics_csv(records: Sequence[dict[str, Any]]) -> str:
    """Every metric of every run in full precision: one line for each run, scenario and metric."""
    lines = [
        (*keys, metric, value)
        for keys, record in _scenarios(records)
        for metric, value in record["metrics"][keys[-1]].items()
    ]
    return _csv((*_KEYS, "metric", "value"), lines)


def matrices_csv(records: Sequence[dict[str, Any]]) -> str:
    """Every accuracy in full precision: one line for each run, scenario, tasks learned and task, counted from 1."""
    lines = [
        (*keys, after, task, value)
        for keys, record in _scenarios(records)
        for after, row in enumerate(record["matrix"][keys[-1]], 1)
        for task, value in enumerate(row, 1)
        if value is not None
    ]
    return _csv((*_KEYS, "after_task", "task", "accuracy"), lines)


def _scenarios(records: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The values of `_KEYS` for each run and scenario, with the run's record."""
    for panel in make_panels(records):
        for group in panel.groups:
            for record in group.records:
                seed = record["settings"].get("seed", 0)
                for scenario in SCENARIOS:
                    yield (
                        (
                            record["run_id"],
                            panel.stream,
                            panel.scale,
                            panel.buffer,
                            group.label,
                            seed,
                            scenario,
                        ),
                        record,
                    )


def _csv(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return out.getvalue()
