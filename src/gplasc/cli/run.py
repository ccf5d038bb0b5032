"""Command ``run``."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass, replace
from pathlib import Path

from cyclopts import Parameter

from gplasc.cli._options import Launch, Place, RunOptions
from gplasc.errors import UserError


@Parameter(name="*", group="Saving")
@dataclass(frozen=True, kw_only=True)
class _Saving:
    out: Path = Path("runs")
    """Folder of all runs."""
    save_every: float = 60.0
    """Seconds between two checkpoints."""
    save_steps: int | None = None
    """Steps between two checkpoints, in addition to the seconds."""
    tensorboard: bool = False
    """Also write TensorBoard files."""
    forget_memory: bool = False
    """Do not keep the memory of the finished run, which is needed to learn further tasks."""
    restart: bool = False
    """Discard what this run has saved so far, its record included, and start over."""


@Parameter(name="*", group="Computing")
@dataclass(frozen=True, kw_only=True)
class _Hardware:
    devices: int = 1
    """Processes of this machine that compute the run together, one on each GPU."""
    compile: bool = False
    """Compile the encoder with torch.compile."""
    threads: int | None = None
    """Threads of torch; default: all cores. Results are equal bit for bit only for equal numbers."""


def _run(
    *,
    options: RunOptions = RunOptions(),
    place: Place = Place(),
    saving: _Saving = _Saving(),
    hardware: _Hardware = _Hardware(),
    skip_corrupt: bool = False,
    json: bool = False,
    dry_run: bool = False,
) -> int | Launch:
    """Learn a stream task by task and evaluate all tasks after each.

    A run is named by the hash of its settings. Run again, a complete one prints its result; one that was cut off
    continues bit for bit.

    For example:
    gplasc run --stream seq-digits --method co2l --plugin gplasc
    gplasc run --stream folder:images --method er --buffer 200 --json

    Args:
        skip_corrupt: Leave out images that cannot be decoded, and list them.
        json: Print the record as one JSON object on the last line of standard output.
        dry_run: Only print what the run would cost.
    """
    if hardware.devices < 1:
        raise UserError(f"--devices is {hardware.devices}; give 1 or more")
    if hardware.devices > 1 and not dry_run:
        from gplasc.learning.distributed import launched

        if not launched():
            return Launch(hardware.devices)
    if hardware.threads is not None:
        if hardware.threads < 1:
            raise UserError(f"--threads is {hardware.threads}; give 1 or more, or leave it out")
        import torch

        torch.set_num_threads(hardware.threads)
    if skip_corrupt:  # it decides what is learned, so it is a setting
        options = replace(options, set=(*options.set, "data.skip_corrupt=true"))
    spec = options.request().resolve()
    if dry_run:
        from gplasc.runs.cost import measure_cost
        from gplasc.runs.spec import settle

        (spec,) = settle([spec], saving.out, place.device)
        print(measure_cost(spec, data_dir=place.data_dir, device=place.device)[1])
        return 0
    from gplasc._io.display import display
    from gplasc.runs.execute import execute_joined
    from gplasc.runs.show import print_run

    workspace = replace(
        place.workspace(saving.out),
        save_every=saving.save_every,
        save_steps=saving.save_steps,
        keep_memory=not saving.forget_memory,
        compiled=hardware.compile,
        tensorboard=saving.tensorboard,
    )
    result = execute_joined(spec, workspace, display=display(place.quiet), restart=saving.restart)
    if result is None:  # of several processes the first one prints
        return 0
    if json:
        print(json_module.dumps(result.record.to_dict()))
    else:
        print_run(result.record, result.folder)
    return 0
