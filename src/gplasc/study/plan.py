"""The plan of a comparison: what a user asks for, and the command that computes it again."""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gplasc._io.reading import read_text
from gplasc.errors import UserError
from gplasc.settings.types import Scale, Settings
from gplasc.study.cell import check_seeds
from gplasc.study.experiment import Row


class ComparePlan(Settings):
    """What a comparison compares, and how; the options of `gplasc compare` and `gplasc reproduce --fair` explain it.

    Without the name of an experiment, methods alone are compared. What is empty is as the experiment has it.
    """

    experiment: str = ""
    scale: Scale = "cpu"
    streams: tuple[str, ...] = ()
    buffers: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    like: str | None = None
    plugins: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    trials: int = 12
    tune_seeds: tuple[int, ...] = (1000, 1001, 1002)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    validation: float = 0.2
    search_seed: int = 0
    space: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    tune_set: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    """Rows next to those of the methods and plug-ins; only a file has them."""
    family: tuple[str, ...] = ()
    """The rows whose gains are tested; default: all that have a base."""
    file: str = ""
    """Where the plan was read."""

    @classmethod
    def read(cls, path: Path) -> ComparePlan:
        """Read a TOML file with some of these fields; nothing is tuned unless it says how many trials there are."""
        try:
            values = tomllib.loads(read_text(path))
            plan = cls.model_validate({"trials": 1, **values, "file": str(path)})
        except ValidationError as error:
            problem = error.errors()[0]
            raise UserError(
                f"{path}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}; allowed in a plan: "
                f"{', '.join(name for name in cls.model_fields if name != 'file')}"
            ) from None
        except ValueError as error:  # no TOML, or no text
            raise UserError(f"{path} is not a plan in TOML ({error})") from None
        if not (plan.experiment or plan.methods or plan.rows):
            raise UserError(f"{path} names nothing to compare; give it methods, rows or an experiment")
        return plan

    @property
    def base_seeds(self) -> tuple[int, ...]:
        """Seeds of the runs on validation that choose between two bases: others than those of the trials."""
        return tuple(max(self.tune_seeds) + 1 + number for number in range(len(self.tune_seeds)))

    def check(self) -> None:
        """Refuse numbers that are not allowed."""
        check_seeds(self.seeds)
        check_seeds(self.tune_seeds)
        if not self.seeds or not self.tune_seeds:
            raise UserError("--seeds and --tune-seeds need at least one seed each")
        both = sorted({*self.seeds} & {*self.tune_seeds, *self.base_seeds})
        if both:
            bases = f", and the bases are chosen with {', '.join(map(str, self.base_seeds))}"
            raise UserError(
                f"the seed {both[0]} is given for tuning and for the test; --seeds and --tune-seeds must differ"
                f"{bases if both[0] in self.base_seeds else ''}"
            )
        if self.trials < 1:
            option = "--trials" if self.experiment else "--tune"
            raise UserError(f"{option} is {self.trials}; every row needs at least 1, the preset")
        if not 0 < self.validation < 1:
            raise UserError(
                f"--validation is {self.validation:g}; it is a share between 0 and 1, such as 0.2"
            )
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
        if self.file:
            return Path(self.file).stem
        return f"{self.experiment}, fair" if self.experiment else ", ".join(self.methods)

    @property
    def folder(self) -> str:
        """Name of the folder of its tables."""
        digest = hashlib.sha256(self.command.encode()).hexdigest()[:8]
        if self.file:
            return f"compare-{self.name}"
        return f"{self.experiment}-fair" if self.experiment else f"compare-{digest}"

    @property
    def command(self) -> str:
        """The command that computes the comparison again; where the runs and the data are is left out."""
        if self.file:
            return shlex.join(["gplasc", "compare", "--plan", self.file])
        fields = ComparePlan.model_fields.items()
        values = {name: getattr(self, name) for name, _ in fields}
        changed = {name: values[name] for name, field in fields if values[name] != field.default}
        own = ["experiment", "scale", "family"]
        if self.experiment:
            words = ["gplasc", "reproduce", self.experiment, "--fair", "--scale", self.scale]
        else:
            words = ["gplasc", "compare", "--scale", self.scale]
            named: dict[str, Any] = {"stream": self.streams, "methods": self.methods, "seeds": self.seeds}
            changed = named | ({"tune": self.trials} if self.tunes else {}) | changed
            own += ["streams", "trials"]
        for name, value in changed.items():
            option = f"--{name.replace('_', '-')}"
            if name in ("set", "tune_set"):  # may be repeated, as elsewhere
                words += [word for one in value for word in (option, one)]
            elif name not in own:
                words += [option, *(map(str, value) if isinstance(value, tuple) else [str(value)])]
        return shlex.join(words)
