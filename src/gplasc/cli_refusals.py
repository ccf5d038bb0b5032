"""One sentence for words that the parser of the command line refuses; its own answer is a box of several lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.conf import Positional, UseAppendAction

_POSITIONAL = get_args(Positional[int])[1]
_APPEND = get_args(UseAppendAction[int])[1]
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class _Argument:
    """An option or a positional argument of a command, as its dataclass declares it."""

    name: str
    names: tuple[str, ...]
    kind: Any
    most: float
    required: bool

    @property
    def positional(self) -> bool:
        return not self.names

    def refuse(self, value: str) -> str:
        """Say what is wrong with a value, or nothing; "None" is the default of an option that has none."""
        if value == "None":
            return ""
        choices = get_args(self.kind) if get_origin(self.kind) is Literal else ()
        if choices and value not in choices:
            return f"{self.name} was given as {_quote(value)}; {_nearest(value, choices)}"
        try:
            self.kind(value) if self.kind in _KINDS else None
        except ValueError:
            return f"{self.name} was given as {_quote(value)}; give {_KINDS[self.kind]}"
        return ""


def explain(words: Sequence[str], commands: Mapping[str, type]) -> str:
    """Say in one sentence why words are no command line.

    Args:
        words: What was given after the name of the program.
        commands: The dataclass of each command; its fields are the command's arguments.

    Returns:
        The sentence; empty if nothing is found that is wrong.
    """
    if not words:
        return f"no command was given; give one of {', '.join(commands)}"
    if words[0] not in commands:
        return f"there is no command {_quote(words[0])}; {_nearest(words[0], commands)}"
    command = f"`gplasc {words[0]}`"
    arguments = _arguments(commands[words[0]])
    options = {name: argument for argument in arguments for name in argument.names}
    positional = [argument for argument in arguments if argument.positional]
    rest, given = list(words[1:]), set[str]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            continue
        name, equals, value = word.partition("=")
        if _is_option(word):
            argument = options.get(name.replace("_", "-"))
            if argument is None:
                return f"{command} has no option {_quote(name)}; {_instead(name, options)}"
        elif positional:
            argument, equals, value = positional[0], "=", word
            if argument.most == 1:
                positional.pop(0)
        else:
            return f"{command} does not take {_quote(word)}; see `gplasc {words[0]} --help`"
        values = [value] if equals else []
        while rest and not _is_option(rest[0]) and len(values) < argument.most:
            values.append(rest.pop(0))
        if len(values) > argument.most:
            return f"{name} takes no value, but {_quote(value)} was given"
        if argument.most == 1 and not values:
            return f"{name} needs a value; see `gplasc {words[0]} --help`"
        for wrong in filter(None, map(argument.refuse, values)):
            return wrong
        given.add(argument.name)
    missing = [argument.name for argument in arguments if argument.required and argument.name not in given]
    return f"{command} needs {' and '.join(missing)}; see `gplasc {words[0]} --help`" if missing else ""


def flatten_box(text: str) -> str:
    r"""Return the first paragraph of the parser's box as one line, for what `explain` does not know.

    >>> flatten_box("╭─ Title ─╮\n│ first   │\n│ second. │\n│ ─────── │\n│ more    │\n╰─────────╯")
    'first second.'
    """
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    inside = " ".join(line.strip("│ ") for line in lines[1:-1] or lines)
    paragraphs = [" ".join(part.split()) for part in re.split(r"[─-]{3,}", inside)]
    return next(filter(None, paragraphs), "this is no command line; see `gplasc --help`")[:300]


def _arguments(command: type) -> list[_Argument]:
    hints = get_type_hints(command, include_extras=True)
    found = []
    for field in fields(command):
        kind = hints[field.name]
        marks: tuple[Any, ...] = getattr(kind, "__metadata__", ())
        if marks:
            kind = get_args(kind)[0]
        if get_origin(kind) in (Union, UnionType):
            kind = next(part for part in get_args(kind) if part is not NoneType)
        most = 0.0 if kind is bool else 1.0
        if get_origin(kind) is tuple:
            kind, most = get_args(kind)[0], 1.0 if _APPEND in marks else float("inf")
        name = f"--{field.name.replace('_', '-')}"
        names = (name, *(alias for mark in marks for alias in getattr(mark, "aliases", None) or ()))
        if _POSITIONAL in marks:
            name, names = field.name.upper(), ()
        required = field.default is MISSING and field.default_factory is MISSING
        found.append(_Argument(name, names, kind, most, required))
    return found


def _is_option(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-|-\.?\d.*", word)


def _instead(name: str, options: Mapping[str, _Argument]) -> str:
    """Say which option was probably meant, or how a setting is given."""
    from gplasc.settings.types import Config

    bare = name.lstrip("-").replace("-", "_")
    sections = {
        section: getattr(field.annotation, "model_fields", {})
        for section, field in Config.model_fields.items()
    }
    settings = [f"{section}.{key}" for section, keys in sections.items() for key in keys]
    if "--set" in options and (bare in settings or any(full.endswith(f".{bare}") for full in settings)):
        full = next(full for full in settings if full == bare or full.endswith(f".{bare}"))
        return f"it is a setting: write --set {full}=VALUE"
    more = "; a setting is given with --set NAME=VALUE" if "--set" in options else ""
    return _nearest(name, options, more)


def _nearest(word: str, allowed: Iterable[str], more: str = "") -> str:
    """Say which name was probably meant, or all of them and ``more``; dashes do not make names alike."""
    bare = {name.strip("-"): name for name in allowed}
    close = difflib.get_close_matches(word.strip("-").replace("_", "-").lower(), bare, n=1, cutoff=0.6)
    return f"did you mean {bare[close[0]]}?" if close else f"allowed: {', '.join(bare.values())}{more}"


def _quote(word: str) -> str:
    return repr(word if len(word) < 60 else f"{word[:57]}...")
