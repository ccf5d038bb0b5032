"""Command ``demo``."""

from __future__ import annotations

from pathlib import Path

from gplasc.cli._options import Computing, RunOptions

# The features are signed, so that the range term acts as well: pooled ReLU features have no negative cosines.
_OPTIONS = RunOptions(stream="seq-digits", method="co2l", set=("model.features=signed",))


def demo_command(*, out: Path = Path("runs/demo"), workers: int = 2, quiet: bool = False) -> int:
    """Compare Co2L without and with GPLASC on digits, in two minutes.

    Learns ten digits in five tasks with Co2L, Co2L+GPLASC and Co2L+GPLASC+. Prints accuracy and forgetting over
    two seeds, and writes a page with pictures.

    For example:

    gplasc demo --out demo

    Args:
        out: Folder of the runs and of the page.
        workers: Runs computed at the same time, in processes.
        quiet: No progress.
    """
    from gplasc._io.display import display
    from gplasc.report.page import write_report
    from gplasc.study.sweep import run_sweep

    print("Six runs: ten digits in five tasks, three methods, seeds 0 and 1. Measured after the last task.")
    code = run_sweep(
        ("plugin=none,gplasc,gplasc-plus",),
        (0, 1),
        _OPTIONS.arguments(),
        fixed={"stream", "method"},
        out=out,
        data_dir=None,
        device="cpu",
        engine=Computing(workers=workers),
        dry_run=False,
        display=display(quiet),
    )
    title = "Ten digits in five tasks: Co2L without and with GPLASC"
    (page, *_) = write_report((out,), out / "report.html", title=title)
    print(f"The page with the pictures: {page}")
    return code
