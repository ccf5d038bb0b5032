"""``python -m tests.soak``: kill runs by the hundred, let the disk fail, and compare what comes out, bit for bit."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.soak.cuts import END, METHODS, Runner, cut_off, processes


def main() -> int:
    """Cut every method with and without the plug-in, print a summary, and return 1 if a result differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    given = parser.parse_args()
    context = processes()
    settings = [(method, plugin) for method in given.methods for plugin in ("", "gplasc")]
    counts = {"kills": 0, "faults": 0, "compared": 0}
    wrong: list[str] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gplasc-soak-") as folder:
        for number, (method, plugin) in enumerate(settings):
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


if __name__ == "__main__":
    sys.exit(main())
