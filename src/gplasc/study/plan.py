"""The plan of a comparison: what a user asks for, and the command that computes it again."""

from __future__ import annotations

import hashlib
import shlex
from typing import Any

from gplasc.errors import UserError
from gplasc.settings.types import Scale, Settings
from gplasc.study.grid import check_seeds


class ComparePlan(Settings):
    """What a comparison compares, and how; the options of `gplasc compare` and `gplasc reproduce --fair` explain it.

    Without the name of an experiment, methods alone are compared. What is empty is as the experiment has it.
    """

    experiment: str = ""
    scale: Scale = "cpu"
    streams: tuple[str, ...] = ()
    buffers: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    trials: int = 12
    tune_seeds: tuple[int, ...] = (1000,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    validation: float = 0.2
    search_seed: int = 0
    space: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    tune_set: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = (0.5, 0.1)

    def check(self) -> None:
        """Check that the numbers are allowed.

        Raises:
            UserError: If one is not.
        """
        check_seeds(self.seeds)
        check_seeds(self.tune_seeds)
        if not self.seeds or not self.tune_seeds:
            raise UserError("--seeds and --tune-seeds need at least one seed each")
        both = sorted({*self.seeds} & {*self.tune_seeds})
        if both:
            raise UserError(
                f"the seed {both[0]} is given for tuning and for the test; --seeds and --tune-seeds must differ"
            )
        if self.trials < 1:
            option = "--trials" if self.experiment else "--tune"
            raise UserError(f"{option} is {self.trials}; every row needs at least 1, the preset")
        if not 0 < self.validation < 1:
            raise UserError(
                f"--validation is {self.validation:g}; it is a share between 0 and 1, such as 0.2"
            )
        if any(temperature <= 0 for temperature in self.temperatures):
            raise UserError(f"--temperatures are {self.temperatures}; they must be greater than 0")
        for noun, names in (("plug-in", self.plugins), ("method", self.methods)):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise UserError(f"the {noun} '{twice[0]}' is named twice; name it once")

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned; with one trial there is nothing to choose from."""
        return self.trials > 1

    @property
    def name(self) -> str:
        """What the comparison is called in its tables."""
        return f"{self.experiment}, fair" if self.experiment else ", ".join(self.methods)

    @property
    def folder(self) -> str:
        """Name of the folder of its tables."""
        digest = hashlib.sha256(self.command.encode()).hexdigest()[:8]
        return f"{self.experiment}-fair" if self.experiment else f"compare-{digest}"

    @property
    def command(self) -> str:
        """The command that computes the comparison again; where the runs and the data are is left out."""
        fields = ComparePlan.model_fields.items()
        changed = {
            name: getattr(self, name) for name, field in fields if getattr(self, name) != field.default
        }
        own = ["experiment", "scale"]
        if self.experiment:
            words = ["gplasc", "reproduce", self.experiment, "--fair", "--scale", self.scale]
        else:
            words = ["gplasc", "compare", "--scale", self.scale]
            named: dict[str, Any] = {"stream": self.streams, "methods": self.methods, "seeds": self.seeds}
            changed = named | ({"tune": self.trials} if self.tunes else {}) | changed
            own += ["streams", "trials", "temperatures"]
        for name, value in changed.items():
            option = f"--{name.replace('_', '-')}"
            if name in ("set", "tune_set"):  # may be repeated, as elsewhere
                words += [word for one in value for word in (option, one)]
            elif name not in own:
                words += [option, *(map(str, value) if isinstance(value, tuple) else [str(value)])]
        return shlex.join(words)
