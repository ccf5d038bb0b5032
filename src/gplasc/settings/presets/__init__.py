"""Hyper-parameters as data: a list of rules for each scale, the later ones winning.

A rule says for which streams, methods, plug-ins, buffers and encoders it holds (``when``), what it sets (``set``) and
where the numbers come from (``source``). The scales ``cpu`` and ``smoke`` start from ``paper`` and change what costs
time.
"""

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from gplasc.settings.parse import flatten

_FILES = {"paper": ("paper",), "cpu": ("paper", "cpu"), "smoke": ("paper", "cpu", "smoke")}


@dataclass(frozen=True)
class _Rule:
    """One preset: conditions, values by dotted name, and provenance."""

    source: str
    when: Mapping[str, Any]
    set: Mapping[str, Any]

    def matches(self, facts: Mapping[str, Iterable[str]]) -> bool:
        """Tell whether each condition allows one of the values of a run; patterns may contain ``*``."""
        for name, allowed in self.when.items():
            patterns = allowed if isinstance(allowed, list) else [allowed]
            if not any(fnmatch.fnmatchcase(value, str(p)) for value in facts[name] for p in patterns):
                return False
        return True


def matching_rules(
    scale: str, *, stream: str, method: str, plugins: Iterable[str], buffer: int | None, frozen: bool = False
) -> list[_Rule]:
    """Find the rules that hold for a run.

    Args:
        scale: The name of a scale.
        stream: The name of the stream.
        method: The name of the method.
        plugins: The names of the plug-ins.
        buffer: The number of remembered samples, or None if it was not given.
        frozen: Whether the encoder is not trained.

    Returns:
        The rules, weakest first.
    """
    facts = {
        "stream": [stream],
        "method": [method],
        "plugin": list(plugins),
        "buffer": [str(buffer)],
        "encoder": ["frozen" if frozen else "trained"],
    }
    return [rule for name in _FILES[scale] for rule in _rules(name) if rule.matches(facts)]


@lru_cache
def _rules(name: str) -> tuple[_Rule, ...]:
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tuple(
        _Rule(rule["source"], rule.get("when", {}), flatten(rule["set"]))
        for rule in tomllib.loads(text)["rule"]
    )
