"""The picture of a study: its accuracies in the order of the trials, and which settings mattered."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.report.style import FAINT, INK, STRUCTURE, color, paper_style, save_figure

if TYPE_CHECKING:
    from optuna import Study


def importances(study: Study) -> dict[str, float]:
    """Return how much of the variance of the accuracy each setting explains (fANOVA), the largest first.

    Only complete trials count. Empty if there are fewer than two, or all have the same accuracy.
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    values = {t.value for t in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))}
    if len(values) < 2:
        return {}
    return dict(get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0)))


def plot_study(study: Study, path: Path) -> Path:
    """Draw the study as SVG.

    Args:
        study: The study.
        path: The file to write, ending in ``.svg``.

    Returns:
        The path.

    Raises:
        UserError: If matplotlib is missing.
    """
    from optuna.trial import TrialState

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    pruned = [
        t for t in study.get_trials(deepcopy=False, states=(TrialState.PRUNED,)) if t.intermediate_values
    ]
    weights = importances(study)
    with paper_style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(7.4, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        numbers = [t.number for t in complete]
        accuracies = [t.value or 0.0 for t in complete]
        left.step(
            numbers,
            list(itertools.accumulate(accuracies, max)),
            where="post",
            color=STRUCTURE,
            label="best so far",
        )
        left.plot(
            numbers, accuracies, "o", color=color(0), markersize=4, label="complete, after the last task"
        )
        if pruned:
            ended = [t.intermediate_values[max(t.intermediate_values)] for t in pruned]
            left.plot(
                [t.number for t in pruned],
                ended,
                "x",
                color=FAINT,
                markersize=4.5,
                label="pruned, when it ended",
            )
        left.set(xlabel="trial", ylabel="class-IL accuracy on validation, %", title="History")
        left.xaxis.set_major_locator(MaxNLocator(integer=True))
        left.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, handletextpad=0.4, columnspacing=1.2
        )
        names = list(reversed(weights))
        right.barh(names, [weights[name] for name in names], color=color(0), height=0.6)
        for index, name in enumerate(names):
            right.text(
                weights[name] + 0.01, index, f"{weights[name]:.2f}", va="center", color=INK, fontsize=7
            )
        right.set(xlim=(0, 1.08), xlabel="share of the variance explained", title="What mattered (fANOVA)")
        right.grid(axis="y", visible=False)
        if not weights:
            right.set_yticks([])
            right.text(
                0.5, 0.5, "two different complete trials are needed", ha="center", transform=right.transAxes
            )
        return save_figure(figure, path.with_suffix(""), (".svg",))[0]
