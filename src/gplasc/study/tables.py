"""Tables of groups of runs with their paired differences and the published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Table
from gplasc.published import Published, lookup
from gplasc.published import tables as published_tables
from gplasc.report.charts import Chart, Guide, Series, write_charts
from gplasc.results.group import Group, Measure
from gplasc.results.statistics import Difference, Spread
from gplasc.study.experiment import Caption
from gplasc.study.stored import CLASS_IL, Results, is_complete


def result_tables(caption: Caption, groups: Sequence[Group], measures: Sequence[Measure]) -> list[Table]:
    """Return a table for each stream, with a section for each buffer and a column for each measure.

    The name of a table is its stream. The notes on published numbers and on the experiment are below the last one.
    """
    marks: dict[str, int] = {}
    columns = [Column("buffer"), Column("", "left"), *(Column(m.label, "left") for m in measures)]
    tables: list[tuple[str, list[list[str]], list[int]]] = []
    for stream in dict.fromkeys(group.labels["stream"] for group in groups):
        rows: list[list[str]] = []
        breaks = []
        own = [group for group in groups if group.labels["stream"] == stream]
        for buffer in dict.fromkeys(map(caption.buffer, own)):
            breaks.append(len(rows))
            for group in (group for group in own if caption.buffer(group) == buffer):
                shown = str(buffer) if buffer is not None and len(rows) == breaks[-1] else ""
                cells = ["\n".join(Number(caption, groups, group, m).lines(marks)) for m in measures]
                rows.append([shown, group.labels["row"], *cells])
        tables.append((stream, rows, breaks))
    about = f"({_scale_tag(groups)}): {_metric(caption, measures)}"
    last = [*(f"[{number}] {note}" for note, number in marks.items()), *_remarks(caption, groups, measures)]
    return [
        Table(
            f"{caption.name} on {stream} {about}",
            columns,
            rows,
            [caption.statement, *(last if number == len(tables) else [])],
            breaks,
            stream,
        )
        for number, (stream, rows, breaks) in enumerate(tables, 1)
    ]


def facts_table(caption: Caption, groups: Sequence[Group], measures: Sequence[Measure]) -> Table:
    """Return a table with a line for every number and all that is known of it, for CSV."""
    lines = [Number(caption, groups, group, measure).facts() for group in groups for measure in measures]
    return Table("", list(lines[0]), [list(line.values()) for line in lines])


def write_tables(folder: Path, heading: str, title: str, tables: Sequence[Table], facts: Table) -> list[Path]:
    """Write table.md and table.tex, to read, and table.csv, and return their paths."""
    texts = {
        "md": "\n".join(
            [
                f"# {heading}\n\n{title[0].upper()}{title[1:]}.\n",
                *(table.to_markdown() for table in tables),
            ]
        ),
        "tex": "\n".join(table.to_latex() for table in tables),
        "csv": facts.to_csv(),
    }
    return [write_atomic(folder / f"table.{suffix}", text) for suffix, text in texts.items()]


@dataclass(frozen=True)
class Number:
    """A measure of a group, next to its base and to the published number."""

    caption: Caption
    groups: Sequence[Group]
    group: Group
    measure: Measure

    @property
    def base(self) -> Group | None:
        """The group that it is compared with."""
        return self.group.base_among(self.groups)

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation over the seeds."""
        return self.group.spread(self.measure)

    @property
    def difference(self) -> Difference | None:
        """The paired difference to the base; None without a pair."""
        difference = self.group.difference(self.measure, self.base) if self.base else None
        return difference if difference and difference.count else None

    @property
    def overhead(self) -> float | None:
        """Percent more time than the base."""
        in_time = self.measure.metric == "seconds"
        ratio = self.group.ratio(self.measure, self.base) if in_time and self.base else None
        return None if ratio is None else 100 * (ratio - 1)

    @property
    def published(self) -> Published | None:
        """The published number."""
        return self._published(self.group.labels["row"])

    @property
    def published_overhead(self) -> float | None:
        """Percent more time than the base in the paper."""
        ours, theirs = self.published, self._published(self.group.bases[0]) if self.group.bases else None
        if self.measure.metric != "seconds" or not ours or not theirs:
            return None
        return 100 * (ours.mean / theirs.mean - 1)

    @property
    def gap(self) -> float | None:
        """Our mean minus the published one, where both measure the same: never for synthetic images."""
        published = self.published
        if (
            published is None
            or not self.caption.comparable
            or self._scale == "smoke"
            or not self.spread.count
        ):
            return None
        return self.spread.mean - published.mean

    @property
    def is_reproduction(self) -> bool:
        """Whether the number was measured as the published one was."""
        return self._scale == "paper" and self.caption.comparable

    def lines(self, marks: dict[str, int]) -> list[str]:
        """Return the lines of a cell: our number, the difference to the base, the published number, the gap.

        Args:
            marks: The number of each footnote below the table; new ones are added.
        """
        spread, difference, published, digits = (
            self.spread,
            self.difference,
            self.published,
            self.measure.digits,
        )
        lines = []
        if spread.count:
            std = f" ± {spread.std:.{digits}f}" if spread.count > 1 else ""
            lines.append(f"{spread.mean:.{digits}f}{std} (n={spread.count})")
        if self.group.missing:
            lines.append(f"{self.group.missing} failed")
        if difference is not None:
            ends = (
                f" [{difference.low:+.{digits}f}, {difference.high:+.{digits}f}]"
                if difference.count > 1
                else ""
            )
            lines.append(
                f"{difference.mean:+.{digits}f}{ends} to {self.group.bases[0]} (n={difference.count})"
            )
        if self.overhead is not None:
            lines.append(f"{self.overhead:+.1f} % time")
        if published is not None:
            notes = ",".join(str(marks.setdefault(note, len(marks) + 1)) for note in published.notes)
            lines.append(f"paper {published}" + (f" [{notes}]" if notes else ""))
            if self.published_overhead is not None:
                lines.append(f"paper {self.published_overhead:+.1f} % time")
        if self.gap is not None:
            scale = "" if self.is_reproduction else f" ({self._scale} - paper scale)"
            lines.append(f"gap {self.gap:+.{digits}f}{scale}")
        return lines or ["-"]

    def facts(self) -> dict[str, Any]:
        """Return all that is known of the number."""
        group, difference, published = self.group, self.difference, self.published
        complete = set().union(*group.values.values())
        return {
            "experiment": self.caption.name,
            "row": group.labels["row"],
            "stream": group.labels["stream"],
            "buffer": self.caption.buffer(group),
            "metric": self.measure.metric,
            "scenario": self.measure.scenario,
            "point": self.measure.point,
            "scale": self._scale,
            "measured_on": group.settings["stream"],
            "mean": self.spread.mean,
            "std": self.spread.std,
            "seeds": " ".join(map(str, group.by_seed(self.measure))),
            "base": self.base and self.base.labels["row"],
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

    @property
    def _scale(self) -> str:
        return str(self.group.settings["scale"])

    def _published(self, row: str) -> Published | None:
        table = self.caption.published_table(self.measure.scenario)
        if table is None:
            return None
        return lookup(
            table,
            row,
            stream=self.group.labels["stream"],
            buffer=self.caption.buffer(self.group),
            scenario=self.measure.scenario,
            metric=self.measure.metric,
            point=self.measure.point,
        )


def _scale_tag(groups: Sequence[Group]) -> str:
    """Return the scale for a title, with the warning that belongs to it."""
    scale = groups[0].settings["scale"]
    if scale == "smoke":
        synthetic = any(group.settings["stream"] != group.labels["stream"] for group in groups)
        return f"scale smoke, {'SYNTHETIC images' if synthetic else 'a few steps'}, numbers mean nothing"
    return f"scale {scale}" if scale == "paper" else f"scale {scale}, not a reproduction"


def _metric(caption: Caption, measures: Sequence[Measure]) -> str:
    name = measures[0].metric
    text = name if name in ("seconds", "overlap", "silhouette") else f"{name.replace('_', ' ')}, percent"
    return f"{text} (lower is better)" if caption.lower_is_better else text


def _remarks(caption: Caption, groups: Sequence[Group], measures: Sequence[Measure]) -> list[str]:
    """Return the notes on the published tables as a whole and on the experiment."""
    names = dict.fromkeys(
        caption.published_table(scenario) for scenario in (None, *(m.scenario for m in measures))
    )
    tables = [published_tables()[name] for name in names if name]
    intervals = (
        "Differences: mean of the seeds' differences [Student's interval of 95 percent] (number of pairs)."
    )
    return [
        *([intervals] if any(group.base_among(groups) for group in groups) else []),
        *(f"Published: {table.paper}, {table.label}: {table.title}." for table in tables),
        *(f"Published: {text}." for table in tables for text in table.remarks),
        *(f"Note: {text}." for text in caption.notes),
    ]


# ---- tables of a comparison ----------------------------------------------------------------------------------------

KINDS = ("results", "tuning", "temperature")


def comparison_tables(
    results: Results, kinds: Sequence[str] = KINDS, streams: Sequence[str] = ()
) -> list[Table]:
    """Return the tables of a comparison, for each stream one a kind.

    Args:
        results: The comparison.
        kinds: ``results`` on test, ``tuning`` with what was searched and chosen, ``temperature``, and ``gains``:
            class-IL on test with a column for each plug-in.
        streams: Streams to show; default: all.
    """
    tests = results.groups(stage="test")
    shown = {table.name: table for table in result_tables(results.caption, tests, results.measures)}
    tables: list[Table | None] = []
    for stream in (stream for stream in shown if not streams or stream in streams):
        for kind in kinds:
            if kind == "results":
                notes = [_protocol(results), *shown[stream].notes]
                tables.append(replace(shown[stream], notes=notes, commands=[results.command]))
            else:
                make = {"tuning": _tuning, "temperature": _temperatures, "gains": _gains}[kind]
                tables.append(make(results, stream))
    return [table for table in tables if table is not None]


def write_comparison(results: Results, folder: Path) -> list[Path]:
    """Write table.md and table.tex to read, table.csv and trials.csv with a line for each number, and summary.json.

    gains.svg shows the differences, if there are any.
    """
    caption, tests = results.caption, results.groups(stage="test")
    facts = facts_table(caption, tests, results.measures)
    return [
        *write_tables(folder, f"{caption.name} comparison", caption.title, comparison_tables(results), facts),
        write_atomic(folder / "trials.csv", _trials(results).to_csv()),
        results.write(folder / "summary.json"),
        *write_gains(folder / "gains.svg", [results]),
    ]


def streams_table(comparisons: Sequence[Results]) -> Table:
    """Return class-IL of the rows of several comparisons, with a column for each stream and the mean gain."""
    cells: dict[str, dict[str, str]] = {}
    gains: dict[str, list[float]] = {}
    for tests in (results.groups(stage="test") for results in comparisons):
        for group in tests:
            row, gain = group.labels["row"], _gain(group, tests)
            text = str(group.spread(CLASS_IL)) + (f"\n{gain.mean:+.2f}" if gain else "")
            cells.setdefault(row, {})[group.labels["stream"]] = text
            gains.setdefault(row, []).extend([gain.mean] if gain else [])
    streams = list(dict.fromkeys(stream for own in cells.values() for stream in own))
    means = {row: f"{sum(own) / len(own):+.2f}" for row, own in gains.items() if len(own) == len(streams)}
    splits = " and ".join(dict.fromkeys(results.evaluated_on for results in comparisons))
    return Table(
        f"Final class-IL accuracy on {splits}, percent",
        [Column("", "left"), *(Column(stream, "left") for stream in streams), Column("mean gain")],
        [
            [row, *(own.get(stream, "") for stream in streams), means.get(row, "")]
            for row, own in cells.items()
        ],
        [
            "Mean ± std (n = number of seeds), and the mean of the paired differences to the first row.",
            *dict.fromkeys(map(_protocol, comparisons)),
        ],
        commands=[results.command for results in comparisons],
    )


def gains_chart(comparisons: Sequence[Results]) -> Chart:
    """Return a chart with a line for each method and stream, and a mark with an interval for each row compared with it.

    Args:
        comparisons: Comparisons, in the order in which they are shown.
    """
    gains = []
    for results in comparisons:
        tests = results.groups(stage="test")
        for group in tests:
            if gain := _gain(group, tests):
                buffer, stream = results.caption.buffer(group), group.labels["stream"]
                gains.append((group, (group.bases[0], stream, buffer), _compared(group), gain))
    several = len({place[1:] for _, place, _, _ in gains}) > len({place[1] for _, place, _, _ in gains})
    series = []
    for number, name in enumerate(dict.fromkeys(name for _, _, name, _ in gains)):
        own = [(place, gain) for _, place, other, gain in gains if other == name]
        places = [
            f"{base} on {stream}" + (f", buffer {size}" if several else "") for (base, stream, size), _ in own
        ]
        ends = [(gain.low, gain.high) if gain.count > 1 else (None, None) for _, gain in own]
        low, high = zip(*ends, strict=True)
        series.append(
            Series(name, tuple(places), tuple(gain.mean for _, gain in own), low, high, color=number)
        )
    splits = " and ".join(dict.fromkeys(results.evaluated_on for results in comparisons))
    return Chart(
        title=f"Gain in final class-IL accuracy on {splits}",
        x_label="compared with",
        y_label="paired difference, percentage points, 95 % interval",
        series=tuple(series),
        summary="; ".join(
            f"{group.labels['row']} on {stream}: {gain.mean:+.2f}" for group, (_, stream, _), _, gain in gains
        ),
        kind="interval",
        guides=(Guide(0.0),),
        name="gains",
    )


def write_gains(path: Path, comparisons: Sequence[Results]) -> list[Path]:
    """Write the chart as an SVG file and return its path; nothing if no row is compared with another."""
    chart = gains_chart(comparisons)
    return write_charts([chart], path.with_suffix(""), (".svg",), columns=1) if chart.drawable else []


def _gain(group: Group, groups: Sequence[Group]) -> Difference | None:
    """Return the paired difference in class-IL to the base; None without a base or without pairs."""
    base = group.base_among(groups)
    gain = group.difference(CLASS_IL, base) if base else None
    return gain if gain and gain.count else None


def _compared(group: Group) -> str:
    """Return what is compared with the base: the plug-ins, or the row where its base has the same ones."""
    plugins, row = "+".join(group.settings["plugins"]), str(group.labels["row"])
    return plugins if row == f"{group.bases[0]}+{plugins}" else row


def _gains(results: Results, stream: str) -> Table:
    """Return class-IL on test of each row that others are compared with, and of these others, with their gains."""
    groups = results.groups(stage="test", stream=stream)
    cells: dict[tuple[int | None, str], dict[str, str]] = {}
    for group in groups:
        gain, row = _gain(group, groups), str(group.labels["row"])
        base = group.base_among(groups)
        name = ("+".join(group.settings["plugins"]) or row) if base else ""
        place = (results.caption.buffer(group), group.bases[0] if base else row)
        cells.setdefault(place, {})[name] = str(group.spread(CLASS_IL)) + (f"\n{gain}" if gain else "")
    names = [name for name in dict.fromkeys(name for own in cells.values() for name in own) if name]
    heads = [Column("alone", "left"), *(Column(f"with {name}", "left") for name in names)]
    return Table(
        f"{stream}: final class-IL accuracy on {results.evaluated_on}, percent",
        [Column("buffer"), Column("", "left"), *heads],
        [[*place, *map(own.get, ("", *names))] for place, own in cells.items() if len(own) > 1],
        [
            "Mean ± std (n = number of seeds). Gain: mean of the paired differences, Student's interval of 95 percent."
        ],
        commands=[results.command],
    )


def _tuning(results: Results, stream: str) -> Table | None:
    """Return what was chosen for each row."""
    if not results.plan.tunes:
        return None
    rows: list[list[Any]] = []
    searched: dict[str, list[str]] = {}
    for row in results.groups(stage="test", stream=stream):
        trials, number = results.trials(row), results.chosen(row)
        scores = [f"{trial.spread(CLASS_IL).mean:.2f}" if is_complete(trial) else None for trial in trials]
        chosen = "" if number is None else _values(trials[number])
        rows.append(
            [
                results.caption.buffer(row),
                row.labels["row"],
                f"{len(trials) - scores.count(None)} of {len(trials)}",
                scores[0],
                "failed" if number is None else scores[number],
                f"{chosen} (the preset)" if number == 0 else chosen,
            ]
        )
        axes = results.searched_for(row).items()
        text = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in axes)
        searched.setdefault(text, []).append(str(row.labels["row"]))
    columns = [
        Column("buffer"),
        Column("", "left"),
        Column("trials completed"),
        Column("validation, preset"),
        Column("validation, chosen"),
        Column("chosen", "left"),
    ]
    notes = [f"Searched for {', '.join(names)}: {axes}." for axes, names in searched.items()]
    return Table(f"Tuning on {stream}: class-IL on validation, percent", columns, rows, notes)


