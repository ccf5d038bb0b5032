"""The precision "auto": chosen when runs are planned, once for all that belong together, and kept where they go on."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.learning.devices import check_device, choose_precision, computes_bfloat16
from gplasc.settings.types import Config

if TYPE_CHECKING:
    from gplasc.runs.spec import RunSpec

_PRECISION = "train.precision"
_OPEN = "auto: suits the encoder and the device"  # the source of a precision that `settle` may still change
_PLANNED = "auto: suited the encoder and the device when the run was planned"
_BEGUN = "auto: that of runs which were begun before"


def resolve_auto(config: Config) -> tuple[Config, dict[str, str]]:
    """Return the configuration as it suits this machine, and the source of the precision if it is "auto"."""
    if config.train.precision != "auto":
        return config, {}
    return _with_precision(config, native=computes_bfloat16(check_device(None))), {_PRECISION: _OPEN}


def _with_precision(config: Config, *, native: bool) -> Config:
    model, trained = config.model, config.model.encoder_lr > 0 and not config.stream.startswith("features:")
    precision = choose_precision(model.encoder, model.width, trained=trained, native=native)
    return config.model_copy(update={"train": config.train.model_copy(update={"precision": precision})})


def settled(spec: RunSpec, *, native: bool, source: str = _PLANNED) -> RunSpec:
    """Return the run in the precision for devices that compute bfloat16, or for others; a given one stays."""
    if spec.sources.get(_PRECISION) != _OPEN:
        return spec
    config = _with_precision(spec.config, native=native)
    return spec.model_copy(update={"config": config, "sources": {**spec.sources, _PRECISION: source}})


def settle(
    specs: Sequence[RunSpec], out: Path, device: str | None = None, known: Container[str] = ()
) -> list[RunSpec]:
    """Choose the precision of all runs whose settings leave it open; their data is identified.

    Runs that were begun in the folder `out`, or are known, perhaps from another machine, decide for all of them;
    otherwise the device does.
    """

    def begun(spec: RunSpec, *, native: bool) -> bool:
        own, other = (settled(spec, native=choice).run_id for choice in (native, not native))
        return own != other and (own in known or (out / own).exists())

    if not any(spec.sources.get(_PRECISION) == _OPEN for spec in specs):
        return [*specs]
    before = [native for native in (True, False) if any(begun(spec, native=native) for spec in specs)]
    native = before[0] if before else computes_bfloat16(check_device(device))
    return [settled(spec, native=native, source=_BEGUN if before else _PLANNED) for spec in specs]
