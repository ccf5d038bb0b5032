"""What the parser of command lines shows: help in two columns, as wide as the terminal, and errors in one sentence."""

from __future__ import annotations

import difflib
import re
import textwrap
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError
from cyclopts.help import DefaultFormatter, PanelSpec, TableSpec
from rich.box import Box

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

_NO_LINES = Box("    \n" * 8)


class _Formatter(DefaultFormatter):
    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Write the paragraphs of a docstring; commands are indented and not wrapped."""
        plain = getattr(description, "primary_renderable", description)
        text = ""
        for paragraph in re.split(r"\n\n(?!gplasc )", str(getattr(plain, "plain", plain) or "").strip()):
            head, *examples = re.split(r"\n+(?=gplasc )", paragraph)
            text += "\n  ".join([f"\n{textwrap.fill(head, min(console.width, 100))}", *examples]) + "\n"
        print(text.lstrip("\n"), file=console.file)


FORMATTER = _Formatter(
    panel_spec=PanelSpec(box=_NO_LINES, padding=0),
    table_spec=TableSpec(show_header=False, padding=(0, 2, 0, 0)),
)


def explain(error: CycloptsError) -> str:
    """Return the parser's error as one line of limited length, with what a reader needs to know of gplasc."""
    error.verbose = False
    command = " ".join(["gplasc", *(error.command_chain or ())])
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        text = f"`{command}` does not take {error.unused_tokens[0]!r:.100}; see `{command} --help`"
    elif isinstance(error, UnknownOptionError):
        text = _explain_option(error)
    else:
        text = str(error)
    text = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return text if len(text) < 400 else f"{text[:197]} ... {text[-197:]}"


def _explain_option(error: UnknownOptionError) -> str:
    """Name the option that was probably meant, or tell how a setting is given; dashes do not make names alike."""
    word = (error.token.keyword or error.token.value).partition("=")[0]
    names = {name.strip("-"): name for argument in error.argument_collection for name in argument.names}
    text = f"Unknown option: {word}."
    if "set" in names:
        from gplasc.settings.types import Config

        bare = word.strip("-").replace("-", "_")
        for section, kind in Config.sections().items():
            for key in kind.model_fields:
                if bare in (key, f"{section}.{key}"):
                    return f"{text} It is a setting: write --set {section}.{key}=VALUE."
    close = difflib.get_close_matches(word.strip("-").replace("_", "-").lower(), names, n=1)
    if close:
        return f"{text} Did you mean {names[close[0]]}?"
    more = " A setting is given with --set NAME=VALUE." if "set" in names else ""
    return f"{text}{more} Allowed: {', '.join(names.values())}."
