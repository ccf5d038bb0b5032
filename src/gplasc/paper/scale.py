"""What the tables of the paper take on a device, and how their runs spread over several of them."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc._io.table import Column, Table
from gplasc.paper import is_grid, list_experiments
from gplasc.paper.definition import load_experiment, plan_runs
from gplasc.planning import Plan, plan_run, spread_over
from gplasc.settings.types import Scale

_DEVICES = (8, 64)


def scale_table(device: str, scale: Scale = "paper", seeds: Sequence[int] = ()) -> Table:
    """Return a row for each experiment with runs, and one for all of them, where equal runs count once.

    Args:
        device: Name of a device, see `gplasc.planning`.
        scale: Scale of all runs.
        seeds: Seeds; default: those of the scale.

    Raises:
        UserError: If there is no measured time on the device.
    """
    everything: dict[str, float] = {}
    passes: dict[str, float] = {}
    rows = []
    known: dict[tuple[object, ...], Plan] = {}
    for name in (n for n in list_experiments() if is_grid(n)):
        found: dict[str, float] = {}
        for run in plan_runs(load_experiment(name), scale, seeds):
            config = run.resolved.config.model_copy(update={"stream": run.stream})
            key = (
                config.stream,
                config.title,
                config.buffer,
                config.data,
                config.train,
                config.probe,
                config.model,
            )
            if key not in known:
                known[key] = plan_run(run.resolved.model_copy(update={"config": config}))
            found[run.run_id] = known[key].seconds(device)
            passes[run.run_id] = known[key].passes
        everything |= found
        rows.append(_row(name, found, passes))
    rows.append(_row("all, equal runs once", everything, passes))
    hours = [f"hours on {count}" for count in (1, *_DEVICES)]
    columns: list[Column | str] = [
        Column("experiment", "left"),
        "runs",
        "image passes, 10^9",
        *hours,
        "hours of the longest run",
    ]
    return Table("", columns, rows)


def _row(name: str, seconds: dict[str, float], passes: dict[str, float]) -> list[str | int]:
    times = list(seconds.values())
    hours = [sum(times), *(spread_over(times, count) for count in _DEVICES), max(times)]
    counted = sum(passes[run] for run in seconds) / 1e9
    return [name, len(times), f"{counted:,.2f}", *(f"{one / 3600:,.1f}" for one in hours)]
