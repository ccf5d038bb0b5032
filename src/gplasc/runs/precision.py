"""The precision "auto": chosen when runs are planned, once for all that belong together, and kept where they go on."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from gplasc.learning.devices import check_device, computes_bfloat16
from gplasc.runs.spec import RunSpec


def settle(
    specs: Sequence[RunSpec], out: Path, device: str | None = None, known: Container[str] = ()
) -> list[RunSpec]:
    """Choose the precision of all runs whose settings leave it open; their data is identified.

    Runs that were begun in the folder `out`, or are known, perhaps from another machine, decide for all of them;
    otherwise the device does.
    """

    def begun(spec: RunSpec, *, native: bool) -> bool:
        own, other = (spec.settled(native=choice).run_id for choice in (native, not native))
        return own != other and (own in known or (out / own).exists())

    if not any(spec.precision_is_open for spec in specs):
        return [*specs]
    before = [native for native in (True, False) if any(begun(spec, native=native) for spec in specs)]
    native = before[0] if before else computes_bfloat16(check_device(device))
    return [spec.settled(native=native, begun=bool(before)) for spec in specs]
