"""The paper's tables and figures as named experiments. Importing this package costs nothing."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError

if TYPE_CHECKING:
    from gplasc.study.experiment import Experiment

EXPERIMENTS: dict[str, str] = {
    "toy": "features on the sphere with and without thresholds and task regions (the paper's figure 3)",
    "theory": "the theorem checked by minimization: loss, cosines, radius, center and the boundary cases",
}
"""Experiments that are code; the others are grids of runs, each a TOML file."""

_GRIDS = Path(__file__).parent / "grids"


def list_experiments() -> dict[str, str]:
    """Return every experiment with its description: those that are code, then the grids."""
    names = sorted(path.stem for path in _GRIDS.glob("*.toml"))
    return EXPERIMENTS | {name: _read_grid(name)["title"] for name in names}


def is_grid(name: str) -> bool:
    """Tell whether an experiment is a grid of runs; an unknown name is the user's mistake."""
    if name in EXPERIMENTS:
        return False
    known = list_experiments()
    if name in known:
        return True
    raise UserError(f"there is no experiment {name!r}; {did_you_mean(name, known)}")


def load_experiment(name: str) -> Experiment:
    """Read a grid; rows that vary a setting become one row a value."""
    from gplasc.study.experiment import Experiment

    experiment = Experiment(name=name, **_read_grid(name))
    rows = tuple(one for row in experiment.rows for one in row.multiplied())
    return experiment.model_copy(update={"rows": rows})


def _read_grid(name: str) -> dict[str, Any]:
    return tomllib.loads((_GRIDS / f"{name}.toml").read_text(encoding="utf-8"))


def run_experiment(name: str, out: Path, *, seed: int = 0) -> object:
    """Run the experiment that is code: ``run_NAME`` of its module. It writes its files into the folder `out`."""
    if is_grid(name):
        raise UserError(f"{name} is a grid of runs; use gplasc.paper.reproduce")
    return getattr(import_module(f"gplasc.paper.{name}"), f"run_{name}")(out, seed=seed)
