"""Conformance checks of methods, with and without plug-ins; behind ``gplasc check`` and the test of all methods.

Each check learns a small synthetic stream, a second or less, and says in one sentence what is wrong if it fails.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gplasc._io.table import Column, Marked, Table
from gplasc.errors import UserError
from gplasc.learning import Callback, Learner, Plugin
from gplasc.learning.checkpoints import digest
from gplasc.memory import Buffer
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.settings.components import error_in_user_file, find_component, section_names
from gplasc.streams import Samples

_STREAM = "synthetic:tasks=3,classes=2,size=8,channels=1,train=8,test=6"
_LONE = "synthetic:tasks=3,classes=3,size=8,channels=1,train=1,test=2"
_BUFFER = 7
_METHODS_FOR_PLUGINS = ("co2l", "er", "agem")
_WHERE = ("task", "epoch", "step", "lr")  # what a row of the log has besides the terms
# 16 samples a task: the last batch has one.
_SETTINGS = {"model.encoder": "small", "model.features": "signed", "train.lr": 0.05, "train.batch": 5}


@dataclass(frozen=True)
class _Outcome:
    """What came out of one check; the detail is what is wrong, or what there is to know."""

    check: str
    passed: bool
    detail: str


class _Failure(Exception):
    """A check has failed; the message says how."""


def _check(subject: _Subject) -> list[_Outcome]:
    """Run all checks on a method with plug-ins."""
    subject.settings(_STREAM, _BUFFER)  # an unknown name or an unreadable file is the caller's mistake
    outcomes = []
    for name, check in CHECKS.items():
        try:
            outcomes.append(_Outcome(name, True, check(subject) or ""))
        except _Failure as failure:
            outcomes.append(_Outcome(name, False, str(failure)))
        except (KeyboardInterrupt, UserError):
            raise
        except Exception as error:  # a user's method may raise anything
            reason = error_in_user_file(error) or f"{type(error).__name__}: {error}"
            outcomes.append(_Outcome(name, False, reason))
    return outcomes


def check_component(name: str, plugins: Sequence[str] = (), device: str = "cpu") -> tuple[Table, bool]:
    """Run all checks on a method, alone and with each plug-in, or on a plug-in with three kinds of methods.

    Return a table with one column for each combination, and whether all checks passed.
    """
    pairs = [(name, ()), *((name, (plugin,)) for plugin in plugins)]
    # If it is no plug-in, what is wrong with it is said when it is taken for a method.
    with suppress(UserError):
        find_component(name, "plugins", Plugin)
        pairs = [(method, (name,)) for method in _METHODS_FOR_PLUGINS]
    columns = {"+".join(section_names(*pair)): _check(_Subject(*pair, device)) for pair in pairs}
    rows = [[row[0].check, *(_cell(one) for one in row)] for row in zip(*columns.values(), strict=True)]
    notes = _Subject(*pairs[0]).settings(_STREAM, _BUFFER).notes
    table = Table("", [Column(head, "left") for head in ("check", *columns)], rows, notes)
    return table, all(outcome.passed for column in columns.values() for outcome in column)


def check_device(device: str, methods: Sequence[str]) -> tuple[Table, bool]:
    """Run all checks on methods with gplasc on a device, and learn the same stream on the CPU.

    Return a table with a row for each method, and whether all checks passed.
    """
    rows: list[list[str | Marked]] = []
    for method in methods:
        subjects = [_Subject(method, ("gplasc",), place) for place in ("cpu", device)]
        failed = [outcome for outcome in _check(subjects[1]) if not outcome.passed]
        figures = []
        for subject in subjects:
            with suppress(Exception):  # the checks say what is wrong with it
                learner, _ = subject.first
                seconds = sum(sum(phases.values()) for phases in learner.evaluator.timings)
                figures.append((sum(learner.class_il[-1]) / len(learner.class_il), seconds))
        shown = [f"{accuracy:.1f} % in {seconds:.2f} s" for accuracy, seconds in figures]
        what = "; ".join(f"{outcome.check}: {outcome.detail}" for outcome in failed)
        rows.append([method, _cell(_Outcome("", not failed, what)), *[*shown, "-", "-"][:2]])
    heads = ("method", "checks", "cpu: class-IL", f"{device}: class-IL")
    passed = all(row[1] == _cell(_Outcome("", True, "")) for row in rows)
    return Table("", [Column(head, "left") for head in heads], rows), passed


def _cell(outcome: _Outcome) -> Marked:
    text = f": {outcome.detail}" if outcome.detail else ""
    return Marked(f"passed{text}", "better") if outcome.passed else Marked(f"FAILED{text}", "worse")


@dataclass
class _Trail(Callback):
    """Follows a run: terms, size of the memory, and states at chosen moments."""

    stops: frozenset[str] = frozenset()
    states: dict[str, bytes] = field(default_factory=dict)
    largest: int = 0
    steps: int = 0

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            where = f"task {row['task'] + 1}, step {row['step']}"
            if len(row) == len(_WHERE):
                raise _Failure(f"no term is minimized at {where}")
            for name, value in row.items():
                if not math.isfinite(value):
                    raise _Failure(f"the term '{name}' is {value} at {where}")

    def on_step_end(self, learner: Learner) -> None:
        learner.log_terms()
        self.largest = max(self.largest, len(learner.ctx.memory))
        self.steps = learner.position.total_steps
        self._stop(f"step {self.steps}", learner)

    def on_task_trained(self, learner: Learner) -> None:
        self._stop(f"the end of training of task {learner.position.task + 1}", learner)

    def on_task_end(self, learner: Learner) -> None:
        self.largest = max(self.largest, len(learner.ctx.memory))
        self._stop(f"the end of task {learner.position.task}", learner)

    def _stop(self, name: str, learner: Learner) -> None:
        if name in self.stops:
            content = io.BytesIO()
            torch.save(learner.state_dict(), content)
            self.states[name] = content.getvalue()


@dataclass
class _Subject:
    """A method with plug-ins, and the run that the others are compared with."""

    method: str
    plugins: tuple[str, ...] = ()
    device: str = "cpu"

    def settings(self, stream: str, buffer: int) -> RunSpec:
        request = RunRequest(stream, self.method, self.plugins, buffer, scale="smoke", settings=_SETTINGS)
        return request.resolve()

    def learn(
        self, trail: _Trail, state: bytes = b"", *, stream: str = _STREAM, buffer: int = _BUFFER, **build: Any
    ) -> Learner:
        """Learn a whole stream, or the rest of it from a state on."""
        spec = self.settings(stream, buffer)
        opened, encoder = open_inputs(spec, None, device=self.device)
        build |= {"encoder": encoder, "callbacks": [trail], "device": self.device}
        learner = build_learner(spec.config, opened, **build)
        if state:
            learner.load_state_dict(torch.load(io.BytesIO(state), weights_only=True))
        learner.learn(opened)
        return learner

    @cached_property
    def first(self) -> tuple[Learner, _Trail]:
        """The undisturbed run, with states saved on the way."""
        # Inside the first of two epochs, inside the second task, and around the end of a task and of the run.
        ends = {f"the end of {what} {task}" for what in ("training of task", "task") for task in (2, 3)}
        trail = _Trail(frozenset({"step 3", "step 10"} | ends))
        with _global_seed(1):
            return self.learn(trail), trail


def _fingerprint(learner: Learner) -> dict[str, Any]:
    """What must be equal, bit for bit, if two runs are one."""
    ctx = learner.ctx
    state = {f"{number}": part for number, part in enumerate(learner.state_dict()["components"])}
    return {
        "the weights": digest(ctx.modules.state_dict()),
        "the predictor": digest(ctx.predictor.state_dict() if ctx.predictor else {}),
        "the memory": digest(ctx.memory.rows()),
        "the method's state": digest(dict(_tensors(state, "state"))),
        "the random generators": digest(ctx.random.state_dict()),
        "the accuracies": (learner.class_il, learner.task_il),
    }


def _compare(one: Learner, other: Learner, when: str) -> None:
    mine, its = _fingerprint(one), _fingerprint(other)
    if different := [name for name in mine if mine[name] != its[name]]:
        raise _Failure(f"{' and '.join(different)} differ {when}")


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Another state of torch's global generator, which a method must not draw from."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _learns(subject: _Subject) -> str:
    """The whole stream is learned, with finite terms and a last batch of one sample."""
    learner, trail = subject.first
    return f"{trail.steps} steps, {len(learner.ctx.memory)} rows remembered"


def _reproducible(subject: _Subject) -> None:
    learner, _ = subject.first
    with _global_seed(2):
        again = subject.learn(_Trail())
    _compare(learner, again, "in a second run with the same seed: draw from ctx.random only")


def _resumes(subject: _Subject) -> str:
    _compare_resumed(subject, *subject.first, ": return all you keep from state_dict")
    return f"at {len(subject.first[1].states)} places"


def _compare_resumed(subject: _Subject, learner: Learner, trail: _Trail, hint: str, **build: Any) -> None:
    for name, content in trail.states.items():
        _compare(learner, subject.learn(_Trail(), content, **build), f"after a restart at {name}{hint}")


def _budget(subject: _Subject) -> None:
    trails = {_BUFFER: subject.first[1], 1: _Trail(), 0: _Trail()}
    for buffer, trail in trails.items():
        if buffer != _BUFFER:
            subject.learn(trail, buffer=buffer)
        if trail.largest > buffer:
            raise _Failure(f"the memory held {trail.largest} rows, and {buffer} are allowed")


def _past(subject: _Subject) -> str:
    learner, _ = subject.first
    if learner.method.pool == "everything":
        return "exempt: the method declares that it sees all tasks"
    when = "when the training images of past tasks are wiped out: keep samples in ctx.memory"
    _compare(learner, subject.learn(_Forgetful()), when)
    return ""


def _single_samples(subject: _Subject) -> None:
    for buffer in (1, _BUFFER):
        subject.learn(_Trail(), stream=_LONE, buffer=buffer)


def _unannounced(subject: _Subject) -> str:
    """Tasks and classes that were not announced are learned, and such a run resumes, too."""
    trail = _Trail(frozenset({"step 10", "the end of task 2"}))
    learner = subject.learn(trail, announced=False)
    _compare_resumed(subject, learner, trail, " with classes that were not announced", announced=False)
    return f"heads for {learner.ctx.num_classes} classes"


def _task_il(subject: _Subject) -> None:
    learner, _ = subject.first
    for row, (in_class, in_task) in enumerate(zip(learner.class_il, learner.task_il, strict=True)):
        for c, t in zip(in_class, in_task, strict=True):
            if not t >= c:
                raise _Failure(f"after task {row + 1} task-IL is {t}, class-IL {c}: scores must be numbers")


CHECKS: Mapping[str, Callable[[_Subject], str | None]] = {
    "learns, every term finite": _learns,
    "reproducible from the seed": _reproducible,
    "resumes bit for bit": _resumes,
    "memory within its budget": _budget,
    "sees of the past its memory alone": _past,
    "single-sample classes": _single_samples,
    "classes that were not announced": _unannounced,
    "task-IL at least class-IL": _task_il,
}
"""The checks by name; each returns a remark or nothing, and raises if it fails."""


class _Forgetful(_Trail):
    """Wipes out a task's images once it is complete, and looks for copies that the method has kept."""

    def on_task_end(self, learner: Learner) -> None:
        images = learner.ctx.task.train.x
        images.zero_()  # a reference that was kept sees black, too
        for component in learner.components:
            for place in (component.state_dict(), vars(component)):
                for name, value in _tensors(place, type(component).__name__):
                    if value.ndim == 4 and value.shape[1:] == images.shape[1:] and len(value):
                        raise _Failure(f"{name} holds {len(value)} images outside the memory after a task")


def _tensors(place: object, name: str) -> Iterator[tuple[str, Tensor]]:
    """Find tensors in nested containers, with the path that leads to each."""
    if isinstance(place, Tensor):
        yield name, place
    elif isinstance(place, (Buffer, Samples)):
        yield from _tensors(place.rows() if isinstance(place, Buffer) else vars(place), name)
    elif isinstance(place, Mapping):
        for key, value in place.items():
            yield from _tensors(value, f"{name}.{key}")
    elif isinstance(place, (list, tuple)):
        for number, value in enumerate(place):
            yield from _tensors(value, f"{name}[{number}]")
