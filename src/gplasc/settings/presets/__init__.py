"""Hyper-parameters as data: a list of rules for each scale, the later ones winning.

A rule says for which streams, methods, plug-ins, buffers and encoders it holds (``when``), what it sets (``set``) and
where the numbers come from (``source``). The scales ``cpu`` and ``smoke`` start from ``paper`` and change what costs
time; ``always`` holds at every scale, after the others.
"""

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from gplasc.settings.parse import flatten

_SCALES = ("paper", "cpu", "smoke")


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


def matching_rules(scale: str, facts: Mapping[str, Iterable[str]]) -> list[_Rule]:
    """Return the rules of a scale that hold for a run, weakest first.

    The facts about the run are the values that ``when`` compares: ``stream``, ``method``, ``plugin``, ``buffer``
    ("None" if it was not given), ``encoder`` ("frozen" or "trained"), ``data`` ("own" or "built-in") and ``optimizer``.
    """
    names = (*_SCALES[: _SCALES.index(scale) + 1], "always")
    return [rule for name in names for rule in _rules(name) if rule.matches(facts)]


@lru_cache
def _rules(name: str) -> tuple[_Rule, ...]:
    rules = _read(name)["rule"]
    return tuple(_Rule(rule["source"], rule.get("when", {}), flatten(rule["set"])) for rule in rules)


def row_name(row: str, settings: Mapping[str, Any]) -> str:
    """Return the name of a row in tables and pictures: a plug-in in another than its published form is named by it.

    >>> row_name("co2l+gplasc", {"plugins": ["gplasc"], "model.features": "signed"})
    'co2l+gplasc, signed features'
    >>> row_name("co2l", {"plugins": [], "model.features": "signed"})
    'co2l'
    """
    for plugin in settings.get("plugins", ()):
        for form in _read("names").get(plugin, ()):
            if all(settings.get(name) == value for name, value in form["when"].items()):
                return row if f", {form['name']}" in row else f"{row}, {form['name']}"
    return row


@lru_cache
def _read(name: str) -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
