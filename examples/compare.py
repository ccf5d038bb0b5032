"""Compare methods with and without a plug-in, from Python.

Run ``python examples/compare.py``: seconds at smoke scale, whose numbers mean nothing; with
``python examples/compare.py cpu`` the comparison is real and takes minutes. Expect a line for each
row, with mean and standard deviation over the seeds, and for rows with the plug-in the paired
difference to the method alone with its 95 % interval; then the accuracies as a table. Runs that are
complete are not computed again.
"""

import sys

import gplasc
from gplasc.results.group import Measure

ACCURACY = Measure("final_accuracy", "final class-IL accuracy", "class_il")


def main(scale="smoke"):
    settings = {"model.features": "signed"}  # any names of `gplasc show`, for all rows
    study = gplasc.compare("seq-digits", ["er", "derpp"], ["gplasc"], [0, 1, 2], scale=scale, **settings)
    rows = study.groups(stage="test")
    for row in rows:
        print(f"{row.labels['row']}: {row.spread(ACCURACY)}")
        if base := row.base_among(rows):
            print(f"  difference to {base.labels['row']}: {row.difference(ACCURACY, base)}")

    study.pivot(["row"], "stream", ACCURACY).print()
    # study.to_frame() is a pandas.DataFrame with a line for each run, if pandas is installed.


if __name__ == "__main__":
    main(*sys.argv[1:])
