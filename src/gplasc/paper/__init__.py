"""The paper's tables and figures as named experiments. Importing this package costs nothing."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError

EXPERIMENTS: dict[str, str] = {
    "toy": "features on the sphere with and without thresholds and task regions (the paper's figure 3)",
    "theory": "the theorem checked by minimization: loss, cosines, radius, center and the boundary cases",
}
"""Experiments that are code; the others are grids, see `gplasc.paper.definition`."""

_GRIDS = Path(__file__).parent / "grids"


def list_experiments() -> dict[str, str]:
    """Return every experiment with its description: those that are code, then the grids."""
    return EXPERIMENTS | {name: read_grid(name)["title"] for name in grid_names()}


def grid_names() -> list[str]:
    """Return the names of all experiments that are grids of runs."""
    return sorted(path.stem for path in _GRIDS.glob("*.toml"))


def read_grid(name: str) -> dict[str, Any]:
    """Return the definition of a grid as it stands in its file."""
    return tomllib.loads((_GRIDS / f"{name}.toml").read_text(encoding="utf-8"))


def is_grid(name: str) -> bool:
    """Tell whether an experiment is a grid of runs; an unknown name is the user's mistake."""
    if name in EXPERIMENTS:
        return False
    known = list_experiments()
    if name in known:
        return True
    raise UserError(f"there is no experiment {name!r}; {did_you_mean(name, known)}")


def run_experiment(name: str, out: Path, *, seed: int = 0) -> object:
    """Run the experiment `name` that is code, write its files into the folder `out` and return its result.

    Such an experiment is a module of this package named like it, with a function run_<name>(out, *, seed).
    """
    if is_grid(name):
        raise UserError(f"{name} is a grid of runs; use gplasc.paper.reproduce")
    name = name.replace("-", "_")
    return getattr(import_module(f"gplasc.paper.{name}"), f"run_{name}")(out, seed=seed)
