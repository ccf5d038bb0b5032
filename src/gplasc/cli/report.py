"""Commands ``report`` and ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def _report(
    *runs: Path,
    out: Annotated[Path, Parameter(alias="-o")] = Path("report.html"),
    title: str = "Class-incremental learning",
    tables: Path | None = None,
    figures: Path | None = None,
) -> int:
    """Write one HTML page about runs, or a classifier's last update.

    It opens offline. Tables and figures about runs can be written as files, too.

    For example:
    gplasc report runs --out report.html --tables tables

    Args:
        runs: Folders of runs, of which every complete one is taken, or of a classifier's state; default: runs.
        out: The page to write.
        title: Heading of the page.
        tables: Folder for the tables as Markdown, LaTeX and CSV.
        figures: Folder for the figures as SVG and PDF.
    """
    if len(runs) == 1 and any((runs[0] / name).is_file() for name in ("state.json", "candidate.json")):
        from gplasc.classifier.page import write_page

        print(write_page(runs[0], out, f"Classifier {runs[0].name}"))
        return 0
    from gplasc.report.page import write_report

    for path in write_report(runs or (Path("runs"),), out, title=title, tables=tables, figures=figures):
        print(path)
    return 0


def _demo(*, out: Path = Path("runs/demo"), workers: int = 2, quiet: bool = False) -> int:
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
