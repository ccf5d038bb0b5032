"""``python -m tests.fuzz``: damage inputs by the thousand and count what comes of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from tests.fuzz.driver import Limits, describe, draw, run_cases, table
from tests.fuzz.formats import FORMATS


def main() -> int:
    """Run the cases, print the table, and return 1 if anything went wrong that must not."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--case", type=int, help="a single case of one format")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of one case")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cases = draw(given.cases, given.formats, given.seed)
    if given.case is not None:
        cases = [(given.formats[0], given.case)]
    start = time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="gplasc-fuzz-") as folder:
        for outcome in run_cases(cases, Path(folder), seed=given.seed, limits=Limits(given.seconds)):
            outcomes.append(outcome)
            if outcome.wrong or given.case is not None:
                print(describe(outcome, given.seed), flush=True)
    print(table(outcomes))
    wrong = sum(outcome.wrong for outcome in outcomes)
    print(f"{len(outcomes)} cases, seed {given.seed}, {time.monotonic() - start:.0f} s: {wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
