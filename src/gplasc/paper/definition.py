"""An experiment as data: rows, streams, buffers and settings, read from a TOML file, and the runs it plans."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, ValidationError

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.paper import read_grid
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.settings.types import Scale, Settings
from gplasc.streams import list_streams
from gplasc.study.grid import check_seeds

SEEDS: dict[str, tuple[int, ...]] = {"paper": (0, 1, 2, 3, 4), "cpu": (0, 1, 2), "smoke": (0,)}
"""Seeds of a scale unless the user names others; the paper averages five trials."""


class _Vary(Settings):
    """One setting that takes many values, each a row of its own."""

    setting: str
    values: tuple[Any, ...]


class Row(Settings):
    """A row of the table: a method with its plug-ins and what is set."""

    name: str
    method: str
    plugins: tuple[str, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    base: str | None = Field(None, description="row that this one is compared with, seed by seed")
    streams: tuple[str, ...] | None = Field(None, description="where the row exists; default: all")
    buffers: tuple[int, ...] | None = None
    memory: int | None = Field(None, description="samples remembered, where that is not the buffer")
    vary: _Vary | None = None
    value: Any = Field(None, description="the value of what varies; set when the row is multiplied out")
    group: str | None = None


class Experiment(Settings):
    """What is compared, on what, and beside which published numbers."""

    name: str
    title: str
    figure: str = Field("", description="where it stands in the paper")
    view: Literal["table", "curves", "bars", "overlap", "tsne", "time"] = "table"
    metric: str = "final_accuracy"
    also: tuple[str, ...] = ()
    """Further metrics, each with columns of its own."""
    scenarios: tuple[str, ...] = ("class_il", "task_il")
    lower_is_better: bool = False
    published: str | dict[str, str] | None = Field(None, description="a published table, or one a scenario")
    comparable: bool = Field(True, description="whether a gap to the published numbers means anything")
    streams: tuple[str, ...]
    buffers: tuple[int, ...] | None = Field(None, description="default: that of the preset")
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    smoke: dict[str, Any] = Field(default_factory=dict, description="settings at smoke scale")
    pairs: tuple[str, ...] = Field((), description="overlap: pairs of tasks with a column of their own")
    classes: tuple[int, ...] = Field((), description="tsne: place of the shown class in each task")
    single: bool = Field(False, description="one run at a time, because time is measured")

    def published_table(self, scenario: str | None) -> str | None:
        """Return the name of the published table for a scenario."""
        if isinstance(self.published, dict):
            return self.published.get(scenario or "")
        return self.published


class StandIn(Settings):
    """The synthetic stream that takes a real one's place at smoke scale."""

    stream: str
    settings: dict[str, Any] = Field(default_factory=dict)
    reduced: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """One run of an experiment."""

    row: Row
    stream: str
    buffer: int | None
    """The buffer of the table's section; None: that of the preset."""
    seed: int
    resolved: RunSpec
    stand_in: StandIn | None

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.resolved.config.run_id

    @property
    def column(self) -> str:
        """Stream and buffer in words."""
        return self.stream if self.buffer is None else f"{self.stream} {self.buffer}"


def load_experiment(name: str) -> Experiment:
    """Read an experiment; rows that vary a setting become one row a value.

    >>> len(load_experiment("ablation-components").rows)
    4
    """
    try:
        experiment = Experiment(name=name, **read_grid(name))
    except ValidationError as error:
        raise ValueError(f"the grid {name}.toml is not sound: {error}") from None
    rows = [one for row in experiment.rows for one in _multiply(row)]
    known = {row.name for row in rows}
    for row in rows:
        if row.base is not None and row.base not in known:
            raise ValueError(f"the grid {name}.toml compares '{row.name}' with '{row.base}', which it lacks")
    return experiment.model_copy(update={"rows": tuple(rows)})


