"""Command ``demo``."""

from __future__ import annotations

from pathlib import Path


def demo_command(*, out: Path = Path("runs/demo"), workers: int = 2, quiet: bool = False) -> int:
    """Compare Co2L without and with GPLASC on digits, in two minutes.

    Learns ten digits in five tasks with Co2L, Co2L+GPLASC and Co2L+GPLASC+. Writes a page with pictures of the
    features, and prints accuracy and forgetting for two seeds.

    For example:

    gplasc demo --out demo

    Args:
        out: Folder of the runs and of the page.
        workers: Runs computed at the same time, in processes.
        quiet: No progress.
    """
    from gplasc._io.display import display
    from gplasc.study.demo import run_demo

    return run_demo(out, workers=workers, display=display(quiet))