def _temperatures(results: Results, stream: str) -> Table | None:
    """Return class-IL for each temperature, with and without plug-ins, all else at the preset."""
    groups = results.groups(stage="temperature", stream=stream)
    rows: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        rows.setdefault((group.labels.get("buffer"), group.labels["row"]), []).append(group)
    if not rows:
        return None
    cells: list[list[Any]] = []
    for place, own in rows.items():
        texts = []
        for group in own:
            gain = _gain(group, groups)
            text = str(group.spread(CLASS_IL)) if group.values else "failed"
            texts.append(f"{text}\nto {group.bases[0]} {gain}" if gain else text)
        change = own[-1].difference(CLASS_IL, own[0])
        cells.append([*place, *texts, str(change) if change.count else ""])
    names = [f"{temperature:g}" for temperature in results.plan.temperatures]
    heads = [*(f"temperature {name}" for name in names), f"{names[0]} to {names[-1]}"]
    return Table(
        f"Temperature x plug-in on {stream}: class-IL on {results.evaluated_on}, percent",
        [Column("buffer"), Column("", "left"), *(Column(head, "left") for head in heads)],
        cells,
        [
            "All other settings are those of the preset. Student's intervals of 95 percent of paired differences."
        ],
    )


def _trials(results: Results) -> Table:
    """Return a line for every trial and tuning seed."""
    names = ["stream", "buffer", "row", "trial", "chosen", "seed", "class_il_validation", "values", "run_id"]
    lines = []
    for row in results.groups(stage="test"):
        chosen = results.chosen(row)
        for number, trial in enumerate(results.trials(row)):
            place = [row.labels.get(name) for name in names[:3]]
            for seed, run in trial.runs.items():
                score = trial.by_seed(CLASS_IL).get(seed)
                mark = "yes" if number == chosen else "no"
                lines.append([*place, number, mark, seed, score, _values(trial), run])
    return Table("", names, lines)


def _protocol(results: Results) -> str:
    """Return how the numbers were made."""
    plan = results.plan
    if not plan.tunes:
        return (
            "Nothing was tuned: every row has the preset, changed only by what its name and the command say. Seeds "
            f"{_list(plan.seeds)}, evaluated on {results.evaluated_on}."
        )
    budget = f"; trials with {', '.join(plan.tune_set)}" if plan.tune_set else ""
    return (
        f"Each row was tuned with {plan.trials} trials (the preset and {plan.trials - 1} more) on a validation "
        f"split of {plan.validation:.0%} of the training samples (seed {_list(plan.tune_seeds)}{budget}); the "
        "best mean class-IL was then trained on all training samples with the fresh seeds "
        f"{_list(plan.seeds)} and evaluated on test."
    )


def _values(trial: Group) -> str:
    return ", ".join(f"{name}={value}" for name, value in trial.settings.items())


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
