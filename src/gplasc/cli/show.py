"""Commands ``show``, ``runs`` and ``list``."""

from __future__ import annotations

import json as json_module
from dataclasses import replace
from pathlib import Path

from gplasc.cli._options import DEFAULTS, RunOptions


def _show(name: str = "", /, *, options: RunOptions = RunOptions(), toml: bool = False) -> int:
    """Print the settings of a run and where each comes from.

    A method's deviations from its paper are printed, too.

    For example:
    gplasc show der
    gplasc show train.lr --method co2l
    gplasc show --method co2l --plugin gplasc --toml > mine.toml

    Args:
        name: Name of a method or plug-in, `gplasc show der` is short for `gplasc show --method der`; or of one setting.
        toml: Print TOML to be read again with --config.
    """
    from gplasc.runs.show import print_settings
    from gplasc.runs.spec import OURS
    from gplasc.settings.components import list_methods, list_plugins

    if name in list_plugins():
        options = replace(options, plugin=(*options.plugin, name))
    elif name and (name in list_methods() or name not in options.request().resolve().config.flat()):
        options, name = replace(options, method=name), ""
    resolved = options.request().resolve()
    if name in resolved.sources:
        print(f"{name} = {resolved.config.flat()[name]}  ({resolved.sources[name]})")
        return 0
    if toml:
        print(resolved.config.to_toml(), end="")
        return 0
    stated = options.in_file() | options.named()
    sources = {name: "given" if name in stated else OURS for name in DEFAULTS}
    print_settings(resolved.model_copy(update={"sources": resolved.sources | sources}))
    return 0


def _runs(*folders: Path, csv: bool = False) -> int:
    """List the complete runs of a folder.

    In Python, gplasc.load_runs("runs") returns them as a data frame.

    For example:
    gplasc runs
    gplasc runs runs other --csv > runs.csv

    Args:
        folders: Folders of runs; every run in or below them is listed; default: runs.
        csv: Print comma-separated values, with all settings and metrics.
    """
    from gplasc.runs.show import list_runs

    metrics = [f"{scenario}.final_accuracy" for scenario in ("class_il", "task_il")]
    short = ["run_id", "title", "stream", "buffer", "seed", "scale", *metrics]
    table = list_runs(folders or (Path("runs"),), () if csv else short)
    print(table.to_csv(), end="") if csv else table.print(compact=True)
    return 0


def _list(*, json: bool = False) -> int:
    """List methods, plug-ins, streams and experiments.

    For example:
    gplasc list --json

    Args:
        json: Print one JSON object instead of tables.
    """
    from gplasc.paper import list_experiments
    from gplasc.settings.components import list_methods, list_plugins
    from gplasc.streams.catalog import list_streams

    groups = {
        "methods": list_methods(),
        "plug-ins": list_plugins(),
        "streams": {info.name: f"{info.description} ({info.shape})" for info in list_streams()},
        "experiments": list_experiments(),
    }
    if json:
        print(json_module.dumps(groups))
        return 0
    from gplasc._io.table import Column, Table

    for title, entries in groups.items():
        Table("", [title, Column("", "left")], [*entries.items()]).print(compact=True)
    return 0
