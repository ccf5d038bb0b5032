"""From the few things a user says to the complete settings of a run, with the source of each value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gplasc.config import Config, Data, Model, Probe, Scale, Settings, Train, nearest
from gplasc.errors import UserError
from gplasc.methods import find_method
from gplasc.plugins import find_plugin
from gplasc.presets import matching_rules


class Resolved(Settings):
    """A complete configuration and where each of its values comes from."""

    config: Config
    sources: dict[str, str]


def resolve(
    stream: str,
    method: str,
    plugins: Iterable[str] = (),
    *,
    buffer: int | None = None,
    seed: int = 0,
    scale: Scale = "paper",
    settings: Mapping[str, Any] | None = None,
) -> Resolved:
    """Build the complete settings of a run.

    Later ones win: the defaults beside the code, the presets of the scale for this stream, method and buffer, then
    ``settings`` by dotted name (``train.lr``) or, where only one setting has it, by its last part (``margin``).
    """
    plugins = tuple(plugins)
    owners = {Path(method).stem: find_method(method).Settings}
    owners |= {name: find_plugin(name).Settings for name in plugins}
    sections: dict[str, type[Settings]] = {
        "data": Data,
        "model": Model,
        "train": Train,
        "probe": Probe,
        **owners,
    }
    known = {f"{section}.{field}" for section, kind in sections.items() for field in kind.model_fields}

    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if buffer is not None:
        values["buffer"] = buffer
    for rule in matching_rules(
        scale, stream=stream, method=Path(method).stem, plugins=plugins, buffer=buffer
    ):
        for name, value in rule.set.items():
            # A rule may speak of a plug-in or an option that this run does not have.
            if name in known or (name == "buffer" and buffer is None):
                values[name], sources[name] = value, rule.source
    for name, value in (settings or {}).items():
        full = _full_name(name, known)
        values[full], sources[full] = value, "given"
    if buffer is not None:
        sources["buffer"] = "given"

    tree: dict[str, Any] = {
        "stream": stream,
        "method": method,
        "plugins": plugins,
        "seed": seed,
        "scale": scale,
    }
    groups: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        if section:
            groups.setdefault(section, {})[key] = value
        else:
            tree[key] = value
    try:
        for section, kind in sections.items():
            group = kind(**groups.get(section, {}))
            if section in owners:
                tree.setdefault("options", {})[section] = group.model_dump(mode="json")
            else:
                tree[section] = group
        config = Config(**tree)
    except ValidationError as error:
        raise UserError(_explain(error)) from None
    if config.data.evaluate_on == "validation" and config.data.validation == 0:
        raise UserError("data.evaluate_on is 'validation' but data.validation is 0; give a share such as 0.1")
    return Resolved(config=config, sources={n: sources.get(n, "default") for n in config.flat()})


def _full_name(name: str, known: set[str]) -> str:
    if name in known:
        return name
    matches = sorted(full for full in known if full.rpartition(".")[2] == name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"the setting '{name}' could be {' or '.join(matches)}; write the full name")
    short = {full.rpartition(".")[2] for full in known}
    raise UserError(
        f"there is no setting '{name}' here; {nearest(name, known if '.' in name else short | known)}"
    )


def _explain(error: ValidationError) -> str:
    problem = error.errors()[0]
    name = f"{error.title.lower()}.{'.'.join(str(part) for part in problem['loc'])}"
    return f"the setting {name} was given as {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
