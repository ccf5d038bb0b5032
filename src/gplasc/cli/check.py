"""Commands ``check`` and ``completion``."""

from __future__ import annotations

from typing import Literal

from gplasc.cli._options import Names


def _check(name: str, /, *, plugin: Names = ("gplasc",)) -> int:
    """Run conformance checks on a method or a plug-in.

    It must be reproducible, resumable, finite, and stay within its memory. Learns small synthetic streams; the
    exit code is 0 if all checks pass and 1 if not. A method is checked alone and with each plug-in, a plug-in
    with a contrastive method, with one that replays and with one that never forwards its memory.

    For example:

    gplasc check my_method.py

    Args:
        name: Path of a Python file with your own method or plug-in, or the name of one.
        plugin: Plug-in to check a method with; may be repeated; default: gplasc.
    """
    from gplasc.conformance import check_component

    table, passed = check_component(name, tuple(dict.fromkeys(plugin)))
    table.print()
    return 0 if passed else 1


def _completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the script that completes commands in a shell.

    For example:

    gplasc completion bash > ~/.local/share/bash-completion/completions/gplasc

    Args:
        shell: The shell.
    """
    from gplasc.cli import app

    print(app.generate_completion(shell=shell))
    return 0
