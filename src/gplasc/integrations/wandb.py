"""Terms and accuracies for Weights & Biases."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from gplasc.errors import UserError
from gplasc.learning import Callback
from gplasc.learning.learner import Learner


class WeightsAndBiases(Callback):
    """Logs a run: ``gplasc.run(..., callbacks=[WeightsAndBiases(project="continual")])``.

    Args:
        project: The project; default: that of the environment.
        name: The name of the run; default: method and plug-ins.
        group: The group of the run, for example for all seeds of one setting.
        mode: "online", "offline" or "disabled"; default: that of the environment.
        run: A run that is open already, instead of all of the above.
    """

    def __init__(
        self,
        *,
        project: str | None = None,
        name: str | None = None,
        group: str | None = None,
        mode: str | None = None,
        run: Any = None,
    ) -> None:
        self._options = {"project": project, "name": name, "group": group, "mode": mode}
        self._run = run

    def on_task_begin(self, learner: Learner) -> None:
        """Open the run before the first step, with all settings."""
        self._open(learner)

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log the terms of every step."""
        run = self._open(learner)
        for row in rows:
            run.log({f"terms/{name}": value for name, value in row.items()}, step=row["step"])

    def on_task_end(self, learner: Learner) -> None:
        """Log the mean accuracies and the accuracy on each task."""
        in_class, in_task = learner.class_il[-1], learner.task_il[-1]
        values = {"accuracy/class_il": fmean(in_class), "accuracy/task_il": fmean(in_task)}
        values |= {f"class_il/task {task + 1}": value for task, value in enumerate(in_class)}
        self._open(learner).log(values, step=learner.position.total_steps, commit=True)

    def _open(self, learner: Learner) -> Any:
        """Return the run; a run that resumes inside a task has no `on_task_begin`."""
        if self._run is None:
            try:
                import wandb
            except ImportError:
                raise UserError("Weights & Biases is not installed: pip install wandb") from None
            options = {**self._options, "name": self._options["name"] or learner.config.title}
            # Without "create_new" a second run of the same process would be logged into the first.
            self._run = wandb.init(**options, config=learner.config.flat(), reinit="create_new")
        return self._run
