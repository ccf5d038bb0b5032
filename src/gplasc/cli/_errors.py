"""Errors of the parser of command lines as one sentence."""

from __future__ import annotations

import difflib

from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError


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
