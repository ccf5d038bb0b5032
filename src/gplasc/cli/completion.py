"""Command ``completion``."""

from __future__ import annotations

from typing import Literal


def completion_command(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the script that completes commands in a shell.

    For example:

    gplasc completion bash > ~/.local/share/bash-completion/completions/gplasc

    Args:
        shell: The shell.
    """
    from gplasc.cli import app

    print(app.generate_completion(shell=shell))
    return 0
