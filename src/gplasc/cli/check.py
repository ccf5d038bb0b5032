"""Commands ``check`` and ``completion``."""

from __future__ import annotations

from typing import Literal

from gplasc.cli._options import Names


def _check(name: str | None = None, /, *, plugin: Names = ("gplasc",), device: str = "cpu") -> int:
    """Run conformance checks on a method, a plug-in or a device.

    It must be reproducible, resumable, finite, and stay within its memory. Learns small synthetic streams; the
    exit code is 0 if all checks pass and 1 if not. A method is checked alone and with each plug-in, a plug-in
    with a contrastive method, with one that replays and with one that never forwards its memory.

    For example:
    gplasc check my_method.py
    gplasc check --device cuda

    Args:
        name: Path of a Python file with your own method or plug-in, or the name of one; default: every method
            with gplasc, with accuracy and seconds next to those of the CPU.
        plugin: Plug-in to check a method with; may be repeated; default: gplasc.
        device: Where to compute: cpu, cuda, mps.
    """
    from gplasc.conformance import check_component, check_device
    from gplasc.learning import devices
    from gplasc.settings.components import list_methods

    device = devices.check_device(device)
    if name is None:
        table, passed = check_device(device, list(list_methods()))
    else:
        table, passed = check_component(name, tuple(dict.fromkeys(plugin)), device)
    table.print()
    if name is None and device != "cpu":
        print("gplasc was never run on such a device before: please send this table, and `gplasc --version`.")
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
