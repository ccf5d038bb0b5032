"""From runs to the cells of a table: mean, std, seeds, paired difference to the base, and the published number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gplasc.evaluation.metrics import SCENARIOS
from gplasc.paper.definition import Experiment, PlannedRun, Row, StandIn
from gplasc.published import Published, lookup
from gplasc.results.group import Measure
from gplasc.results.statistics import Difference, Spread, paired_difference, spread
from gplasc.settings.types import Scale

Values = Mapping[str, Mapping[Measure, float]]
"""What was measured of each run, by run id."""


@dataclass(frozen=True)
class Entry:
    """One cell of the table."""

    row: str
    group: str | None
    value: Any
    """The value of the setting that varies, if one does."""
    stream: str
    buffer: int | None
    measure: Measure
    scale: Scale
    stand_in: StandIn | None
    spread: Spread
    values: Mapping[int, float]
    """By seed."""
    base: str | None
    difference: Difference | None
    overhead: float | None
    """Percent more than the base, for times."""
    published: Published | None
    published_overhead: float | None
    comparable: bool
    runs: tuple[str, ...]
    missing: int
    """Seeds whose run failed."""

    @property
    def gap(self) -> float | None:
        """Our mean minus the published one, where both measure the same thing: never for synthetic images."""
        if self.published is None or not self.comparable or self.scale == "smoke" or not self.spread.count:
            return None
        return self.spread.mean - self.published.mean

    @property
    def is_reproduction(self) -> bool:
        """Whether the number was measured as the published one was."""
        return self.scale == "paper" and self.comparable


def summarize_runs(experiment: Experiment, runs: Sequence[PlannedRun], values: Values) -> list[Entry]:
    """Gather the seeds of each cell of the tables.

    Args:
        experiment: The experiment.
        runs: Its runs.
        values: What was measured of them; a run without values has failed.

    Returns:
        The cells: for each row, stream and buffer one a measure.
    """
    groups: dict[tuple[str, str, int | None], list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault((run.row.name, run.stream, run.buffer), []).append(run)
    measures = list(dict.fromkeys(m for found in values.values() for m in found))
    entries = []
    for (_, stream, buffer), same in groups.items():
        row, config = same[0].row, same[0].resolved.config
        base = groups.get((row.base, stream, buffer)) if row.base else None
        for measure in measures or default_measures(experiment):
            entry = make_entry(
                experiment,
                row,
                measure,
                stream=stream,
                buffer=buffer,
                scale=config.scale,
                stand_in=same[0].stand_in,
                ours=_by_seed(same, values, measure),
                theirs=_by_seed(base, values, measure) if base else None,
                runs=tuple(run.run_id for run in same if run.run_id in values),
                missing=sum(run.run_id not in values for run in same),
            )
            entries.append(entry)
    return entries


def make_entry(
    experiment: Experiment,
    row: Row,
    measure: Measure,
    *,
    stream: str,
    buffer: int | None,
    scale: Scale,
    stand_in: StandIn | None,
    ours: Mapping[int, float],
    theirs: Mapping[int, float] | None,
    runs: tuple[str, ...],
    missing: int,
) -> Entry:
    """Return one cell.

    Args:
        experiment: The experiment, which says beside which published table its rows stand.
        row: The row.
        measure: What was measured.
        stream: Name of the stream.
        buffer: Buffer of the table's section.
        scale: Scale of the runs.
        stand_in: What took the stream's place.
        ours: The row's values by seed.
        theirs: Those of its base; None if the table lacks it.
        runs: Ids of the runs.
        missing: Seeds whose run failed.
    """
    published = _published(experiment, row.name, stream, buffer, measure)
    base_published = row.base and _published(experiment, row.base, stream, buffer, measure)
    in_time = measure.metric == "seconds"
    return Entry(
        row=row.name,
        group=row.group,
        value=row.value,
        stream=stream,
        buffer=buffer,
        measure=measure,
        scale=scale,
        stand_in=stand_in,
        spread=spread(list(ours.values())),
        values=ours,
        base=None if theirs is None else row.base,
        difference=paired_difference(theirs, ours) if theirs and ours else None,
        overhead=_overhead(ours, theirs or {}) if in_time else None,
        published=published,
        published_overhead=(
            100 * (published.mean / base_published.mean - 1)
            if in_time and published and base_published
            else None
        ),
        comparable=experiment.comparable,
        runs=runs,
        missing=missing,
    )


def default_measures(experiment: Experiment) -> list[Measure]:
    """Return what a table of metrics measures: the metric in each scenario, then further ones."""
    names = {experiment.metric: "", **{name: " " + name.replace("_", " ") for name in experiment.also}}
    return [
        Measure(metric, SCENARIOS[scenario] + name, scenario=scenario)
        for metric, name in names.items()
        for scenario in experiment.scenarios
    ]


def scale_statement(scale: Scale, runs: Sequence[PlannedRun]) -> str:
    """Return at which scale numbers are measured, and what they are therefore not."""
    configs = [run.resolved.config for run in runs]
    if scale == "paper":
        return "Scale paper: the published protocol."
    if scale == "smoke":
        replaced = {run.stream: run.stand_in for run in runs if run.stand_in}
        streams = "; ".join(
            f"{name} is replaced by {other.stream}" + (f" ({other.reduced})" if other.reduced else "")
            for name, other in replaced.items()
        )
        made = f" on SYNTHETIC images: {streams}" if streams else ""
        encoders = " and ".join(dict.fromkeys(config.model.encoder for config in configs))
        return (
            f"Scale smoke: a few steps of {encoders}{made}. "
            "The numbers only show that the code runs; they mean nothing."
        )
    widths = _range(config.model.width for config in configs)
    epochs = _range(config.train.epochs for config in configs)
    images = _range(config.data.images_per_class or 0 for config in configs)
    share = "all training images" if images == "0" else f"at most {images} training images a class"
    return (
        f"Scale cpu: a budget for two cores (encoder width {widths}, {share}, {epochs} epochs a task). NOT a "
        "reproduction: published numbers stand beside ours for orientation, and gaps are between two scales."
    )


def _published(
    experiment: Experiment, row: str, stream: str, buffer: int | None, measure: Measure
) -> Published | None:
    table = experiment.published_table(measure.scenario)
    if table is None:
        return None
    return lookup(
        table,
        row,
        stream=stream,
        buffer=buffer,
        scenario=measure.scenario,
        metric=measure.metric,
        point=measure.point,
    )


def _by_seed(runs: Sequence[PlannedRun], values: Values, measure: Measure) -> dict[int, float]:
    return {run.seed: values[run.run_id][measure] for run in runs if measure in values.get(run.run_id, ())}


def _overhead(ours: Mapping[int, float], theirs: Mapping[int, float]) -> float | None:
    both = sorted(set(ours) & set(theirs))
    base = sum(theirs[seed] for seed in both)
    return 100 * (sum(ours[seed] for seed in both) / base - 1) if base else None


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
