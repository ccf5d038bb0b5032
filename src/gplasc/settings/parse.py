"""Settings as text: TOML files and ``name=value``."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gplasc._io.reading import read_text
from gplasc.errors import UserError


def read_toml(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file as dotted names."""
    try:
        tree = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"the settings file {path} cannot be read as TOML: {error}") from None
    return flatten(tree)


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings under dotted names; the options of a method stand under the method's name.

    >>> flatten({"seed": 0, "train": {"lr": 0.1}, "options": {"er": {"alpha": 1}}})
    {'seed': 0, 'train.lr': 0.1, 'er.alpha': 1}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "options":
            flat |= {f"{owner}.{key}": v for owner, group in value.items() for key, v in group.items()}
        elif isinstance(value, Mapping):
            flat |= {f"{name}.{key}": v for key, v in value.items()}
        else:
            flat[name] = value
    return flat


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs from the command line; values are written as in TOML, bare words are strings.

    >>> parse_assignments(["train.lr=0.1", "gplasc.position_target=unit"])
    {'train.lr': 0.1, 'gplasc.position_target': 'unit'}
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"'{text}' is not a setting; write name=value, for example train.lr=0.1")
        values[name.strip()] = parse_value(value.strip())
    return values


def parse_value(text: str) -> Any:
    """Read one value as TOML writes it; ``none`` is None and anything else is a string."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
