"""Tables of groups of runs with their paired differences and the published numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Table
from gplasc.published import Published, published
from gplasc.published import tables as published_tables
from gplasc.results.group import CLASS_IL, Group, Measure, say_differing
from gplasc.study._conclusions import tests_table
from gplasc.study.cell import named_values
from gplasc.study.experiment import Caption
from gplasc.study.stored import Results


def write_tables(
    folder: Path,
    caption: Caption,
    groups: Sequence[Group],
    measures: Sequence[Measure],
    tables: Sequence[Table],
) -> list[Path]:
    """Write tables to table.md and table.tex, and a line for every number of the groups to table.csv."""
    kind = " comparison" if caption.preset_buffers else ""
    title = f"# {caption.name}{kind}\n\n{caption.title[0].upper()}{caption.title[1:]}.\n"
    facts = [_Number(caption, groups, group, measure).facts() for group in groups for measure in measures]
    texts = {
        "table.md": "\n".join([title, *(table.to_markdown() for table in tables)]),
        "table.tex": "\n".join(table.to_latex() for table in tables),
        "table.csv": Table("", list(facts[0]), [list(one.values()) for one in facts]).to_csv(),
    }
    return [write_atomic(folder / name, text) for name, text in texts.items()]


def result_tables(caption: Caption, groups: Sequence[Group], measures: Sequence[Measure]) -> list[Table]:
    """Return a table for each stream, with a section for each buffer and a column for each measure.

    The name of a table is its stream. The notes on published numbers and on the experiment are below the last one.
    """
    sections: dict[str, dict[int | None, list[Group]]] = {}
    for group in groups:
        sections.setdefault(group.labels["stream"], {}).setdefault(caption.buffer(group), []).append(group)
    about = f"({_scale_tag(caption, groups)}): {_metric(caption, measures)}"
    columns = [Column("buffer"), Column("", "left"), *(Column(m.label, "left") for m in measures)]
    marks: dict[str, int] = {}
    tables = []
    for stream, by_buffer in sections.items():
        rows: list[list[Any]] = []
        breaks = []
        for buffer, own in by_buffer.items():
            breaks.append(len(rows))
            for group in own:
                lines = [_Number(caption, groups, group, measure).lines(marks) for measure in measures]
                rows.append([buffer if group is own[0] else None, group.row, *map("\n".join, lines)])
        title = f"{caption.name} on {stream} {about}"
        tables.append(Table(title, columns, rows, [caption.statement], breaks, stream))
    notes = [*(f"[{number}] {note}" for note, number in marks.items()), *_remarks(caption, groups, measures)]
    return [*tables[:-1], replace(tables[-1], notes=[caption.statement, *notes])]


class _Number:
    """A measure of a group, next to its base and to the published number."""

    def __init__(self, caption: Caption, groups: Sequence[Group], group: Group, measure: Measure) -> None:
        self.caption, self.group, self.measure = caption, group, measure
        self.bases = [group.base_among(groups, number) for number in range(len(group.bases))]
        self.base = next(iter(self.bases), None)
        self.spread = group.spread(measure)
        self.differences = [group.gain(measure, groups, number) for number in range(len(group.bases))]
        self.difference = next(iter(self.differences), None)
        self.scale = str(group.settings["scale"])
        changed = self.scale == "paper" and bool(caption.changed)
        self.is_reproduction = self.scale == "paper" and caption.comparable and not changed
        self.published = self._published(group.labels["row"])
        # Synthetic images, a changed protocol and a plug-in in another form have no gap.
        own = not caption.comparable or self.scale == "smoke" or changed or group.row != group.labels["row"]
        theirs = None if own or not self.spread.count else self.published
        same_buffer = theirs is not None and theirs.buffer == caption.buffer(group)
        self.gap = self.spread.mean - theirs.mean if theirs and same_buffer else None
        self.overhead = self.published_overhead = None  # percent more time than the base
        if self.base and measure.metric == "seconds":
            ratio, base = group.ratio(measure, self.base), self._published(group.bases[0])
            self.overhead = None if ratio is None else 100 * (ratio - 1)
            if self.published and base:
                self.published_overhead = 100 * (self.published.mean / base.mean - 1)

    def _published(self, row: str) -> Published | None:
        """Return the number of a table of the paper; one that states no buffer is shown without a gap."""
        measure, stream = self.measure, self.group.labels["stream"]
        table = None if self.group.is_own else self.caption.published_table(measure.scenario)
        place: dict[str, Any] = {"row": row, "stream": stream, "scenario": measure.scenario}
        numbers = published(table, **place, metric=measure.metric, point=measure.point) if table else []
        return next((one for one in numbers if one.buffer in (self.caption.buffer(self.group), None)), None)

    def lines(self, marks: dict[str, int]) -> list[str]:
        """Return the lines of a cell; `marks` are the numbers of the footnotes, to which new ones are added."""
        spread, digits = self.spread, self.measure.digits
        lines = []
        if spread.count:
            lines.append(f"{spread.text(digits)} (n={spread.count})")
        if self.group.missing:
            lines.append(f"{self.group.missing} failed")
        for base, gain in zip(self.bases, self.differences, strict=True):
            lines += [f"{gain.text(digits)} to {base.row} (n={gain.count})"] if base and gain else []
        if self.overhead is not None:
            lines.append(f"{self.overhead:+.1f} % time")
        if self.published:
            notes = ",".join(str(marks.setdefault(note, len(marks) + 1)) for note in self.published.notes)
            unknown = ", no buffer stated" if self.published.buffer != self.caption.buffer(self.group) else ""
            lines.append(f"paper {self.published}{unknown}" + (f" [{notes}]" if notes else ""))
        if self.published_overhead is not None:
            lines.append(f"paper {self.published_overhead:+.1f} % time")
        if self.gap is not None:
            scale = "" if self.is_reproduction else f" ({self.scale} - paper scale)"
            errors = self._standard_error() if self.is_reproduction else None
            times = f", {abs(self.gap) / errors:.1f} standard errors" if errors else ""
            lines.append(f"gap {self.gap:+.{digits}f}{scale}{times}")
        return lines or ["-"]

    def _standard_error(self) -> float | None:
        """Return the standard error of the gap between two means, if both have a standard deviation over seeds."""
        published, ours = self.published, self.spread
        if not published or published.std is None or not published.trials or ours.count < 2:
            return None
        return math.sqrt(ours.std**2 / ours.count + published.std**2 / published.trials)

    def facts(self) -> dict[str, Any]:
        """Return all that is known of the number."""
        group, measure, difference, published = self.group, self.measure, self.difference, self.published
        complete = set().union(*group.values.values())
        return {
            "experiment": self.caption.name,
            "row": group.row,
            "stream": group.labels["stream"],
            "buffer": self.caption.buffer(group),
            "metric": measure.metric,
            "scenario": measure.scenario,
            "point": measure.point,
            "scale": self.scale,
            "measured_on": group.settings["stream"],
            "mean": self.spread.mean,
            "std": self.spread.std,
            "seeds": " ".join(map(str, group.by_seed(measure))),
            "base": self.base and self.base.row,
            "difference": difference and difference.mean,
            "low": difference and difference.low,
            "high": difference and difference.high,
            "pairs": difference and difference.count,
            "overhead_percent": self.overhead,
            "paper_mean": published and published.mean,
            "paper_std": published and published.std,
            "paper_trials": published and published.trials,
            "paper_table": published and published.label,
            "gap": self.gap,
            "reproduction": "yes" if self.is_reproduction else "no",
            "missing": group.missing,
            "notes": "; ".join(published.notes) if published else None,
            "runs": " ".join(run for seed, run in group.runs.items() if seed in complete),
        }


def _scale_tag(caption: Caption, groups: Sequence[Group]) -> str:
    """Return the scale for a title, with the warning that belongs to it."""
    scale = groups[0].settings["scale"]
    if scale == "smoke":
        synthetic = any(group.settings["stream"] != group.labels["stream"] for group in groups)
        return f"scale smoke, {'SYNTHETIC images' if synthetic else 'a few steps'}, numbers mean nothing"
    changed = f", changed: {', '.join(caption.changed)}" if caption.changed else ""
    return f"scale paper{changed}" if scale == "paper" else f"scale {scale}, not a reproduction"


def _metric(caption: Caption, measures: Sequence[Measure]) -> str:
    name = measures[0].metric
    text = name if name in ("seconds", "overlap", "silhouette") else f"{name.replace('_', ' ')}, percent"
    return f"{text} (lower is better)" if caption.lower_is_better else text


def _remarks(caption: Caption, groups: Sequence[Group], measures: Sequence[Measure]) -> list[str]:
    """Return the notes on the published tables as a whole and on the experiment."""
    names = dict.fromkeys(map(caption.published_table, (None, *(m.scenario for m in measures))))
    tables = [published_tables()[name] for name in names if name]
    what = "mean of the seeds' differences [Student's interval of 95 percent] (number of pairs)"
    return [
        *([f"Differences: {what}."] if any(group.base_among(groups) for group in groups) else []),
        *(f"Published: {table.paper}, {table.label}: {table.title}." for table in tables),
        *(f"Published: {text}." for table in tables for text in table.remarks),
        *(f"Note: {text}." for text in caption.notes),
    ]


# ---- tables of a comparison ----------------------------------------------------------------------------------------

KINDS = ("results", "tests", "tuning")


def comparison_tables(
    results: Results, kinds: Sequence[str] = KINDS, streams: Sequence[str] = ()
) -> list[Table]:
    """Return the tables of a comparison, for each stream (default: all) one a kind.

    The kinds are ``results`` on test, ``tests`` of the family, and ``tuning`` with what was searched and chosen.
    """
    makers = {"tests": tests_table, "tuning": _tuning}
    tables: list[Table | None] = []
    for table in result_tables(results.caption, results.groups(stage="test"), results.measures):
        if not streams or table.name in streams:
            notes = [results.protocol, *table.notes]
            if tests_table(results, table.name) is None:  # which says it otherwise
                notes += say_differing(results.groups(stage="test", stream=table.name), ("buffer",))
            whole = replace(table, notes=notes, commands=[results.command])
            tables += [whole if kind == "results" else makers[kind](results, table.name) for kind in kinds]
    return [table for table in tables if table is not None]


def write_comparison(results: Results, folder: Path) -> list[Path]:
    """Write table.md, table.tex, table.csv with a line for each number, and summary.json."""
    groups, tables = results.groups(stage="test"), comparison_tables(results)
    files = write_tables(folder, results.caption, groups, results.measures, tables)
    return [*files, results.write(folder / "summary.json")]


def _tuning(results: Results, stream: str) -> Table | None:
    """Return what was chosen for each row."""
    rows: list[list[Any]] = []
    searched: dict[str, list[str]] = {}
    for row in results.groups(stage="test", stream=stream) if results.plan.tunes else ():
        trials, number, name = results.trials(row), results.chosen(row), row.row
        if not trials:  # it has the settings of another row
            continue
        scores = [f"{trial.spread(CLASS_IL).mean:.2f}" if not trial.missing else None for trial in trials]
        completed = f"{len(trials) - scores.count(None)} of {len(trials)}"
        score = "failed" if number is None else scores[number]
        chosen = "" if number is None else named_values(trials[number].settings)
        chosen += " (the preset)" if number == 0 else ""
        rows.append([results.caption.buffer(row), name, completed, scores[0], score, chosen])
        axes = next(one.values for one in results.searched if one.labels.items() <= row.labels.items())
        listed = "; ".join(f"{setting}: {', '.join(map(str, values))}" for setting, values in axes.items())
        searched.setdefault(listed, []).append(name)
    heads = ("trials completed", "validation, preset", "validation, chosen")
    columns = [Column("buffer"), Column("", "left"), *map(Column, heads), Column("chosen", "left")]
    notes = [f"Searched for {', '.join(names)}: {axes}." for axes, names in searched.items()]
    title = f"Tuning on {stream}: class-IL on validation, percent"
    return Table(title, columns, rows, notes) if rows else None
