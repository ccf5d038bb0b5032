"""The tables of a fair comparison, made of its summary alone: for the terminal, files, and pages of the docs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Table
from gplasc.paper.definition import Experiment, Row, StandIn, load_experiment
from gplasc.paper.fair.picture import write_gains
from gplasc.paper.fair.summary import (
    MEASURES,
    FairSummary,
    TemperatureResult,
)
from gplasc.paper.summary import Entry, make_entry
from gplasc.paper.tables import cell_table, stream_tables
from gplasc.results.statistics import paired_difference, spread

KINDS = ("results", "tuning", "temperature")
_GAINS = "gains"  # a shorter form of the results, only where it is asked for


def summary_tables(
    summary: FairSummary, kinds: Sequence[str] = KINDS, streams: Sequence[str] = ()
) -> list[Table]:
    """Return the tables of a comparison, for each stream one a kind.

    Args:
        summary: The comparison.
        kinds: ``results`` on test, ``tuning`` with what was searched and chosen, ``temperature``, and ``gains``:
            class-IL on test with a column for each plug-in.
        streams: Streams to show; default: all.
    """
    results = {table.name: table for table in _results(summary)}
    tables = []
    for stream in dict.fromkeys(row.stream for row in summary.rows):
        if not streams or stream in streams:
            found = {
                "results": results[stream],
                "tuning": _tuning(summary, stream) if summary.protocol.tunes else None,
                "temperature": _temperature(summary, stream),
                _GAINS: _gains(summary, stream),
            }
            tables += [table for kind in kinds if (table := found[kind]) is not None]
    return tables


def save_summary(summary: FairSummary, folder: Path) -> list[Path]:
    """Write table.md and table.tex to read, table.csv and trials.csv with a line for each number, and summary.json.

    gains.svg shows the differences, if there are any.
    """
    tables = summary_tables(summary)
    title = f"# {summary.protocol.experiment}, fair comparison\n\n{_sentence(summary.title)}\n"
    texts = {
        "table.md": "\n".join([title, *(table.to_markdown() for table in tables)]),
        "table.tex": "\n".join(table.to_latex() for table in tables),
        "table.csv": cell_table(*_entries(summary)).to_csv(),
        "trials.csv": _trials(summary).to_csv(),
    }
    paths = [write_atomic(folder / name, text) for name, text in texts.items()]
    return [*paths, summary.write(folder / "summary.json"), *write_gains(folder / "gains.svg", [summary])]


def _entries(summary: FairSummary) -> tuple[Experiment, list[Entry]]:
    """Return the cells of the table of results, and the experiment that they belong to."""
    protocol = summary.protocol
    rows = {
        found.row: Row(**found.model_dump(include={"method", "plugins", "base"}), name=found.row)
        for found in summary.rows
    }
    experiment = load_experiment(protocol.experiment).model_copy(
        update={
            "name": f"{protocol.experiment}, fair",
            "rows": tuple(rows.values()),
            "metric": "final_accuracy",
            "lower_is_better": False,
        }
    )
    numbers = {(found.row, found.stream, found.buffer): found.metrics for found in summary.rows}
    entries = []
    for found in summary.rows:
        base = numbers.get((found.base or "", found.stream, found.buffer))
        for name, measure in MEASURES.items():
            if name == "overlap" and not any("overlap" in row.metrics for row in summary.rows):
                continue
            ours = found.metrics.get(name, {})
            entries.append(
                make_entry(
                    experiment,
                    rows[found.row],
                    measure,
                    stream=found.stream,
                    buffer=found.shown_buffer,
                    scale=protocol.scale,
                    stand_in=StandIn(stream=found.measured_on) if found.measured_on != found.stream else None,
                    ours=ours,
                    theirs=None if base is None else base.get(name, {}),
                    runs=tuple(found.runs.values()),
                    missing=len(protocol.seeds) - len(found.runs),
                )
            )
    return experiment, entries


def _results(summary: FairSummary) -> list[Table]:
    """Return the table of each stream on the test split; its name is the stream."""
    experiment, entries = _entries(summary)
    streams = dict.fromkeys(entry.stream for entry in entries)
    tables = stream_tables(experiment, entries, summary.statement)
    return [
        replace(
            table,
            notes=[_protocol_sentence(summary), *table.notes],
            name=stream,
            commands=[summary.command],
        )
        for stream, table in zip(streams, tables, strict=True)
    ]


def _gains(summary: FairSummary, stream: str) -> Table:
    """Return class-IL on test of each row that others are compared with, and of these others, with their gains."""
    found = [row for row in summary.rows if row.stream == stream]
    names = {row.row: "+".join(row.plugins) or row.row for row in found if row.base}
    columns = list(dict.fromkeys(names.values()))
    lines: dict[tuple[int, str], dict[str, str]] = {}
    for row in found:
        values = str(spread(list(row.metrics.get("class_il", {}).values())))
        cells = lines.setdefault((row.shown_buffer, row.base or row.row), {})
        gain = summary.difference(row)
        cells[names.get(row.row, "")] = values if gain is None else f"{values}\n{gain}"
    return Table(
        f"{stream}: final class-IL accuracy on {summary.evaluated_on}, percent",
        [
            Column("buffer"),
            Column("", "left"),
            Column("alone", "left"),
            *(Column(f"with {name}", "left") for name in columns),
        ],
        [
            [buffer, base, *(cells.get(name) for name in ("", *columns))]
            for (buffer, base), cells in lines.items()
            if len(cells) > 1
        ],
        [
            "Mean ± std (n = number of seeds). Gain: mean of the paired differences, Student's interval of 95 percent."
        ],
        commands=[summary.command],
    )


def streams_table(summaries: Sequence[FairSummary]) -> Table:
    """Return class-IL of the rows of several comparisons, with a column for each stream and the mean gain."""
    streams = list(dict.fromkeys(row.stream for summary in summaries for row in summary.rows))
    cells: dict[str, dict[str, str]] = {}
    gains: dict[str, list[float]] = {}
    for summary, row in [(one, row) for one in summaries for row in one.rows]:
        values = str(spread(list(row.metrics.get("class_il", {}).values())))
        gain = summary.difference(row)
        cells.setdefault(row.row, {})[row.stream] = values if gain is None else f"{values}\n{gain.mean:+.2f}"
        if gain is not None:
            gains.setdefault(row.row, []).append(gain.mean)
    splits = " and ".join(dict.fromkeys(summary.evaluated_on for summary in summaries))
    return Table(
        f"Final class-IL accuracy on {splits}, percent",
        [Column("", "left"), *(Column(stream, "left") for stream in streams), Column("mean gain")],
        [
            [
                name,
                *(found.get(stream, "") for stream in streams),
                f"{sum(gains[name]) / len(gains[name]):+.2f}"
                if len(gains.get(name, ())) == len(streams)
                else "",
            ]
            for name, found in cells.items()
        ],
        [
            "Mean ± std (n = number of seeds), and the mean of the paired differences to the first row.",
            *dict.fromkeys(_protocol_sentence(summary) for summary in summaries),
        ],
        commands=[summary.command for summary in summaries],
    )


def _tuning(summary: FairSummary, stream: str) -> Table:
    """Return what was chosen for each row."""
    rows: list[list[Any]] = []
    searched: dict[str, list[str]] = {}
    for found in (row for row in summary.rows if row.stream == stream):
        complete = [trial for trial in found.trials if trial.score is not None]
        best = found.trials[found.chosen] if found.chosen is not None else None
        preset = found.trials[0].score
        rows.append(
            [
                found.shown_buffer,
                found.row,
                f"{len(complete)} of {len(found.trials)}",
                None if preset is None else f"{preset:.2f}",
                f"{best.score:.2f}" if best is not None and best.score is not None else "failed",
                "" if best is None else _values(best.values) + (" (the preset)" if found.chosen == 0 else ""),
            ]
        )
        axes = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in found.searched.items())
        searched.setdefault(axes, []).append(found.row)
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


def _temperature(summary: FairSummary, stream: str) -> Table | None:
    """Return class-IL for each temperature, with and without plug-ins, all else at the preset."""
    temperatures = summary.protocol.temperatures
    cells: dict[tuple[int | None, str], dict[float, TemperatureResult]] = {}
    for found in (one for one in summary.temperatures if one.stream == stream):
        cells.setdefault((found.buffer, found.row), {})[found.temperature] = found
    if not cells:
        return None
    rows: list[list[Any]] = []
    for (buffer, row), by_temperature in cells.items():
        values = [by_temperature[t].metrics.get("class_il", {}) for t in temperatures]
        texts = []
        for temperature, ours in zip(temperatures, values, strict=True):
            gain = summary.difference(by_temperature[temperature])
            base = by_temperature[temperature].base
            text = str(spread(list(ours.values()))) if ours else "failed"
            texts.append(text if gain is None else f"{text}\nto {base} {gain}")
        change = paired_difference(values[0], values[-1])
        rows.append([buffer, row, *texts, str(change) if change.count else ""])
    columns = [
        Column("buffer"),
        Column("", "left"),
        *(Column(f"temperature {temperature:g}", "left") for temperature in temperatures),
        Column(f"{temperatures[0]:g} to {temperatures[-1]:g}", "left"),
    ]
    notes = [
        "All other settings are those of the preset. Student's intervals of 95 percent of paired differences."
    ]
    return Table(
        f"Temperature x plug-in on {stream}: class-IL on {summary.evaluated_on}, percent",
        columns,
        rows,
        notes,
    )


def _trials(summary: FairSummary) -> Table:
    """Return a line for every trial and tuning seed."""
    lines = [
        [
            found.stream,
            found.buffer,
            found.row,
            number,
            "yes" if number == found.chosen else "no",
            seed,
            trial.validation.get(seed),
            _values(trial.values),
            run,
        ]
        for found in summary.rows
        for number, trial in enumerate(found.trials)
        for seed, run in trial.runs.items()
    ]
    columns = [
        "stream",
        "buffer",
        "row",
        "trial",
        "chosen",
        "seed",
        "class_il_validation",
        "values",
        "run_id",
    ]
    return Table("", columns, lines)


def _protocol_sentence(summary: FairSummary) -> str:
    """Return how the numbers were made."""
    protocol = summary.protocol
    if not protocol.tunes:
        return (
            "Nothing was tuned: every row has the preset, changed only by what its name and the command say. Seeds "
            f"{_list(protocol.seeds)}, evaluated on {summary.evaluated_on}."
        )
    budget = f"; trials with {', '.join(protocol.tune_set)}" if protocol.tune_set else ""
    return (
        f"Each row was tuned with {protocol.trials} trials (the preset and {protocol.trials - 1} more) on a validation "
        f"split of {protocol.validation:.0%} of the training samples (seed {_list(protocol.tune_seeds)}{budget}); the "
        "best mean class-IL was then trained on all training samples with the fresh seeds "
        f"{_list(protocol.seeds)} and evaluated on test."
    )


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
