"""An experiment as data: the rows of a table, on streams and with buffers, and the cells that they make."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.evaluation.metrics import SCENARIOS
from gplasc.results.group import Group, Measure
from gplasc.runs.spec import RunRequest
from gplasc.settings.types import Scale, Settings
from gplasc.streams import list_streams
from gplasc.streams.info import StandIn
from gplasc.study.cell import Cell, check_seeds

SEEDS: dict[str, tuple[int, ...]] = {"paper": (0, 1, 2, 3, 4), "cpu": (0, 1, 2), "smoke": (0,)}
"""Seeds of a scale unless the user names others; the paper averages five trials."""


class Caption(Settings):
    """The texts above and below a table, and what decides its form."""

    name: str
    title: str
    statement: str = Field("", description="the scale of the numbers, see `scale_statement`")
    published: str | dict[str, str] | None = Field(None, description="a published table, or one a scenario")
    comparable: bool = Field(True, description="whether a gap to the published numbers means anything")
    changed: tuple[str, ...] = Field((), description="what differs from the protocol of the experiment")
    lower_is_better: bool = False
    preset_buffers: bool = Field(False, description="whether the buffer of the preset is shown")
    notes: tuple[str, ...] = ()

    def published_table(self, scenario: str | None) -> str | None:
        """Return the name of the published table for a scenario."""
        if isinstance(self.published, dict):
            return self.published.get(scenario or "")
        return self.published

    def buffer(self, group: Group) -> int | None:
        """Return the buffer that a group is shown with."""
        preset = group.settings["buffer"] if self.preset_buffers else None
        buffer: int | None = group.labels.get("buffer", preset)
        return buffer


class _Vary(Settings):
    """One setting that takes many values, each a row of its own."""

    setting: str
    values: tuple[Any, ...]


class Row(Settings):
    """A row of the table: a method with its plug-ins and what is set."""

    name: str
    method: str
    plugins: tuple[str, ...] = ()
    like: str | None = Field(
        None, description="built-in method whose presets a method of a user's file takes"
    )
    settings: dict[str, Any] = Field(default_factory=dict)
    base: str | None = Field(None, description="row that this one is compared with, seed by seed")
    also: tuple[str, ...] = Field((), description="further rows that this one is compared with")
    streams: tuple[str, ...] | None = Field(None, description="where the row exists; default: all")
    buffers: tuple[int, ...] | None = None
    memory: int | None = Field(None, description="samples remembered, where that is not the buffer")
    vary: _Vary | None = None
    value: Any = Field(None, description="the value of what varies; set when the row is multiplied out")
    group: str | None = None

    def with_settings(self, settings: Mapping[str, Any]) -> Row:
        """Return the row with further settings."""
        return self.model_copy(update={"settings": {**self.settings, **settings}})

    def multiplied(self) -> list[Row]:
        """Return a row for each value of the setting that varies, or the row itself."""
        if self.vary is None:
            return [self]
        return [
            self.with_settings({self.vary.setting: value}).model_copy(
                update={"name": f"{self.name} = {value}", "value": value, "group": self.name}
            )
            for value in self.vary.values
        ]


class Experiment(Caption):
    """What is compared, on what, and next to which published numbers."""

    view: Literal["table", "curves", "bars", "overlap", "tsne", "time"] = "table"
    metric: str = "final_accuracy"
    also: tuple[str, ...] = ()
    """Further metrics, each with columns of its own."""
    scenarios: tuple[str, ...] = ("class_il", "task_il")
    streams: tuple[str, ...]
    buffers: tuple[int, ...] | None = Field(None, description="default: that of the preset")
    rows: tuple[Row, ...]
    smoke: dict[str, Any] = Field(default_factory=dict, description="settings at smoke scale")
    pairs: tuple[str, ...] = Field((), description="overlap: pairs of tasks with a column of their own")
    classes: tuple[int, ...] = Field((), description="tsne: place of the shown class in each task")
    single: bool = Field(False, description="one run at a time, because time is measured")

    @property
    def measures(self) -> list[Measure]:
        """What a table of metrics shows: the metric in each scenario, then further ones."""
        names = {self.metric: "", **{name: f" {name.replace('_', ' ')}" for name in self.also}}
        return [Measure(n, SCENARIOS[s] + label, s) for n, label in names.items() for s in self.scenarios]

    def heading(self, cells: Sequence[Cell]) -> str:
        """Return the name and title, and at which scale the cells are computed."""
        return f"{self.name}: {self.title}\n{scale_statement(cells)}"

    def buffers_of(self, row: Row, stream: str) -> tuple[int | None, ...]:
        """Return the buffers of a row; those of the preset on a stream that the experiment lacks."""
        return (row.buffers or self.buffers or (None,)) if stream in self.streams else (None,)

    def cell(self, row: Row, stream: str, buffer: int | None, seed: int, scale: Scale) -> Cell:
        """Return one run of the experiment."""
        other = _stand_ins().get(stream) if scale == "smoke" else None
        settings = dict(row.settings)
        if scale == "smoke":
            # Synthetic images have a size of their own.
            replaced = {"data.image_size": None, **other.settings} if other else {}
            settings = {**replaced, **self.smoke, **settings}
        size = buffer if row.memory is None else row.memory
        request = RunRequest(stream, row.method, row.plugins, size, seed, scale, settings, like=row.like)
        spec = request.resolve()
        if other is not None:
            # The presets of the real stream hold; only its images are replaced.
            config = spec.config.model_copy(update={"stream": other.stream})
            spec = spec.model_copy(update={"config": config})
        labels = {"row": row.name, "stream": stream} | ({} if buffer is None else {"buffer": buffer})
        return Cell(labels, spec, () if row.base is None else (row.base,))

    def cells(
        self,
        scale: Scale,
        seeds: Sequence[int] = (),
        *,
        only: Sequence[str] = (),
        methods: Sequence[str] = (),
    ) -> list[Cell]:
        """Return every run of the experiment at a scale, narrowed to what the user asked for, row by row.

        ``only`` names streams, buffers or rows to keep (``*`` allowed): names of one kind are alternatives, kinds
        narrow each other. ``methods`` are kept with and without plug-ins.
        """
        check_seeds(seeds)
        for method in methods:
            if method not in (known := {row.method for row in self.rows}):
                raise UserError(f"{self.name} has no method '{method}'; {did_you_mean(method, known)}")
        keep = self.row_filter(only)
        cells = [
            self.cell(row, stream, buffer, seed, scale)
            for row, stream, buffer in self._places()
            if keep(row, stream, buffer) and (not methods or row.method in methods)
            for seed in seeds or SEEDS[scale]
        ]
        if not cells:
            raise UserError(f"nothing of {self.name} is left by --only and --methods; leave one of them out")
        return cells

    def row_filter(self, only: Sequence[str]) -> Callable[[Row, str, int | None], bool]:
        """Return what tells whether a row with a stream and a buffer is kept; see `cells`."""

        def facts(row: Row, stream: str, buffer: int | None) -> tuple[set[str], ...]:
            return {stream}, set() if buffer is None else {str(buffer)}, {row.name, row.group or row.name}

        kinds = zip(*(facts(*place) for place in self._places()), strict=True)
        names = [set().union(*kind) for kind in kinds]
        wanted = [[word for word in only if fnmatch.filter(known, word)] for known in names]
        for word in only:
            if not any(word in words for words in wanted):
                every = set().union(*names)
                raise UserError(f"{self.name} has nothing called '{word}'; {did_you_mean(word, every)}")

        def keep(row: Row, stream: str, buffer: int | None) -> bool:
            pairs = zip(facts(row, stream, buffer), wanted, strict=True)
            return all(not words or any(fnmatch.filter(own, word) for word in words) for own, words in pairs)

        return keep

    def _places(self) -> Iterator[tuple[Row, str, int | None]]:
        for row in self.rows:
            for stream in row.streams or self.streams:
                for buffer in row.buffers or self.buffers or (None,):
                    yield row, stream, buffer


@lru_cache
def _stand_ins() -> dict[str, StandIn]:
    """Return what takes the place of streams at smoke scale."""
    return {info.name: info.stand_in for info in list_streams() if info.stand_in}


def scale_statement(cells: Sequence[Cell], changed: Sequence[str] = ()) -> str:
    """Return at which scale the cells are computed, and what their numbers are therefore not."""
    configs = [cell.spec.config for cell in cells]
    if configs[0].scale == "paper" and changed:
        return f"Scale paper, changed: {', '.join(changed)}. NOT the published protocol, so there is no gap to it."
    if configs[0].scale == "paper":
        return "Scale paper: the published protocol."
    if configs[0].scale == "smoke":
        names = dict.fromkeys(str(cell.labels["stream"]) for cell in cells)
        replaced = {name: other for name in names if (other := _stand_ins().get(name))}
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
        "reproduction: published numbers are next to ours for orientation, and gaps are between two scales."
    )


def _range(numbers: Iterable[int]) -> str:
    ordered = sorted(set(numbers))
    return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
