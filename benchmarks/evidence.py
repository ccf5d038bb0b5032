"""Class-IL of finished GPLASC+ runs with other weights of the prototypes at prediction; nothing is trained.

Their weight only changes the scores of the predictor. For each file of a fair comparison and each of its rows with
GPLASC+, a line for each weight: class-IL after the last task, and the share of images that are assigned to the last
task. A predictor without prototypes has one line. `--all-rows` adds the rows without GPLASC+; `--trials` takes the
trials, which were evaluated on a validation split, in place of the final runs.

python benchmarks/evidence.py results/search/*.json --runs runs --data-dir DIR [--weights 0 1 3 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch

from gplasc.errors import UserError
from gplasc.results.group import Group
from gplasc.results.statistics import Difference, spread
from gplasc.runs.result import Result
from gplasc.study.stored import Results, read_results

_ALONE = 1e6  # so large that the scores of the method's own predictor no longer count


def measure(folder: Path, weights: list[float], data_dir: str) -> dict[float, list[float]]:
    """Return class-IL and the share of images assigned to the last task by weight; only 1 without prototypes."""
    run = Result.read(folder).load(data_dir=data_dir, device="cpu")
    predictor = run.learner.ctx.predictor
    assert predictor is not None
    samples = [run.evaluation_samples(task) for task in run.stream]
    features = [run.features(part) for part in samples]
    last = run.stream[-1].classes.start
    numbers = {}
    for weight in weights if hasattr(predictor, "places") else [1.0]:
        if hasattr(predictor, "places"):
            predictor.weight = weight
        with torch.no_grad():
            labels = [predictor(part).argmax(1) for part in features]
        hits = [(ours == part.y).float().mean() for ours, part in zip(labels, samples, strict=True)]
        share = (torch.cat(labels) >= last).float().mean()
        numbers[weight] = [100 * torch.stack(hits).mean().item(), 100 * share.item()]
    return numbers


def runs_of(results: Results, row: Group, *, trials: bool) -> Iterator[tuple[int, str]]:
    """Return the runs of a row with a number each: the seed, or that of the trial."""
    if not trials:
        yield from row.runs.items()
    for number, trial in enumerate(results.trials(row) if trials else ()):
        for run in trial.runs.values():
            yield number, run


def main() -> None:
    """Print the lines of each row; a mistake ends in one sentence."""
    try:
        compare(arguments())
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


def arguments() -> argparse.Namespace:
    """Return what was given on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", required=True, type=Path)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--trials", action="store_true")
    parser.add_argument("--all-rows", action="store_true")
    parser.add_argument("--weights", nargs="+", type=float, default=[0.0, 0.3, 1.0, 3.0, 10.0])
    return parser.parse_args()


def compare(given: argparse.Namespace) -> None:
    """Print the lines of each row."""
    torch.set_num_threads(1)
    weights = sorted({*given.weights, 1.0, _ALONE})
    for path in given.files:
        results = read_results(path)
        for row in results.groups(stage="test"):
            if not given.all_rows and "gplasc-plus" not in row.settings["plugins"]:
                continue
            numbers = {
                number: measure(given.runs / run, weights, given.data_dir)
                for number, run in runs_of(results, row, trials=given.trials)
            }
            split = "validation" if given.trials else results.evaluated_on
            print(f"{path.name}, {row.labels['row']} on {split}")
            before = {number: values[1.0][0] for number, values in numbers.items()}
            measured = list(next(iter(numbers.values()), ()))
            for weight in measured:
                ours = {number: values[weight][0] for number, values in numbers.items()}
                share = sum(values[weight][1] for values in numbers.values()) / len(numbers)
                name = "prototypes alone" if weight == _ALONE else f"weight {weight:g}"
                name = name if len(measured) > 1 else "no prototypes"
                change = Difference.of(before, ours)
                print(
                    f"  {name:13} {spread(list(ours.values()))}, to weight 1 {change}; last task {share:.1f} %",
                    flush=True,
                )


if __name__ == "__main__":
    main()
