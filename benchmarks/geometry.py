"""Where the tasks of finished runs lie on the sphere, task by task; read from the records of fair comparisons.

For each file and each of its rows a line with a number for each task, means over the seeds: how far its class means
have moved at the end of the run. Rows with a plug-in have two more: the cosine of the task's center to its vertex,
when the task had just been learned and at the end.

python benchmarks/geometry.py results/cifar10.json --runs runs
"""

import argparse
from pathlib import Path

from gplasc.errors import UserError
from gplasc.results.record import read_record
from gplasc.study.stored import read_results


def measure(folder: Path) -> dict[str, list[float]]:
    """Return a number for each task of a run, by what it says."""
    record = read_record(folder)
    if record is None:
        raise UserError(f"{folder} has no record; give the folder of the runs with --runs")
    numbers = {"moved at the end": record["geometry"][-1]["drift"]}
    cosines = [task.get("vertex_cosine") for task in record["geometry"]]
    if all(cosines):
        numbers["cosine when learned"] = [row[task] for task, row in enumerate(cosines)]
        numbers["cosine at the end"] = cosines[-1]
    return numbers


def main() -> None:
    """Print the lines of each row; a mistake ends in one sentence."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", required=True, type=Path)
    given = parser.parse_args()
    try:
        for path in given.files:
            for group in read_results(path).groups(stage="test"):
                runs = [measure(given.runs / run) for run in group.runs.values() if run]
                for name in runs[0] if runs else ():
                    tasks = zip(*(one[name] for one in runs), strict=True)
                    means = [f"{sum(task) / len(task):.2f}" for task in tasks]
                    print(f"{path.name}, {group.labels['row']}, {name}:", *means)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