def plan_runs(
    experiment: Experiment,
    scale: Scale,
    seeds: Sequence[int] = (),
    *,
    only: Iterable[str] = (),
    methods: Iterable[str] = (),
) -> list[PlannedRun]:
    """Return every run of the experiment at a scale, narrowed to what the user asked for.

    Args:
        experiment: The experiment.
        scale: The scale of all runs.
        seeds: Seeds of every run; default: those of the scale.
        only: Streams, buffers or rows to keep (``*`` allowed); names of one kind are alternatives, kinds narrow
            each other.
        methods: Methods to keep, each with and without plug-ins.

    Returns:
        The runs, row by row.

    Raises:
        UserError: If a name is unknown, nothing is left, or a seed is negative or given twice.
    """
    check_seeds(seeds)
    keep = row_filter(experiment, tuple(only), tuple(methods))
    runs = [
        plan_one(experiment, row, stream, buffer, seed, scale)
        for row in experiment.rows
        for stream in row.streams or experiment.streams
        for buffer in row.buffers or experiment.buffers or (None,)
        if keep(row, stream, buffer)
        for seed in seeds or SEEDS[scale]
    ]
    if not runs:
        raise UserError(
            f"nothing of {experiment.name} is left by --only and --methods; leave one of them out"
        )
    return runs


def stand_in(stream: str) -> StandIn | None:
    """Return what takes a stream's place at smoke scale; None for a stream that needs no data."""
    return _stand_ins().get(stream)


def plan_one(
    experiment: Experiment, row: Row, stream: str, buffer: int | None, seed: int, scale: Scale
) -> PlannedRun:
    """Return one run of the experiment.

    Raises:
        UserError: If a name or a value of the row is not allowed.
    """
    other = stand_in(stream) if scale == "smoke" else None
    settings = dict(row.settings)
    if scale == "smoke":
        # Synthetic images have a size of their own.
        replaced = {"data.image_size": None, **other.settings} if other else {}
        settings = {**replaced, **experiment.smoke, **settings}
    resolved = RunRequest(
        stream,
        row.method,
        row.plugins,
        buffer=buffer if row.memory is None else row.memory,
        seed=seed,
        scale=scale,
        settings=settings,
    ).resolve()
    if other is not None:
        # The presets of the real stream hold; only its images are replaced.
        config = resolved.config.model_copy(update={"stream": other.stream})
        resolved = RunSpec(config=config, sources=resolved.sources)
    return PlannedRun(row, stream, buffer, seed, resolved, other)


def _multiply(row: Row) -> list[Row]:
    if row.vary is None:
        return [row]
    return [
        row.model_copy(
            update={
                "name": f"{row.name} = {value}",
                "settings": {**row.settings, row.vary.setting: value},
                "value": value,
                "group": row.name,
            }
        )
        for value in row.vary.values
    ]


def row_filter(
    experiment: Experiment, only: tuple[str, ...], methods: tuple[str, ...]
) -> Callable[[Row, str, int | None], bool]:
    """Return what tells whether a row with a stream and a buffer is kept; see `plan_runs` for the arguments.

    Raises:
        UserError: If a name is unknown.
    """
    known_methods = {row.method for row in experiment.rows}
    for method in methods:
        if method not in known_methods:
            raise UserError(
                f"{experiment.name} has no method '{method}'; {did_you_mean(method, known_methods)}"
            )
    names = {
        "streams": set(experiment.streams) | {s for row in experiment.rows for s in row.streams or ()},
        "buffers": {str(b) for row in experiment.rows for b in row.buffers or experiment.buffers or ()},
        "rows": {row.name for row in experiment.rows} | {row.group for row in experiment.rows if row.group},
    }
    wanted: dict[str, list[str]] = {}
    for word in only:
        kinds = [kind for kind, allowed in names.items() if fnmatch.filter(allowed, word)]
        if not kinds:
            every = set().union(*names.values())
            raise UserError(f"{experiment.name} has nothing called '{word}'; {did_you_mean(word, every)}")
        for kind in kinds:
            wanted.setdefault(kind, []).append(word)

    def keep(row: Row, stream: str, buffer: int | None) -> bool:
        facts = {"streams": [stream], "buffers": [str(buffer)], "rows": [row.name, row.group or row.name]}
        return (not methods or row.method in methods) and all(
            any(fnmatch.fnmatchcase(fact, word) for fact in facts[kind] for word in words)
            for kind, words in wanted.items()
        )

    return keep


@lru_cache
def _stand_ins() -> dict[str, StandIn]:
    return {info.name: StandIn(**asdict(info.stand_in)) for info in list_streams() if info.stand_in}
