"""What grows with the number of tasks, the number of classes and the size of the memory."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed.clock import alternate, ratio
from benchmarks.speed.figure import Figure, Measured
from benchmarks.speed.resident import resident_bytes
from benchmarks.speed.steps import StepSize, learner_in_second_task, stepper

from gplasc._io.display import display
from gplasc.learning import Callback, Learner
from gplasc.results.record import RECORD
from gplasc.runs.build import build_learner
from gplasc.runs.execute import execute
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.runs.workspace import Workspace
from gplasc.streams import open_stream

_CONTENDERS = (("er", ()), ("co2l", ("gplasc",)))
_LENGTHS = (5, 20, 100, 200)
_BAR = 1.1
_PHASES = ("training", "everything else", "evaluation")


def measure_growth(quick: bool) -> Measured:
    """Learn streams of more and more tasks, and take steps with more classes and larger memories."""
    lengths = (2, 4) if quick else _LENGTHS
    measured = Measured()
    for method, plugins in _CONTENDERS:
        measured += _tasks(method, plugins, lengths)
    return measured + Measured(_steps(quick))


class _TaskClock(Callback):
    """Notes processor time by phase and resident memory after every task."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {phase: [] for phase in _PHASES}
        self.resident: list[int] = []
        self.record_bytes = 0
        self.end = self._begin = self._trained = self._evaluation = time.process_time()

    def on_task_begin(self, learner: Learner) -> None:
        self._begin = time.process_time()

    def on_task_trained(self, learner: Learner) -> None:
        self._trained = time.process_time()

    def on_progress(self, learner: Learner, phase: str, done: float) -> None:
        if phase == "evaluation":
            self._evaluation = time.process_time()

    def on_task_end(self, learner: Learner) -> None:
        now = time.process_time()
        evaluation = now - self._evaluation
        training = self._trained - self._begin
        for phase, value in zip(
            _PHASES, (training, now - self.end - training - evaluation, evaluation), strict=True
        ):
            self.seconds[phase].append(value)
        self.resident.append(resident_bytes())
        self.end = now


def _spec(method: str, plugins: tuple[str, ...], tasks: int) -> RunSpec:
    settings = {
        "model.encoder": "small",
        "model.width": 8,
        "model.features": "signed",
        "train.batch": 32,
        "train.epochs": 2,
        "train.first_epochs": 2,
        "data.images_per_class": None,
        "data.test_images_per_class": None,
    }
    if method == "co2l":
        settings |= {"probe.epochs": 5, "probe.views": 2, "probe.mode": "cached", "train.warmup_epochs": 0}
    stream = f"synthetic:tasks={tasks},classes=2,size=8,channels=1,train=8,test=8"
    return RunRequest(stream, method, plugins, buffer=50, scale="smoke", settings=settings).resolve()


def _grown(method: str, plugins: tuple[str, ...], early: range, late: range) -> dict[str, float]:
    """Return how many times as long each phase takes in late tasks as in early ones.

    Two learners take turns, so that both find the processor's caches as empty and its cores as busy.
    """
    config = _spec(method, plugins, late.stop).config
    stream = open_stream(config.stream)
    turns = []
    for tasks in (early, late):
        clock = _TaskClock()
        learner = build_learner(config, stream, callbacks=[clock])
        for number in range(tasks.start):
            learner.learn_task(stream[number], past=stream[:number])
        turns.append((clock, learner, tasks))
    for step in range(len(early)):
        for clock, learner, tasks in turns:
            clock.end = time.process_time()
            learner.learn_task(stream[tasks[step]], past=stream[: tasks[step]])
    first, last = ({p: spent[-len(early) :] for p, spent in clock.seconds.items()} for clock, _, _ in turns)
    return {phase: ratio({"first": first[phase], "last": last[phase]}, "last", "first") for phase in _PHASES}


def _learn(method: str, plugins: tuple[str, ...], tasks: int) -> _TaskClock:
    with tempfile.TemporaryDirectory() as name:
        clock, resolved = _TaskClock(), _spec(method, plugins, tasks)
        result = execute(
            resolved, Workspace(Path(name), device="cpu"), callbacks=[clock], display=display(quiet=True)
        )
        clock.record_bytes = (result.folder / RECORD).stat().st_size
        return clock


def _tasks(method: str, plugins: tuple[str, ...], lengths: Sequence[int]) -> Measured:
    title = "+".join((method, *plugins))
    runs = {tasks: _learn(method, plugins, tasks) for tasks in lengths}
    most, half = lengths[-1], lengths[-2]
    clock = runs[most]
    early = range(most // 20, most // 5 + 1)  # tasks 10 to 40 of 200
    late = range(most - len(early), most)

    def median(values: Sequence[float], tasks: range) -> float:
        return statistics.median(values[task] for task in tasks)

    evaluation = clock.seconds["evaluation"]
    middle = range(most // 2 - len(early), most // 2)
    expected = (statistics.fmean(late) + 1) / (statistics.fmean(middle) + 1)
    name = f"{title}, {most} tasks"
    times = _grown(method, plugins, early, late)
    figures = [
        Figure("growth", f"{phase} of a task, last / first, {name}", times[phase], _BAR)
        for phase in _PHASES[:2]
    ]
    figures += [
        Figure(
            "growth",
            f"evaluation of a task, last / middle, to linear growth, {name}",
            median(evaluation, late) / max(median(evaluation, middle), 1e-9) / expected,
            _BAR,
        ),
        Figure(
            "growth",
            f"resident memory, last / first, {name}",
            median(clock.resident, late) / median(clock.resident, early),
            _BAR,
        ),
        Figure(
            "growth",
            f"record, bytes an entry of the matrix, {most} / {half} tasks, {title}",
            runs[most].record_bytes / most**2 / (runs[half].record_bytes / half**2),
            _BAR,
        ),
    ]
    return Measured(figures)


def _steps(quick: bool) -> list[Figure]:
    """Steps with ten times the classes of a task, and with ten times the memory."""
    size, rows = (StepSize(4, 8, 2, 8), 20) if quick else (StepSize(16, 16, 4), 200)
    measured = []
    for method, plugins in _CONTENDERS:
        title = "+".join((method, *plugins))
        usual = stepper(learner_in_second_task(method, plugins, size, buffer=rows))
        others = {
            "20 / 2 classes a task": learner_in_second_task(method, plugins, size, classes=20, buffer=rows),
            f"memory of {10 * rows} / {rows} rows": learner_in_second_task(
                method, plugins, size, buffer=10 * rows
            ),
        }
        for name, learner in others.items():
            times = alternate({"usual": usual, "larger": stepper(learner)}, size.rounds)
            measured.append(Figure("growth", f"step, {name}, {title}", ratio(times, "larger", "usual"), _BAR))
    return measured
