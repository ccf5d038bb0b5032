"""A run that cannot be lost: it has a folder, saves itself, and continues bit for bit where it was cut off."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from gplasc.config import Scale
from gplasc.errors import UserError
from gplasc.learning import checkpoint
from gplasc.learning.learner import Learner
from gplasc.progress import Display, Moment, duration
from gplasc.progress import display as open_display
from gplasc.resolve import Resolved, resolve
from gplasc.results.folder import TERMS, WEIGHTS, TermLog, held, read_record, write_record
from gplasc.results.record import build_record
from gplasc.streams import Stream, open_stream

_LOOK_EVERY = 20  # steps between two looks at the terms, each of which waits for the device


class Interrupted(Exception):
    """The run was asked to stop and is saved."""


class NotFinite(UserError):
    """A loss term is infinite or not a number."""


@dataclass(frozen=True)
class Result:
    """A complete run: its record (see `gplasc.results.record`) and its folder."""

    record: dict[str, Any]
    folder: Path

    @property
    def run_id(self) -> str:
        """The hash of the settings."""
        return str(self.record["run_id"])

    def metric(self, name: str = "final_accuracy", scenario: str = "class_il") -> float:
        """Return one metric, class-incremental by default."""
        return float(self.record["metrics"][scenario][name])


def run(
    stream: str | Stream,
    method: str,
    plugins: tuple[str, ...] | list[str] | str = (),
    *,
    buffer: int | None = None,
    seed: int = 0,
    scale: Scale = "cpu",
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Result:
    """Learn a stream with a method and return the result; the same as ``gplasc run``.

    A run that is complete is not computed again; one that was cut off continues. ``settings`` are names as in
    ``gplasc show``: ``run("seq-digits", "co2l", ["gplasc"], margin=0.2, **{"train.lr": 0.1})``.
    """
    name = stream if isinstance(stream, str) else stream.name
    plugins = (plugins,) if isinstance(plugins, str) else tuple(plugins)
    resolved = resolve(name, method, plugins, buffer=buffer, seed=seed, scale=scale, settings=settings)
    return execute(
        resolved,
        out=Path(out),
        stream=None if isinstance(stream, str) else stream,
        data_dir=data_dir,
        device=device,
        display=open_display(quiet),
    )


def execute(
    resolved: Resolved,
    *,
    out: Path,
    stream: Stream | None = None,
    data_dir: str | Path | None = None,
    device: str | None = None,
    display: Display,
    save_every: float = 60.0,
    save_steps: int | None = None,
    tensorboard: bool = False,
) -> Result:
    """Compute a run, or what is left of it, in ``out/RUN_ID``."""
    config = resolved.config
    folder = out / config.run_id
    try:
        if (record := read_record(folder)) is not None:
            display.say(f"{config.title} on {config.stream}: complete already, see {folder}")
            return Result(record, folder)
        with held(folder):
            if (record := read_record(folder)) is not None:  # another process has just finished it
                return Result(record, folder)
            stream = stream or open_configured_stream(resolved, data_dir)
            for note in stream.notes:
                display.say(note)
            keeper = Keeper(
                folder, display, save_every=save_every, save_steps=save_steps, tensorboard=tensorboard
            )
            learner = Learner(config, stream, device=device or default_device(), watcher=keeper)
            keeper.resume(learner)
            with keeper.heeding_signals():
                learner.learn()
            record = build_record(resolved, learner)
            _save_weights(folder / WEIGHTS, learner)
            write_record(folder, record)
            checkpoint.delete_all(folder)
            return Result(record, folder)
    finally:
        display.close()


def open_configured_stream(resolved: Resolved, data_dir: str | Path | None) -> Stream:
    """Open the stream as the settings want it."""
    data = resolved.config.data
    return open_stream(
        resolved.config.stream,
        data_dir=data_dir,
        classes_per_task=data.classes_per_task,
        class_order_seed=data.class_order_seed,
        images_per_class=data.images_per_class,
        test_images_per_class=data.test_images_per_class,
        image_size=data.image_size,
        validation=data.validation,
        skip_corrupt=data.skip_corrupt,
    )


def default_device() -> str:
    """Return the accelerator if there is one."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _save_weights(path: Path, learner: Learner) -> None:
    from safetensors.torch import save

    from gplasc.files import write_atomic

    tensors = {
        name: value.contiguous()
        for name, value in learner.ctx.modules.state_dict().items()
        if isinstance(value, Tensor)
    }
    if learner.predictor is not None and not isinstance(
        learner.predictor, type(learner.ctx.network.classifier)
    ):
        tensors |= {f"predictor.{k}": v.contiguous() for k, v in learner.predictor.state_dict().items()}
    write_atomic(path, save({name: value.clone() for name, value in tensors.items()}))


