"""``python -m tests.soak``: kill runs by the hundred, let the disk fail, and compare what comes out, bit for bit."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.soak.cuts import END, METHODS, Runner, cut_off, processes
from tests.soak.learning import LearnRunner, cut_learning, write_months
from tests.soak.studies import STUDIES, cut_study


def main() -> int:
    """Cut every method with and without the plug-in, print a summary, and return 1 if a result differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--learn-kills", type=int, default=20, help="kills of `gplasc learn`, by time")
    parser.add_argument(
        "--study-kills", type=int, default=20, help="kills of compare, demo and others, by time"
    )
    parser.add_argument(
        "--months",
        type=Path,
        nargs=2,
        help="two folders of images for `gplasc learn`; default: small generated ones",
    )
    parser.add_argument(
        "--learn-options",
        default="--scale smoke --encoder small --image-size 8 --buffer 12 --device cpu --save-every 0",
        help="options of `gplasc learn`",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    given = parser.parse_args()
    context = processes()
    settings = [(method, plugin) for method in given.methods for plugin in ("", "gplasc")]
    counts = {"kills": 0, "faults": 0, "compared": 0}
    wrong: list[str] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gplasc-soak-") as folder:
        if given.learn_kills:
            wrong += _kill_learning(given, context, Path(folder) / "learn")
        for name in STUDIES if given.study_kills else ():
            random, killed = Random(f"{given.seed}/{name}"), 0
            share = -(-given.study_kills // len(STUDIES))
            for one, problem in cut_study(context, name, Path(folder) / name, random, share):
                killed += one
                if problem:
                    wrong.append(f"{name}: {problem}")
                    print(f"wrong: {wrong[-1]}", flush=True)
            print(f"{name}: {killed} kills, {time.monotonic() - start:.0f} s", flush=True)
        for number, (method, plugin) in enumerate(settings if given.kills or given.faults else ()):
            name = f"{method}+{plugin}" if plugin else method
            for kind, total in (("kills", given.kills), ("faults", given.faults)):
                share = total * (number + 1) // len(settings) - total * number // len(settings)
                random = Random(f"{given.seed}/{name}/{kind}")
                runner = Runner(context, method, plugin, Path(folder) / f"{name}-{kind}")
                for cut, problem in cut_off(runner, random, share, fault=kind == "faults"):
                    counts["compared" if cut == END else kind] += 1
                    if problem:
                        wrong.append(f"{name}: {cut}")
                        print(f"wrong: {wrong[-1]}: {problem}", flush=True)
            print(f"{name}: {counts}, {time.monotonic() - start:.0f} s", flush=True)
    print(
        f"{counts['kills']} kills, {counts['faults']} faults, {counts['compared']} runs compared over "
        f"{len(settings)} settings, {time.monotonic() - start:.0f} s: {len(wrong)} went wrong"
    )
    return 1 if wrong else 0


def _kill_learning(given: argparse.Namespace, context: Any, folder: Path) -> list[str]:
    """Kill ``gplasc learn`` at random moments, print a summary, and return what went wrong."""
    folder.mkdir()
    months = tuple(given.months) if given.months else write_months(folder)
    runner = LearnRunner(context, folder, months, given.learn_options.split())
    random = Random(f"{given.seed}/learn")
    kills, wrong = 0, []

    def moments() -> Iterator[float]:
        while kills < given.learn_kills:
            yield random.random() * runner.seconds

    for killed, problem in cut_learning(runner, moments()):
        kills += killed
        if problem:
            wrong.append(f"learn: {problem}")
            print(f"wrong: {wrong[-1]}", flush=True)
    print(f"learn: {kills} kills within {runner.seconds:.0f} s each: {len(wrong)} went wrong", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
