"""The paper's tables and figures as named experiments. Importing this package costs nothing."""

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from gplasc.errors import UserError

EXPERIMENTS: dict[str, str] = {
    "toy": "features on the sphere with and without thresholds and task regions (the paper's figure 3)",
    "theory": "the theorem checked by minimisation: loss, cosines, radius, centre and the boundary cases",
}


def run_experiment(name: str, out: Path, *, seed: int = 0) -> object:
    """Run the experiment `name`, write its files into the folder `out` and return its result.

    An experiment is a module of this package named like it, with a function run_<name>(out, *, seed).
    """
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(EXPERIMENTS)}."
        raise UserError(f"there is no experiment {name!r}; {hint}")
    name = name.replace("-", "_")
    return getattr(import_module(f"gplasc.experiments.{name}"), f"run_{name}")(out, seed=seed)
