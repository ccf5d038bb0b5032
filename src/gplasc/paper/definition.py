"""The experiments that are grids of runs, read from their TOML files."""

from __future__ import annotations

from pydantic import ValidationError

from gplasc.paper import read_grid
from gplasc.study.experiment import Experiment


def load_experiment(name: str) -> Experiment:
    """Read an experiment; rows that vary a setting become one row a value.

    >>> len(load_experiment("ablation-components").rows)
    4
    """
    try:
        experiment = Experiment(name=name, **read_grid(name))
    except ValidationError as error:
        raise ValueError(f"the grid {name}.toml is not sound: {error}") from None
    rows = [one for row in experiment.rows for one in row.multiplied()]
    known = {row.name for row in rows}
    for row in rows:
        if row.base is not None and row.base not in known:
            raise ValueError(f"the grid {name}.toml compares '{row.name}' with '{row.base}', which it lacks")
    return experiment.model_copy(update={"rows": tuple(rows)})
