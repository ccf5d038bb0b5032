"""`gplasc demo`: Co2L without and with GPLASC on ten digits, in two minutes."""

from __future__ import annotations

from pathlib import Path

from gplasc._io.display import Display
from gplasc._io.table import Table
from gplasc.report.page import build_report
from gplasc.report.projection import feature_sphere
from gplasc.report.render import Section
from gplasc.report.sphere import Sphere
from gplasc.results.group import CLASS_IL, Measure
from gplasc.runs.result import Restored
from gplasc.runs.spec import RunRequest
from gplasc.runs.workspace import Workspace
from gplasc.settings.types import Scale
from gplasc.study.cell import Cell
from gplasc.study.compute import print_failures
from gplasc.study.executors import Engine
from gplasc.study.study import Study

_SEEDS = (0, 1)
_PLUGINS: tuple[tuple[str, ...], ...] = ((), ("gplasc",), ("gplasc-plus",))
_SETTINGS = {
    # Pooled ReLU features have no negative cosines; with signed ones the range term acts as well.
    "model.features": "signed",
    # Half the epochs of the preset: two minutes on two cores.
    "train.epochs": 25,
    "train.first_epochs": 40,
}
_MEASURES = {
    "class-IL": CLASS_IL,
    "task-IL": Measure("final_accuracy", scenario="task_il"),
    "forgetting": Measure("forgetting", scenario="class_il"),
}
_TEXT = (
    "Every dot is a test image: the direction of its features after the last task. Its color is the task, and each "
    "number stands at the mean of its digit. Press a task to hide it; drag a sphere to turn it.\n\n"
    "The features have many dimensions, and a sphere shows three: those that hold most of the five task centers, "
    "chosen by the same rule for each run. Every dot is moved straight out to the surface. Tasks that overlap here "
    "can be apart in the other dimensions."
)


def run_demo(out: Path, *, workers: int = 2, scale: Scale = "cpu", display: Display | None = None) -> int:
    """Compute the six runs, write ``out/report.html``, print the table, and return 1 if a run failed, else 0."""
    print("Six runs: ten digits in five tasks with Co2L, Co2L+GPLASC and Co2L+GPLASC+, seeds 0 and 1.")
    specs = [
        RunRequest("seq-digits", "co2l", plugins, seed=seed, scale=scale, settings=_SETTINGS).resolve()
        for seed in _SEEDS
        for plugins in _PLUGINS
    ]
    study = Study([Cell({"row": spec.title}, spec) for spec in specs], Workspace(out, device="cpu"))
    study.compute(Engine(workers=workers).open(scale), display)
    print_failures(study.failures)
    complete = study.complete_cells()
    if not complete:
        return 1
    spheres = [_sphere(study.restore(cell)) for cell in complete if cell.seed == _SEEDS[0]]
    title = "Ten digits in five tasks: Co2L without and with GPLASC"
    first = [Section("The test images on the sphere", tuple(spheres), _TEXT)]
    page = build_report(study.records, out / "report.html", title=title, first=first)
    print(f"The page with the pictures: {page}")
    _table(study).print(compact=True)
    return 1 if study.failures else 0


def _table(study: Study) -> Table:
    """A row for each method, with the value of each seed."""
    rows = []
    for group in study.groups():
        each = [group.by_seed(measure).values() for measure in _MEASURES.values()]
        texts = [", ".join(f"{value:.1f}" for value in values) for values in each]
        rows.append([group.row, *texts])
    return Table("After the last task, percent: seed 0, seed 1", ("method", *_MEASURES), rows)


def _sphere(run: Restored) -> Sphere:
    """The test images of a finished run, on the sphere."""
    samples = [run.evaluation_samples(task) for task in run.stream]
    features = [run.features(one).double().numpy() for one in samples]
    labels = [one.y.numpy() for one in samples]
    title = f"{run.record.name}, seed {run.record.seed}"
    return feature_sphere(title, features, labels, run.stream.class_names)