class Keeper:
    """Watches a run: logs its terms, checks that they are finite, saves it in time, stops it when asked."""

    def __init__(
        self,
        folder: Path,
        display: Display,
        *,
        save_every: float,
        save_steps: int | None = None,
        tensorboard: bool = False,
    ) -> None:
        self.folder = folder
        self.display = display
        self._save_every = save_every
        self._save_steps = save_steps
        self._saved_at = time.monotonic()
        self._log = TermLog(folder / TERMS)
        self._waiting: list[tuple[dict[str, Any], list[str], Tensor]] = []
        self._stop: int | None = None
        self._pace = _Pace()
        self._board = _tensorboard(folder) if tensorboard else None

    def resume(self, learner: Learner) -> None:
        """Load the newest sound checkpoint, if there is one."""
        state, damaged = checkpoint.load_newest(self.folder)
        for path in damaged:
            self.display.say(f"the checkpoint {path.name} is damaged; using the one before it")
        if state is not None:
            learner.load_state_dict(state["learner"])
            self.display.say(
                f"continuing {learner.config.title} at task {learner.position.task + 1}, "
                f"epoch {learner.position.epoch + 1}, step {learner.position.total_steps}"
            )
        self._log.resume(state["log_size"] if state is not None else 0)

    def step(self, learner: Learner, terms: Mapping[str, Tensor], lr: float, images: int) -> None:
        """Note the terms; now and then look at them and save."""
        position = learner.position
        where = {
            "task": position.task,
            "epoch": position.epoch,
            "step": position.total_steps,
            "lr": lr,
        }
        self._waiting.append((where, list(terms), torch.stack(list(terms.values()))))
        self._pace.add(images)
        if len(self._waiting) >= _LOOK_EVERY:
            self._look(learner)
        if self._stop is not None:
            self._save(learner)
            raise Interrupted
        due = time.monotonic() - self._saved_at >= self._save_every
        if due or (self._save_steps and position.total_steps % self._save_steps == 0):
            self._save(learner)

    def trained(self, learner: Learner) -> None:
        """Save before predictor, memory and evaluation, which are done again if they are cut off."""
        self._save(learner)
        self.display.phase("predictor")

    def evaluated(self, learner: Learner) -> None:
        """Report the accuracies of the task just learned, and save."""
        in_class, in_task = learner.class_il[-1], learner.task_il[-1]
        seen = [value for value in in_class if value is not None]
        told = [value for value in in_task if value is not None]
        spent = sum(learner.timings[-1].values())
        self.display.say(
            f"{learner.config.title}: task {learner.position.task}/{len(learner.stream)} learned, "
            f"class-IL {sum(seen) / len(seen):.2f}, task-IL {sum(told) / len(told):.2f} ({duration(spent)})"
        )
        if self._board is not None:
            self._board.add_scalar("accuracy/class_il", sum(seen) / len(seen), learner.position.total_steps)
            self._board.add_scalar("accuracy/task_il", sum(told) / len(told), learner.position.total_steps)
        self._save(learner)

    def pulse(self, phase: str, done: float) -> None:
        """Stop between two pieces of work outside training; a checkpoint lies right before it."""
        self.display.phase(f"{phase} {done:.0%}")
        if self._stop is not None:
            raise Interrupted

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Turn Ctrl-C and SIGTERM into a request to save and stop; a second one is obeyed at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, frame: FrameType | None) -> None:
            if self._stop is not None:
                raise KeyboardInterrupt
            self._stop = number

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _look(self, learner: Learner) -> None:
        """Bring the waiting terms to the CPU, check them, log them, show the last ones."""
        if not self._waiting:
            return
        rows = []
        values = [terms.tolist() for _, _, terms in self._waiting]
        for (where, names, _), row in zip(self._waiting, values, strict=True):
            terms = dict(zip(names, row, strict=True))
            for name, value in terms.items():
                if value - value != 0:  # infinite or not a number
                    raise NotFinite(
                        f"the term '{name}' is {value} at task {where['task'] + 1}, epoch {where['epoch'] + 1}, "
                        f"step {where['step']}; the checkpoint before it is kept in {self.folder}: lower the learning "
                        "rate or the term's weight"
                    )
            rows.append({**where, **terms})
        self._waiting.clear()
        self._log.write(rows)
        if self._board is not None:
            for name in terms:
                self._board.add_scalar(f"terms/{name}", terms[name], where["step"])
        total = learner.total_steps
        rate, left = self._pace.estimate(learner.position.total_steps, total)
        self.display.show(
            Moment(
                title=learner.config.title,
                task=where["task"],
                tasks=len(learner.stream),
                epoch=where["epoch"],
                epochs=learner.ctx.epochs,
                done=learner.position.total_steps,
                total=total,
                images_per_second=rate,
                seconds_left=left,
                terms=terms,
            )
        )

    def _save(self, learner: Learner) -> None:
        self._look(learner)
        state = {"learner": learner.state_dict(), "log_size": self._log.size}
        number = 2 * learner.position.total_steps + learner.position.task  # grows with every kind of progress
        checkpoint.save(self.folder, number, state)
        self._saved_at = time.monotonic()


class _Pace:
    """Images and steps per second since the run was started or continued."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._images = 0
        self._steps = 0

    def add(self, images: int) -> None:
        self._images += images
        self._steps += 1

    def estimate(self, done: int, total: int) -> tuple[float, float]:
        spent = max(time.monotonic() - self._start, 1e-9)
        return self._images / spent, (total - done) * spent / max(self._steps, 1)


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "--tensorboard needs the extra 'tensorboard': pip install 'gplasc[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder))
